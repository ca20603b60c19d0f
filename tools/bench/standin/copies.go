package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// A copies is a request for many objects at once, for measurements of size: names and namespaces are numbered, and their status is applied
// by the manager that is named, as a controller would have done.
type copies struct {
	Group, Version, Plural, Manager string
	Count, Namespaces               int
	Object, Status                  map[string]any
}

// copy creates them; the namespace of the first is that of the object, the others have a number behind it.
func (s *server) copy(to http.ResponseWriter, from *http.Request) int {
	var asked copies
	reader := json.NewDecoder(from.Body)
	reader.UseNumber()
	if err := reader.Decode(&asked); err != nil || asked.Namespaces < 1 {
		return fail(to, &refusal{code: http.StatusBadRequest, reason: "BadRequest", message: fmt.Sprint("no copies: ", err)})
	}
	kind := s.store.find(asked.Group, asked.Version, asked.Plural)
	if kind == nil {
		return fail(to, &refusal{code: http.StatusNotFound, reason: "NotFound", message: "no such kind"})
	}
	metadata := asked.Object["metadata"].(map[string]any)
	first := metadata["namespace"].(string)
	for number := range asked.Count {
		namespace := first
		if place := number % asked.Namespaces; place > 0 {
			namespace = fmt.Sprintf("%s-%d", first, place)
		}
		metadata["name"], metadata["namespace"] = fmt.Sprintf("item-%06d", number), namespace
		request := &write{store: s.store, kind: kind, namespace: namespace, manager: "bench", how: "Update", body: asked.Object}
		made, err := request.create()
		if err == nil && asked.Status != nil {
			status := &write{store: s.store, kind: kind, namespace: namespace, name: made.name, subresource: "status", manager: asked.Manager,
				how: "Apply", force: true, body: map[string]any{"status": asked.Status}}
			_, _, err = status.apply()
		}
		if err != nil {
			return fail(to, err)
		}
	}
	return sendJSON(to, http.StatusCreated, map[string]any{"created": asked.Count})
}
