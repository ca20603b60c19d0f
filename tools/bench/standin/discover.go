package main

import (
	"fmt"
	"net/http"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

var verbs = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}

// discover answers what is no resource: discovery, OpenAPI, health, version, metrics.
func (s *server) discover(to http.ResponseWriter, from *http.Request) {
	words := strings.Split(strings.Trim(from.URL.Path, "/"), "/")
	switch path := strings.Join(words, "/"); {
	case path == "version":
		sendJSON(to, http.StatusOK, map[string]any{"major": "1", "minor": "36", "gitVersion": "v1.36.3+standin", "platform": "linux/amd64"})
	case path == "healthz" || path == "livez" || path == "readyz":
		to.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = to.Write([]byte("ok"))
	case path == "metrics":
		s.counts.write(to)
	case path == "copies" && from.Method == http.MethodPost:
		s.copy(to, from)
	case path == "api":
		sendJSON(to, http.StatusOK, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}, "serverAddressByClientCIDRs": []any{
			map[string]any{"clientCIDR": "0.0.0.0/0", "serverAddress": from.Host}}})
	case path == "apis":
		sendJSON(to, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": s.groups("")})
	case len(words) == 2 && words[0] == "apis" && len(s.groups(words[1])) > 0:
		group := s.groups(words[1])[0]
		group["kind"], group["apiVersion"] = "APIGroup", "v1"
		sendJSON(to, http.StatusOK, group)
	case len(words) == 2 && words[0] == "api" && words[1] == "v1":
		s.resources(to, "", "v1")
	case len(words) == 3 && words[0] == "apis" && len(s.groups(words[1])) > 0:
		s.resources(to, words[1], words[2])
	case len(words) >= 4 && words[0] == "openapi" && words[1] == "v3":
		s.openapi(to, words[3:])
	default:
		notServed(to)
	}
}

func (s *server) groups(wanted string) []map[string]any {
	found := []map[string]any{}
	seen := map[string]bool{"": true}
	for _, each := range s.store.all() {
		if seen[each.group] || wanted != "" && each.group != wanted {
			continue
		}
		seen[each.group] = true
		version := map[string]any{"groupVersion": each.apiVersion(), "version": each.version}
		found = append(found, map[string]any{"name": each.group, "versions": []any{version}, "preferredVersion": version})
	}
	return found
}

func (s *server) resources(to http.ResponseWriter, group, version string) {
	found := []any{}
	for _, each := range s.store.all() {
		if each.group != group || each.version != version {
			continue
		}
		entry := map[string]any{"name": each.plural, "singularName": each.singular, "namespaced": each.namespaced, "kind": each.kind, "verbs": verbs}
		if each.custom {
			entry["storageVersionHash"] = "AAAAAAAAAAA="
		}
		found = append(found, entry)
		if each.status {
			found = append(found, map[string]any{"name": each.plural + "/status", "singularName": "", "namespaced": each.namespaced, "kind": each.kind,
				"verbs": []string{"get", "patch", "update"}})
		}
	}
	name := version
	if group != "" {
		name = group + "/" + version
	}
	if len(found) == 0 {
		notServed(to)
		return
	}
	sendJSON(to, http.StatusOK, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": found})
}

// openapi is the document of a group and version: the schemas of its custom resources, and of the others that they are objects.
func (s *server) openapi(to http.ResponseWriter, words []string) {
	group, version := "", words[0]
	if len(words) > 1 {
		group, version = words[0], words[1]
	}
	schemas := map[string]any{}
	for _, each := range s.store.all() {
		if each.group != group || each.version != version {
			continue
		}
		schema := map[string]any{"type": "object"}
		for name, value := range each.schema {
			schema[name] = value
		}
		schema["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": group, "version": version, "kind": each.kind}}
		schemas[each.kind] = schema
	}
	if len(schemas) == 0 {
		notServed(to)
		return
	}
	sendJSON(to, http.StatusOK, map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "Kubernetes", "version": "v1.36.3"},
		"paths": map[string]any{}, "components": map[string]any{"schemas": schemas}})
}

// created takes notice of a new definition: its kinds are served from now on.
func (s *server) created(k *kind, body map[string]any) {
	if k.kind != "CustomResourceDefinition" {
		return
	}
	spec := body["spec"].(map[string]any)
	names := spec["names"].(map[string]any)
	for _, each := range spec["versions"].([]any) {
		version := each.(map[string]any)
		holder, _ := version["schema"].(map[string]any)
		schema, _ := holder["openAPIV3Schema"].(map[string]any)
		subresources, _ := version["subresources"].(map[string]any)
		singular, _ := names["singular"].(string)
		s.store.add(&kind{
			group: spec["group"].(string), version: version["name"].(string), plural: names["plural"].(string), singular: singular,
			kind: names["kind"].(string), namespaced: spec["scope"] == "Namespaced", status: subresources["status"] != nil, custom: true,
			shape: shapeOf("", schema, shape{}), schema: schema,
		})
	}
}

// A counted is a kind of request, as the real server's metric has it.
type counted struct {
	verb, resource, subresource, group, version string
	code                                        int
}

// A traffic is the requests of a client, and the bytes of its bodies.
type traffic struct{ requests, received, sent atomic.Int64 }

type counts struct {
	sync.Mutex
	requests map[counted]int
	watches  map[string]int
	clients  map[string]*traffic
}

func (c *counts) client(name string) *traffic {
	c.Lock()
	defer c.Unlock()
	if c.clients[name] == nil {
		c.clients[name] = &traffic{}
	}
	return c.clients[name]
}

func (c *counts) add(what counted) {
	c.Lock()
	defer c.Unlock()
	c.requests[what]++
}

func (c *counts) ended(resource string) {
	c.Lock()
	defer c.Unlock()
	c.watches[resource]++
}

func (c *counts) write(to http.ResponseWriter) {
	c.Lock()
	defer c.Unlock()
	lines := []string{}
	for what, number := range c.requests {
		lines = append(lines, fmt.Sprintf(`apiserver_request_total{code="%d",group=%q,resource=%q,subresource=%q,verb=%q,version=%q} %d`,
			what.code, what.group, what.resource, what.subresource, what.verb, what.version, number))
	}
	for resource, number := range c.watches {
		lines = append(lines, fmt.Sprintf(`apiserver_terminated_watchers_total{resource=%q} %d`, resource, number))
	}
	for client, each := range c.clients {
		for name, number := range map[string]*atomic.Int64{"requests": &each.requests, "received_bytes": &each.received, "sent_bytes": &each.sent} {
			lines = append(lines, fmt.Sprintf(`standin_client_%s_total{client=%q} %d`, name, client, number.Load()))
		}
	}
	sort.Strings(lines)
	to.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = to.Write([]byte(strings.Join(lines, "\n") + "\n"))
}
