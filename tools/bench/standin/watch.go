package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const bookmarkSeconds = 60

// A selector is a conjunction of equalities of labels, and of metadata.name and metadata.namespace.
type selector struct {
	labels          map[string]string
	name, namespace string
}

func selectorOf(query url.Values) (selector, error) {
	found := selector{labels: map[string]string{}}
	for _, part := range parts(query.Get("labelSelector")) {
		name, value, ok := strings.Cut(strings.Replace(part, "==", "=", 1), "=")
		if !ok || strings.HasSuffix(name, "!") {
			return found, fmt.Errorf("the stand-in knows only equalities of labels, not %q", part)
		}
		found.labels[name] = value
	}
	for _, part := range parts(query.Get("fieldSelector")) {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "metadata.name":
			found.name = value
		case "metadata.namespace":
			found.namespace = value
		default:
			return found, fmt.Errorf("field label not supported: %s", name)
		}
	}
	return found, nil
}

func parts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (s selector) takes(o *object) bool {
	if o == nil || s.name != "" && o.name != s.name || s.namespace != "" && o.namespace != s.namespace {
		return false
	}
	for name, value := range s.labels {
		if found, set := o.labels[name]; !set || found != value {
			return false
		}
	}
	return true
}

func (s selector) of(items []*object) []*object {
	kept := items[:0]
	for _, each := range items {
		if s.takes(each) {
			kept = append(kept, each)
		}
	}
	return kept
}

// A stream is one watch. It holds a place in the events of its kind, so that a slow watch costs nothing.
type stream struct {
	kind      *kind
	namespace string
	chosen    selector
	as        form
	to        *bufio.Writer
	flush     func() error
}

func (s *stream) send(what string, body []byte) {
	_, _ = s.to.WriteString(`{"type":"` + what + `","object":`)
	_, _ = s.to.Write(body)
	_, _ = s.to.WriteString("}\n")
}

func (s *stream) bookmark(version uint64, annotations string) {
	kind, apiVersion := s.kind.kind, s.kind.apiVersion()
	if s.as == metadataOnly {
		kind, apiVersion = "PartialObjectMetadata", metaVersion
	}
	s.send("BOOKMARK", fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"%s}}`, kind, apiVersion, version, annotations))
}

// take sends an event as this watch sees it: an object that leaves the selection was deleted for it, in its last state that was selected.
func (s *stream) take(each event) {
	if s.namespace != "" && each.object.namespace != s.namespace {
		return
	}
	switch is, was := s.chosen.takes(each.object), s.chosen.takes(each.old); {
	case each.kind == "DELETED" && was:
		s.send("DELETED", s.kind.shown(each.object, s.as))
	case each.kind == "DELETED" || !is && !was:
	case !is:
		last := *each.old
		last.version = each.version
		last.joined(s.kind.encode(&last))
		s.send("DELETED", s.kind.shown(&last, s.as))
	case was:
		s.send("MODIFIED", s.kind.shown(each.object, s.as))
	default:
		s.send("ADDED", s.kind.shown(each.object, s.as))
	}
}

func (s *server) watch(to http.ResponseWriter, from *http.Request, kind *kind, target target) int {
	query := from.URL.Query()
	chosen, err := selectorOf(query)
	if err != nil {
		return fail(to, kind.invalid(http.StatusBadRequest, "BadRequest", err.Error()))
	}
	version, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	initial := query.Get("sendInitialEvents") == "true"
	if initial && query.Get("resourceVersionMatch") != "NotOlderThan" {
		return fail(to, &refusal{code: http.StatusUnprocessableEntity, reason: "Invalid", message: fmt.Sprintf(
			"WatchOptions.meta.k8s.io %q is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan", "")})
	}
	bookmarks := query.Get("allowWatchBookmarks") == "true"
	opened := &stream{kind: kind, namespace: target.namespace, chosen: chosen, as: formOf(from), to: bufio.NewWriterSize(to, 32<<10), flush: http.NewResponseController(to).Flush}
	to.Header().Set("Content-Type", "application/json")
	place, kept := kind.place(version)
	if !initial && version > 0 && !kept {
		to.WriteHeader(http.StatusOK)
		opened.send("ERROR", encoded((&refusal{code: http.StatusGone, reason: "Expired", message: fmt.Sprintf(
			"too old resource version: %d (%d)", version, kind.lost)}).status()))
		_ = opened.to.Flush()
		return http.StatusOK
	}
	to.WriteHeader(http.StatusOK)
	if initial || version == 0 {
		var items []*object
		items, version, place = s.store.sorted(kind, target.namespace)
		for _, each := range chosen.of(items) {
			opened.send("ADDED", kind.shown(each, opened.as))
		}
		if initial && bookmarks {
			opened.bookmark(version, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
		}
	}
	s.follow(from, opened, place, query.Get("timeoutSeconds"), bookmarks)
	return http.StatusOK
}

// follow sends events until the client leaves, the time is over, or the watch is too slow.
func (s *server) follow(from *http.Request, opened *stream, place int, seconds string, bookmarks bool) {
	limit, _ := strconv.Atoi(seconds)
	if limit <= 0 {
		limit = 3600
	}
	end := time.NewTimer(time.Duration(limit) * time.Second)
	defer end.Stop()
	beat := time.NewTicker(bookmarkSeconds * time.Second)
	defer beat.Stop()
	for {
		events, news, kept := opened.kind.since(place)
		if !kept {
			s.counts.ended(opened.kind.plural)
			return
		}
		for _, each := range events {
			opened.take(each)
		}
		place += len(events)
		if opened.to.Flush() != nil || opened.flush() != nil {
			return
		}
		select {
		case <-news:
		case <-beat.C:
			if bookmarks {
				if version, at := s.store.end(opened.kind); at == place {
					opened.bookmark(version, "")
				}
			}
		case <-end.C:
			return
		case <-from.Context().Done():
			return
		}
	}
}
