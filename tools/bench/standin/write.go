package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A refusal is an answer with a Status that is a failure.
type refusal struct {
	code            int
	reason, message string
	details         map[string]any
}

func (r *refusal) Error() string { return r.message }

func (k *kind) refuse(code int, reason, name, message string, causes ...any) *refusal {
	details := map[string]any{"name": name, "kind": k.plural}
	if k.group != "" {
		details["group"] = k.group
	}
	if len(causes) > 0 {
		details["causes"] = causes
	}
	return &refusal{code, reason, message, details}
}

func (k *kind) notFound(name string) *refusal {
	return k.refuse(http.StatusNotFound, "NotFound", name, fmt.Sprintf("%s %q not found", k.resource(), name))
}

func (k *kind) modified(name, why string) *refusal {
	return k.refuse(http.StatusConflict, "Conflict", name, fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", k.resource(), name, why))
}

func (k *kind) invalid(code int, reason, message string) *refusal {
	return &refusal{code: code, reason: reason, message: message}
}

const stale = "the object has been modified; please apply your changes to the latest version and try again"

// A write is a request to change one object.
type write struct {
	store                        *store
	kind                         *kind
	namespace, name, subresource string
	manager, how                 string
	force                        bool
	body                         map[string]any
}

func decoded(raw []byte) (any, error) {
	reader := json.NewDecoder(bytes.NewReader(raw))
	reader.UseNumber()
	var found any
	err := reader.Decode(&found)
	return found, err
}

// mine says which parts of a document a request may change: a request for the status only that, others everything else.
func (w *write) mine(part string) bool {
	switch {
	case part == "apiVersion" || part == "kind" || part == "metadata" && w.subresource != "":
		return false
	case !w.kind.status:
		return true
	}
	return (part == "status") == (w.subresource == "status")
}

// document is the part of an object that this request may change, decoded.
func (w *write) document(o *object) map[string]any {
	found := map[string]any{}
	for name, each := range o.parts {
		if w.mine(name) {
			found[name] = each.decoded()
		}
	}
	return found
}

// intent is the part of the request's body that counts.
func (w *write) intent() map[string]any {
	found := map[string]any{}
	for name, each := range w.body {
		if metadata, ok := each.(map[string]any); ok && name == "metadata" && w.mine(name) {
			ours := map[string]any{}
			for field, value := range metadata {
				if !serverSet[field] {
					ours[field] = value
				}
			}
			found[name] = ours
		} else if w.mine(name) {
			found[name] = each
		}
	}
	return found
}

// asked is a text in the metadata of the request's body.
func (w *write) asked(name string) string {
	metadata, _ := w.body["metadata"].(map[string]any)
	text, _ := metadata[name].(string)
	return text
}

// stored is an object with another document, and whether any part of it differs.
func (w *write) stored(old *object, after map[string]any) (*object, bool) {
	made := object{namespace: w.namespace, name: w.name, uid: newUID(), created: stamp(), parts: map[string]part{}}
	if old != nil {
		made = *old
		made.parts = maps.Clone(old.parts)
	} else if w.kind.custom {
		made.generation = 1
	}
	differs, bump := false, false
	for name := range made.parts {
		if _, kept := after[name]; !kept && w.mine(name) && name != "metadata" {
			delete(made.parts, name)
			differs, bump = true, bump || name != "status"
		}
	}
	for name, each := range after {
		if metadata, ok := each.(map[string]any); ok && name == "metadata" {
			each = filled(metadata)
		}
		raw := encoded(each)
		if was, existed := made.parts[name]; existed && bytes.Equal(was.raw, raw) {
			continue
		}
		next := part{raw: raw}
		if old != nil {
			next.tree = each
		}
		made.parts[name] = next
		differs, bump = true, bump || name != "status" && name != "metadata"
		if name == "metadata" {
			made.labels, made.held = labelsOf(each), len(listOf(each, "finalizers")) > 0
		}
	}
	if old != nil && w.kind.custom && bump {
		made.generation++
	}
	return &made, differs
}

// filled is a metadata without its empty maps and lists.
func filled(metadata map[string]any) map[string]any {
	kept := map[string]any{}
	for name, each := range metadata {
		inner, isMap := each.(map[string]any)
		items, isList := each.([]any)
		if isMap && len(inner) > 0 || isList && len(items) > 0 || !isMap && !isList {
			kept[name] = each
		}
	}
	return kept
}

func labelsOf(metadata any) map[string]string {
	labels, _ := metadata.(map[string]any)["labels"].(map[string]any)
	found := make(map[string]string, len(labels))
	for name, value := range labels {
		found[name], _ = value.(string)
	}
	return found
}

func listOf(object any, name string) []any {
	found, _ := object.(map[string]any)[name].([]any)
	return found
}

func (w *write) create() (*object, error) {
	if w.name = w.asked("name"); w.name == "" {
		return nil, w.kind.invalid(http.StatusUnprocessableEntity, "Invalid", "name or generateName is required; the stand-in knows only names")
	}
	if w.kind.namespaced && w.store.find("", "v1", "namespaces").get("", w.namespace) == nil {
		return nil, w.store.find("", "v1", "namespaces").notFound(w.namespace)
	}
	after := w.intent()
	made, _ := w.stored(nil, after)
	made.owners = w.taken(nil, map[string]any{}, after)
	if !w.store.commit(w.kind, nil, made, false) {
		return nil, w.kind.refuse(http.StatusConflict, "AlreadyExists", w.name, fmt.Sprintf("%s %q already exists", w.kind.resource(), w.name))
	}
	return made, nil
}

// taken are the owners after a change that is not an apply: its manager owns what it changed, and no other does.
func (w *write) taken(owners []owner, before, after map[string]any) []owner {
	changed := w.kind.shape.changed("", before, after)
	removed := w.kind.shape.changed("", after, before).minus(changed)
	return w.given(owners, changed, changed.union(removed), true)
}

// self is the owner that the request's manager is.
func (w *write) self() owner {
	return owner{manager: w.manager, operation: w.how, subresource: w.subresource, version: w.kind.apiVersion()}
}

// given are the owners after the request's manager took fields (added to its own, if asked) and all others lost some.
func (w *write) given(owners []owner, set, lost fields, adding bool) []owner {
	now := stamp()
	mine := w.self()
	made := make([]owner, 0, len(owners)+1)
	found := false
	for _, each := range owners {
		switch rest := each.set; {
		case each.same(mine):
			found = true
			if adding {
				rest = rest.minus(lost).union(set)
			} else {
				rest = set
			}
			if !rest.equal(each.set) {
				each = each.holding(rest, now)
			}
			made = append(made, each)
		case len(each.set.both(lost)) == 0:
			made = append(made, each)
		default:
			if rest = each.set.minus(lost); len(rest) > 0 {
				made = append(made, each.holding(rest, each.time))
			}
		}
	}
	if !found && len(set) > 0 {
		made = append(made, mine.holding(set, now))
	}
	return made
}

// change carries out one attempt after another until no other write came between.
func (w *write) change(to func(old *object, before map[string]any) (map[string]any, []owner, error)) (*object, error) {
	for {
		old := w.kind.get(w.namespace, w.name)
		if old == nil {
			return nil, w.kind.notFound(w.name)
		}
		if version := w.asked("resourceVersion"); version != "" && version != strconv.FormatUint(old.version, 10) {
			return nil, w.kind.modified(w.name, stale)
		}
		if uid := w.asked("uid"); uid != "" && uid != old.uid {
			return nil, w.kind.modified(w.name, fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.uid))
		}
		before := w.document(old)
		after, owners, err := to(old, before)
		if err != nil {
			return nil, err
		}
		made, differs := w.stored(old, after)
		if !differs && slices.EqualFunc(owners, old.owners, owner.equal) {
			return old, nil
		}
		made.owners = owners
		if w.store.commit(w.kind, old, made, made.deleted != "" && !made.held) {
			return made, nil
		}
	}
}

// update replaces the document: a PUT, or a merge patch.
func (w *write) update(next func(before map[string]any) map[string]any) (*object, error) {
	return w.change(func(old *object, before map[string]any) (map[string]any, []owner, error) {
		after := next(before)
		return after, w.taken(old.owners, before, after), nil
	})
}

// merged is a JSON merge patch (RFC 7386).
func merged(old any, patch map[string]any) map[string]any {
	before, _ := old.(map[string]any)
	made := make(map[string]any, len(before))
	maps.Copy(made, before)
	for name, each := range patch {
		if inner, ok := each.(map[string]any); ok {
			made[name] = merged(made[name], inner)
		} else if each == nil {
			delete(made, name)
		} else {
			made[name] = each
		}
	}
	return made
}

// apply is a server-side apply; it creates an object that does not exist.
func (w *write) apply() (*object, bool, error) {
	intent, shape := w.intent(), w.kind.shape
	set := shape.of("", intent)
	created := w.kind.get(w.namespace, w.name) == nil
	if created {
		if w.subresource != "" {
			return nil, false, w.kind.notFound(w.name)
		}
		if uid := w.asked("uid"); uid != "" {
			return nil, false, w.kind.modified(w.name, fmt.Sprintf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
		if w.kind.namespaced && w.store.find("", "v1", "namespaces").get("", w.namespace) == nil {
			return nil, false, w.store.find("", "v1", "namespaces").notFound(w.namespace)
		}
		made, _ := w.stored(nil, intent)
		made.owners = w.given(nil, set, nil, false)
		if w.store.commit(w.kind, nil, made, false) {
			return made, true, nil
		}
	}
	made, err := w.change(func(old *object, before map[string]any) (map[string]any, []owner, error) {
		return w.applied(old, before, intent, set)
	})
	return made, false, err
}

func (w *write) applied(old *object, before, intent map[string]any, set fields) (map[string]any, []owner, error) {
	shape, mine := w.kind.shape, w.self()
	after := shape.merge("", before, intent).(map[string]any)
	shared := false
	for _, each := range old.owners {
		if !each.same(mine) {
			shared = shared || len(each.set.both(set)) > 0
			continue
		}
		if dropped := each.set.minus(set); len(dropped) > 0 {
			kept := set
			for _, other := range old.owners {
				if !other.same(mine) {
					kept = kept.union(other.set)
				}
			}
			after = shape.without("", after, dropped, kept).(map[string]any)
		}
	}
	var lost fields
	if shared { // else no other owner can lose what this apply sets
		lost = shape.changed("", before, after).both(set)
	}
	if !w.force {
		if refused := w.conflicts(old, mine, lost); refused != nil {
			return nil, nil, refused
		}
	}
	return after, w.given(old.owners, set, lost, false), nil
}

func (w *write) conflicts(old *object, mine owner, lost fields) error {
	var causes []any
	var words []string
	for _, each := range old.owners {
		if each.same(mine) {
			continue
		}
		for _, path := range each.set.both(lost).paths("") {
			who := fmt.Sprintf("conflict with %q", each.manager)
			if each.subresource != "" {
				who += fmt.Sprintf(" with subresource %q", each.subresource)
			}
			if each.operation == "Update" {
				who += " using " + each.version
			}
			causes = append(causes, map[string]any{"reason": "FieldManagerConflict", "message": who, "field": path})
			words = append(words, who+": "+path)
		}
	}
	if len(causes) == 0 {
		return nil
	}
	message := fmt.Sprintf("Apply failed with %d conflicts: %s", len(causes), strings.Join(words, "; "))
	if len(causes) == 1 {
		message = "Apply failed with 1 conflict: " + words[0]
	}
	return &refusal{http.StatusConflict, "Conflict", message, map[string]any{"causes": causes}}
}

// remove deletes an object, or marks it as deleted while it has finalizers.
func (w *write) remove() (*object, bool, error) {
	for {
		old := w.kind.get(w.namespace, w.name)
		if old == nil {
			return nil, false, w.kind.notFound(w.name)
		}
		if conditions, ok := w.body["preconditions"].(map[string]any); ok {
			if uid, asked := conditions["uid"].(string); asked && uid != old.uid {
				return nil, false, w.kind.modified(w.name, fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.uid))
			}
		}
		if old.held && old.deleted != "" {
			return old, false, nil
		}
		made := *old
		if old.held {
			made.deleted = stamp()
			if w.kind.custom {
				made.generation++
			}
		}
		if w.store.commit(w.kind, old, &made, !old.held) {
			return &made, !old.held, nil
		}
	}
}
