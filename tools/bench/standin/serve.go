package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
)

// A server answers requests about the objects of a store. It knows one bearer token; what a client adds to the token is the name by which
// the bytes of its bodies are counted.
type server struct {
	store  *store
	token  string
	counts counts
}

// A form is how a request wants objects: whole, or their metadata.
type form bool

const metadataOnly form = true

func formOf(from *http.Request) form {
	return form(strings.Contains(from.Header.Get("Accept"), "as=PartialObjectMetadata"))
}

// A metered response counts the bytes of its body.
type metered struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (m *metered) Write(body []byte) (int, error) {
	m.sent.Add(int64(len(body)))
	return m.ResponseWriter.Write(body)
}

func (m *metered) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// A target is what a path names.
type target struct {
	group, version, namespace, plural, name, subresource string
}

// targetOf reads a path below /api or /apis; false for a path of another form.
func targetOf(path string) (target, bool) {
	words := strings.Split(strings.Trim(path, "/"), "/")
	var found target
	switch {
	case len(words) >= 3 && words[0] == "api":
		found.version, words = words[1], words[2:]
	case len(words) >= 4 && words[0] == "apis":
		found.group, found.version, words = words[1], words[2], words[3:]
	default:
		return found, false
	}
	if words[0] == "namespaces" && len(words) >= 3 && words[2] != "status" && words[2] != "finalize" {
		found.namespace, words = words[1], words[2:]
	}
	for index, into := range []*string{&found.plural, &found.name, &found.subresource} {
		if index < len(words) {
			*into = words[index]
		}
	}
	return found, len(words) <= 3
}

func (s *server) ServeHTTP(to http.ResponseWriter, from *http.Request) {
	to.Header().Set("Cache-Control", "no-cache, private")
	client, known := strings.CutPrefix(from.Header.Get("Authorization"), "Bearer "+s.token)
	if known && client != "" {
		moved := s.counts.client(client)
		moved.requests.Add(1)
		moved.received.Add(max(from.ContentLength, 0))
		to = &metered{to, &moved.sent}
	}
	if !known {
		fail(to, &refusal{code: http.StatusUnauthorized, reason: "Unauthorized", message: "Unauthorized"})
		return
	}
	target, ok := targetOf(from.URL.Path)
	if !ok {
		s.discover(to, from)
		return
	}
	kind := s.store.find(target.group, target.version, target.plural)
	if kind == nil || target.subresource != "" && !(target.subresource == "status" && kind.status) {
		notServed(to)
		return
	}
	verb, code := s.answer(to, from, kind, target)
	s.counts.add(counted{verb, kind.plural, target.subresource, kind.group, kind.version, code})
}

func notServed(to http.ResponseWriter) {
	to.Header().Set("Content-Type", "text/plain; charset=utf-8")
	to.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(to, "404 page not found\n")
}

// answer carries out a request; returns its verb and its status code for the metrics.
func (s *server) answer(to http.ResponseWriter, from *http.Request, kind *kind, target target) (string, int) {
	query := from.URL.Query()
	if from.Method == http.MethodGet && target.name == "" {
		if watching := query.Get("watch"); watching == "true" || watching == "1" {
			return "WATCH", s.watch(to, from, kind, target)
		}
		return "LIST", s.list(to, from, kind, target)
	}
	if from.Method == http.MethodGet {
		found := kind.get(target.namespace, target.name)
		if found == nil {
			return "GET", fail(to, kind.notFound(target.name))
		}
		return "GET", send(to, http.StatusOK, kind.shown(found, formOf(from)))
	}
	agent, _, _ := strings.Cut(from.UserAgent(), "/")
	request := &write{
		store: s.store, kind: kind, namespace: target.namespace, name: target.name, subresource: target.subresource,
		manager: query.Get("fieldManager"), how: "Update", force: query.Get("force") == "true",
	}
	if request.manager == "" {
		request.manager = agent
	}
	var raw []byte
	var err error
	if from.ContentLength >= 0 { // no growing buffer
		raw = make([]byte, from.ContentLength)
		_, err = io.ReadFull(from.Body, raw)
	} else {
		raw, err = io.ReadAll(from.Body)
	}
	if err != nil {
		return from.Method, fail(to, kind.invalid(http.StatusBadRequest, "BadRequest", err.Error()))
	}
	if len(raw) > 0 {
		body, err := decoded(raw)
		request.body, _ = body.(map[string]any)
		if err != nil || request.body == nil {
			return from.Method, fail(to, kind.invalid(http.StatusBadRequest, "BadRequest", "the body of the request is no JSON object"))
		}
	}
	return s.write(to, from, request)
}

func (s *server) write(to http.ResponseWriter, from *http.Request, request *write) (string, int) {
	kind, made, code := request.kind, (*object)(nil), http.StatusOK
	var err error
	verb := from.Method
	switch {
	case verb == http.MethodPost && request.name == "":
		code = http.StatusCreated
		made, err = request.create()
		if err == nil {
			s.created(kind, request.body)
		}
	case verb == http.MethodPut && request.name != "":
		made, err = request.update(func(map[string]any) map[string]any { return request.intent() })
	case verb == http.MethodPatch && request.name != "":
		switch media, _, _ := strings.Cut(from.Header.Get("Content-Type"), ";"); media {
		case "application/merge-patch+json":
			made, err = request.update(func(before map[string]any) map[string]any { return merged(before, request.intent()) })
		case "application/apply-patch+yaml":
			verb, request.how = "APPLY", "Apply"
			var created bool
			if made, created, err = request.apply(); created {
				code = http.StatusCreated
			}
		default:
			err = kind.invalid(http.StatusUnsupportedMediaType, "UnsupportedMediaType", fmt.Sprintf(
				"the body of the request was in an unknown format - accepted media types include: application/merge-patch+json, application/apply-patch+yaml (not %s)", media))
		}
	case verb == http.MethodDelete && request.name != "":
		return verb, s.remove(to, request)
	case verb == http.MethodDelete:
		items, version, _ := s.store.sorted(kind, request.namespace)
		for _, each := range items {
			one := *request
			one.name, one.namespace = each.name, each.namespace
			_, _, _ = one.remove()
		}
		return "DELETECOLLECTION", send(to, http.StatusOK, kind.page(items, version, "", 0, formOf(from)))
	default:
		err = kind.invalid(http.StatusMethodNotAllowed, "MethodNotAllowed", "the server does not allow this method on the requested resource")
	}
	if err != nil {
		return verb, fail(to, err)
	}
	return verb, send(to, code, kind.shown(made, formOf(from)))
}

func (s *server) remove(to http.ResponseWriter, request *write) int {
	found, removed, err := request.remove()
	if err != nil {
		return fail(to, err)
	}
	if !removed {
		return send(to, http.StatusOK, found.body)
	}
	details := map[string]any{"name": found.name, "kind": request.kind.plural, "uid": found.uid}
	if request.kind.group != "" {
		details["group"] = request.kind.group
	}
	return sendJSON(to, http.StatusOK, map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success", "details": details,
	})
}

// list answers with all objects or a page of them. A later page holds the objects as they are then, under the version of the first: a watch
// from that version repeats what changed between.
func (s *server) list(to http.ResponseWriter, from *http.Request, kind *kind, target target) int {
	query := from.URL.Query()
	chosen, err := selectorOf(query)
	if err != nil {
		return fail(to, kind.invalid(http.StatusBadRequest, "BadRequest", err.Error()))
	}
	items, version, _ := s.store.sorted(kind, target.namespace)
	items = chosen.of(items)
	if token := query.Get("continue"); token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		first, key, ok := strings.Cut(string(raw), " ")
		if version, _ = strconv.ParseUint(first, 10, 64); err != nil || !ok {
			return fail(to, kind.invalid(http.StatusBadRequest, "BadRequest", "continue key is not valid"))
		}
		items = items[sort.Search(len(items), func(i int) bool { return items[i].namespace+"/"+items[i].name > key }):]
	}
	more, left := "", 0
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && limit < len(items) {
		left = len(items) - limit
		items = items[:limit]
		more = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s/%s", version, items[limit-1].namespace, items[limit-1].name))
	}
	return send(to, http.StatusOK, kind.page(items, version, more, left, formOf(from)))
}

// page is the body of a list.
func (k *kind) page(items []*object, version uint64, more string, left int, as form) []byte {
	size := 256
	for _, each := range items {
		size += len(each.body) + 1
	}
	name, of := k.kind+"List", k.apiVersion()
	if as == metadataOnly {
		name, of = "PartialObjectMetadataList", metaVersion
	}
	body := fmt.Appendf(make([]byte, 0, size), `{"apiVersion":%q,"kind":%q,"metadata":{`, of, name)
	if k.custom && as != metadataOnly || more != "" {
		body = fmt.Appendf(body, `"continue":%q,`, more)
	}
	if more != "" {
		body = fmt.Appendf(body, `"remainingItemCount":%d,`, left)
	}
	body = fmt.Appendf(body, `"resourceVersion":"%d"},"items":[`, version)
	for index, each := range items {
		if index > 0 {
			body = append(body, ',')
		}
		if k.custom || as == metadataOnly {
			body = append(body, k.shown(each, as)...)
		} else { // the items of a built-in kind do not repeat their kind
			body = append(append(body, '{'), each.body[len(k.head)-len(metadataBegins):]...)
		}
	}
	return append(body, "]}"...)
}

// shown is an object as a client gets it.
func (k *kind) shown(o *object, as form) []byte {
	if as != metadataOnly {
		return o.body
	}
	metadata := o.body[len(k.head)-len(metadataBegins) : o.metadataEnds]
	return append(fmt.Appendf(make([]byte, 0, 128+len(metadata)), `{"kind":"PartialObjectMetadata","apiVersion":%q,%s`, metaVersion, metadata), '}')
}

func send(to http.ResponseWriter, code int, body []byte) int {
	to.Header().Set("Content-Type", "application/json")
	to.Header().Set("Content-Length", strconv.Itoa(len(body)))
	to.WriteHeader(code)
	_, _ = to.Write(body)
	return code
}

func sendJSON(to http.ResponseWriter, code int, value any) int {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return send(to, code, append(body, '\n'))
}

func fail(to http.ResponseWriter, err error) int {
	found := &refusal{code: http.StatusInternalServerError, reason: "InternalError", message: err.Error()}
	_ = errors.As(err, &found)
	return sendJSON(to, found.code, found.status())
}

func (r *refusal) status() map[string]any {
	found := map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{},
		"status": "Failure", "message": r.message, "reason": r.reason, "code": r.code,
	}
	if r.details != nil {
		found["details"] = r.details
	}
	return found
}
