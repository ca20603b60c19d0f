package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"sort"
	"strings"
)

// A fields is a set of fields in the form of fieldsV1: "." stands for the node itself, a field without entries is a leaf.
// Source of the rules: sigs.k8s.io/structured-merge-diff.
type fields map[string]fields

// A shape knows which lists of a kind are maps or sets, and which nodes are structs, by their path from the top ("status.conditions"); every
// other list is atomic.
type shape map[string][]string

var (
	isSet    = []string{}
	isStruct = []string{"."} // a node that is always there, so that no manager owns it
	ofEvery  = shape{"metadata": isStruct, "metadata.ownerReferences": {"uid"}, "metadata.finalizers": isSet}
	atomicIn = map[string]bool{"metadata.ownerReferences": true} // the items of these lists have one owner each
)

// shapeOf reads the list types of a structural schema.
func shapeOf(path string, schema map[string]any, into shape) shape {
	switch schema["x-kubernetes-list-type"] {
	case "map":
		for _, key := range schema["x-kubernetes-list-map-keys"].([]any) {
			into[path] = append(into[path], key.(string))
		}
	case "set":
		into[path] = isSet
	}
	if items, ok := schema["items"].(map[string]any); ok && into[path] != nil {
		shapeOf(path, items, into)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, each := range properties {
		shapeOf(below(path, name), each.(map[string]any), into)
	}
	return into
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// equal compares two sets; a set without entries and none are the same.
func (f fields) equal(other fields) bool {
	return maps.EqualFunc(f, other, fields.equal)
}

// itemKey is the name of an item of a list in fieldsV1.
func itemKey(keys []string, item any) string {
	if len(keys) == 0 {
		return "v:" + string(encoded(item))
	}
	found := map[string]any{}
	if object, ok := item.(map[string]any); ok {
		for _, key := range keys {
			found[key] = object[key]
		}
	}
	return "k:" + string(encoded(found))
}

func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// children lists what a value has below it, by its name in fieldsV1; nil if the value is a leaf.
func (s shape) children(path string, value any) map[string]any {
	switch node := value.(type) {
	case map[string]any:
		found := make(map[string]any, len(node))
		for name, each := range node {
			found["f:"+name] = each
		}
		return found
	case []any:
		keys, granular := s[path]
		if !granular {
			return nil
		}
		found := make(map[string]any, len(node))
		for _, item := range node {
			found[itemKey(keys, item)] = item
		}
		return found
	}
	return nil
}

// step is the path of a child: an item of a list has the path of its list.
func step(path, name string) string {
	if field, ok := strings.CutPrefix(name, "f:"); ok {
		return below(path, field)
	}
	return path
}

func (s shape) structural(path string) bool { return len(s[path]) == 1 && s[path][0] == "." }

// leaf says whether a value has one owner.
func (s shape) leaf(path, name string, value any) bool {
	if strings.HasPrefix(name, "v:") || strings.HasPrefix(name, "k:") && atomicIn[path] {
		return true
	}
	switch node := value.(type) {
	case map[string]any:
		return len(node) == 0
	case []any:
		return len(node) == 0 || s[path] == nil
	}
	return true
}

// of is the set of fields that an intent names.
func (s shape) of(path string, value any) fields {
	found := fields{}
	for name, each := range s.children(path, value) {
		to := step(path, name)
		if s.leaf(to, name, each) {
			if !s.structural(to) {
				found[name] = fields{}
			}
			continue
		}
		found[name] = s.of(to, each)
		if strings.HasPrefix(name, "k:") {
			found[name]["."] = fields{}
		}
	}
	return found
}

// changed is the set of fields that differ between two values, with the nodes that are new.
func (s shape) changed(path string, old, new any) fields {
	found, before := fields{}, s.children(path, old)
	for name, each := range s.children(path, new) {
		to := step(path, name)
		was, existed := before[name]
		if existed && reflect.DeepEqual(was, each) {
			continue
		}
		if s.leaf(to, name, each) {
			if !s.structural(to) {
				found[name] = fields{}
			}
			continue
		}
		if inner := s.changed(to, was, each); len(inner) > 0 || !existed {
			found[name] = inner
			if !existed && !s.structural(to) {
				inner["."] = fields{}
			}
		}
	}
	return found
}

// merge puts an intent over a value, and returns the result; neither is changed.
func (s shape) merge(path string, old, intent any) any {
	switch node := intent.(type) {
	case map[string]any:
		before, _ := old.(map[string]any)
		made := make(map[string]any, len(before)+len(node))
		for name, each := range before {
			made[name] = each
		}
		for name, each := range node {
			made[name] = s.merge(below(path, name), before[name], each)
		}
		return made
	case []any:
		keys, granular := s[path]
		before, _ := old.([]any)
		if !granular {
			return intent
		}
		made, places := append([]any{}, before...), map[string]int{}
		for place, item := range before {
			places[itemKey(keys, item)] = place
		}
		for _, item := range node {
			place, known := places[itemKey(keys, item)]
			switch {
			case !known:
				made = append(made, item)
			case len(keys) > 0 && !atomicIn[path]:
				made[place] = s.merge(path, made[place], item)
			default:
				made[place] = item
			}
		}
		return made
	}
	return intent
}

// without returns a value without these fields; a field of `kept` stays.
func (s shape) without(path string, value any, dropped, kept fields) any {
	gone := func(name string, each any) (any, bool) {
		drop, listed := dropped[name]
		if !listed {
			return each, false
		}
		keep, wanted := kept[name]
		if s.leaf(step(path, name), name, each) {
			return nil, !wanted
		}
		rest := s.without(step(path, name), each, drop, keep)
		return rest, !wanted && len(s.children(step(path, name), rest)) == 0
	}
	switch node := value.(type) {
	case map[string]any:
		made := make(map[string]any, len(node))
		for name, each := range node {
			if rest, removed := gone("f:"+name, each); !removed {
				made[name] = rest
			}
		}
		return made
	case []any:
		keys, granular := s[path]
		if !granular {
			return value
		}
		made := []any{}
		for _, item := range node {
			if rest, removed := gone(itemKey(keys, item), item); !removed {
				made = append(made, rest)
			}
		}
		return made
	}
	return value
}

func (f fields) union(other fields) fields {
	made := make(fields, len(f)+len(other))
	for name, each := range f {
		made[name] = each
	}
	for name, each := range other {
		made[name] = made[name].union(each)
	}
	return made
}

// minus is the set without the leaves of another; interior nodes go with their last field.
func (f fields) minus(other fields) fields {
	made := fields{}
	for name, each := range f {
		taken, listed := other[name]
		switch {
		case !listed:
			made[name] = each
		case len(each) > 0:
			if rest := each.minus(taken); len(rest) > 0 {
				made[name] = rest
			}
		}
	}
	return made
}

func (f fields) both(other fields) fields {
	made := fields{}
	for name, each := range f {
		if shared, listed := other[name]; listed {
			if inner := each.both(shared); len(inner) > 0 || len(each) == 0 || len(shared) == 0 {
				made[name] = inner
			}
		}
	}
	return made
}

// paths writes the leaves as the server's messages do: ".status.conditions[type=\"Ready\"].reason".
func (f fields) paths(prefix string) []string {
	var found []string
	for name, each := range f {
		at := prefix + "." + strings.TrimPrefix(name, "f:")
		if keys, ok := strings.CutPrefix(name, "k:"); ok {
			at = prefix + "[" + strings.Trim(strings.Replace(keys, `":`, "=", 1), `{}"`) + `"]`
		}
		switch {
		case name == ".":
		case len(each) == 0:
			found = append(found, at)
		default:
			found = append(found, each.paths(at)...)
		}
	}
	sort.Strings(found)
	return found
}

// An owner is an entry of managedFields with its set, and the entry as it is written.
type owner struct {
	manager, operation, subresource, version, time string
	set                                            fields
	entry                                          []byte
}

func (o owner) same(other owner) bool {
	return o.manager == other.manager && o.operation == other.operation && o.subresource == other.subresource && o.version == other.version
}

func (o owner) equal(other owner) bool { return bytes.Equal(o.entry, other.entry) }

func (o owner) holding(set fields, now string) owner {
	o.set, o.time = set, now
	o.entry = fmt.Appendf(nil, `{"apiVersion":%q,"fieldsType":"FieldsV1","fieldsV1":%s,"manager":%q,"operation":%q`, o.version, encoded(set), o.manager, o.operation)
	if o.subresource != "" {
		o.entry = fmt.Appendf(o.entry, `,"subresource":%q`, o.subresource)
	}
	o.entry = fmt.Appendf(o.entry, `,"time":%q}`, o.time)
	return o
}
