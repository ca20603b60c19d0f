package main

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"
)

const metadataBegins, metaVersion = `"metadata":{`, "meta.k8s.io/v1"

// window is how many events of a kind are kept: a watch from an older version is answered with 410.
const window = 50_000

// serverSet are the names in metadata that the server writes; every other name is the client's.
var serverSet = map[string]bool{
	"name": true, "namespace": true, "uid": true, "resourceVersion": true, "generation": true, "creationTimestamp": true,
	"deletionTimestamp": true, "managedFields": true, "generateName": true, "selfLink": true, "deletionGracePeriodSeconds": true,
}

// A kind is a resource with its objects. Its lock guards everything below it.
type kind struct {
	group, version, plural, singular, kind string
	namespaced, status, custom             bool
	shape                                  shape
	schema                                 map[string]any
	head                                   []byte // of the body of an object

	sync.RWMutex
	objects map[string]*object
	order   []string // the keys in their order; nil if it is to be sorted again
	events  []event
	dropped int // events that are no longer kept
	lost    uint64
	news    chan struct{} // closed and replaced with each event
}

func (k *kind) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}

// resource is the name of the kind in messages.
func (k *kind) resource() string {
	if k.group == "" {
		return k.plural
	}
	return k.plural + "." + k.group
}

// An object is never changed after it was stored.
type object struct {
	namespace, name, uid, created, deleted string
	version                                uint64
	generation                             int64
	parts                                  map[string]part // "metadata" (the client's names), "spec", "status", "data" ...
	labels                                 map[string]string
	held                                   bool // it has finalizers
	owners                                 []owner
	body                                   []byte
	metadataEnds                           int // in the body
}

// A part of an object stays encoded: a change of the status neither decodes nor encodes the spec. A part that a request changed keeps its
// tree too, since the next change needs it.
type part struct {
	raw  []byte
	tree any
}

func (p part) decoded() any {
	if p.tree != nil {
		return p.tree
	}
	found, _ := decoded(p.raw)
	return found
}

type event struct {
	kind        string
	version     uint64
	object, old *object
}

// A store has one resourceVersion for all kinds, as etcd.
type store struct {
	sync.Mutex
	version uint64
	kinds   map[string]*kind // by group/version/plural
}

func newStore() *store {
	made := &store{version: 1, kinds: map[string]*kind{}}
	for _, each := range []*kind{
		{version: "v1", plural: "namespaces", singular: "namespace", kind: "Namespace", status: true},
		{version: "v1", plural: "configmaps", singular: "configmap", kind: "ConfigMap", namespaced: true},
		{version: "v1", plural: "secrets", singular: "secret", kind: "Secret", namespaced: true},
		{version: "v1", plural: "events", singular: "event", kind: "Event", namespaced: true},
		{group: "events.k8s.io", version: "v1", plural: "events", singular: "event", kind: "Event", namespaced: true},
		{group: "coordination.k8s.io", version: "v1", plural: "leases", singular: "lease", kind: "Lease", namespaced: true},
		{group: "apps", version: "v1", plural: "statefulsets", singular: "statefulset", kind: "StatefulSet", namespaced: true, status: true},
		{group: "rbac.authorization.k8s.io", version: "v1", plural: "clusterroles", singular: "clusterrole", kind: "ClusterRole"},
		{group: "rbac.authorization.k8s.io", version: "v1", plural: "clusterrolebindings", singular: "clusterrolebinding", kind: "ClusterRoleBinding"},
		{group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions", singular: "customresourcedefinition", kind: "CustomResourceDefinition", status: true},
	} {
		made.add(each)
	}
	return made
}

func (s *store) add(k *kind) {
	k.objects, k.news = map[string]*object{}, make(chan struct{})
	k.head = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,%s`, k.apiVersion(), k.kind, metadataBegins)
	if k.shape == nil {
		k.shape = shape{}
	}
	for path, keys := range ofEvery {
		k.shape[path] = keys
	}
	if !k.custom {
		k.shape["spec"], k.shape["status"] = isStruct, isStruct
	}
	s.Lock()
	defer s.Unlock()
	key := k.group + "/" + k.version + "/" + k.plural
	if s.kinds[key] == nil {
		s.kinds[key] = k
	}
}

func (s *store) find(group, version, plural string) *kind {
	s.Lock()
	defer s.Unlock()
	return s.kinds[group+"/"+version+"/"+plural]
}

func (s *store) all() []*kind {
	s.Lock()
	defer s.Unlock()
	found := make([]*kind, 0, len(s.kinds))
	for _, each := range s.kinds {
		found = append(found, each)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].plural+found[i].group < found[j].plural+found[j].group })
	return found
}

func (s *store) now() uint64 {
	s.Lock()
	defer s.Unlock()
	return s.version
}

func (k *kind) get(namespace, name string) *object {
	k.RLock()
	defer k.RUnlock()
	return k.objects[namespace+"/"+name]
}

// commit replaces `old` (nil if it is new) by `new`, or removes it in the state of `new`; false if another write was first.
func (s *store) commit(k *kind, old, new *object, remove bool) bool {
	key := new.namespace + "/" + new.name
	head, tail := k.encode(new)
	k.Lock()
	defer k.Unlock()
	if k.objects[key] != old {
		return false
	}
	s.Lock()
	s.version++
	new.version = s.version
	s.Unlock()
	new.joined(head, tail)
	made := event{kind: "MODIFIED", version: new.version, object: new, old: old}
	switch {
	case remove:
		made.kind, k.order = "DELETED", nil
		delete(k.objects, key)
	case old == nil:
		made.kind, k.order = "ADDED", nil
		fallthrough
	default:
		k.objects[key] = new
	}
	if k.events = append(k.events, made); len(k.events) > 2*window {
		k.dropped += window
		k.lost = k.events[window-1].version
		k.events = append([]event(nil), k.events[window:]...)
	}
	close(k.news)
	k.news = make(chan struct{})
	return true
}

// sorted returns the objects of a namespace ("" for all) in the order of their keys, and the version and the place that they have in common.
func (s *store) sorted(k *kind, namespace string) ([]*object, uint64, int) {
	k.Lock()
	defer k.Unlock()
	if k.order == nil {
		k.order = slices.Sorted(maps.Keys(k.objects))
	}
	found := make([]*object, 0, len(k.order))
	for _, key := range k.order {
		if each := k.objects[key]; namespace == "" || each.namespace == namespace {
			found = append(found, each)
		}
	}
	// No event of this kind can be committed now, so the newest version of all kinds is a version of this list.
	return found, s.now(), k.dropped + len(k.events)
}

// end is the place behind the last event, and a version that no later event is older than.
func (s *store) end(k *kind) (uint64, int) {
	k.RLock()
	defer k.RUnlock()
	return s.now(), k.dropped + len(k.events)
}

// place is where the events after a version begin; false if they are no longer kept.
func (k *kind) place(version uint64) (int, bool) {
	k.RLock()
	defer k.RUnlock()
	at := sort.Search(len(k.events), func(i int) bool { return k.events[i].version > version })
	return k.dropped + at, version >= k.lost
}

// since returns the events from a place on and the signal for more; false if the watch is too slow.
func (k *kind) since(place int) ([]event, chan struct{}, bool) {
	k.RLock()
	defer k.RUnlock()
	if place < k.dropped {
		return nil, nil, false
	}
	return k.events[place-k.dropped:], k.news, true
}

// joined sets the body from its two pieces.
func (o *object) joined(head, tail []byte) {
	head = strconv.AppendUint(head, o.version, 10)
	o.metadataEnds = len(head) + len(`","uid":""}`) + len(o.uid)
	o.body = append(head, tail...)
}

// encode writes an object with its fields in the order of their names, in two pieces: its version belongs between them.
func (k *kind) encode(o *object) ([]byte, []byte) {
	to := append(make([]byte, 0, 1024+len(o.body)), k.head...)
	if metadata := o.parts["metadata"].raw; len(metadata) > len("{}") {
		to = append(append(to, metadata[1:len(metadata)-1]...), ',')
	}
	to = append(append(append(to, `"creationTimestamp":"`...), o.created...), '"')
	if o.deleted != "" {
		to = append(append(append(to, `,"deletionTimestamp":"`...), o.deleted...), `","deletionGracePeriodSeconds":0`...)
	}
	if o.generation > 0 {
		to = strconv.AppendInt(append(to, `,"generation":`...), o.generation, 10)
	}
	for index, each := range o.owners {
		to = append(append(to, []string{`,"managedFields":[`, `,`}[min(index, 1)]...), each.entry...)
	}
	if len(o.owners) > 0 {
		to = append(to, ']')
	}
	to = append(append(append(to, `,"name":"`...), o.name...), '"')
	if o.namespace != "" {
		to = append(append(append(to, `,"namespace":"`...), o.namespace...), '"')
	}
	to = append(to, `,"resourceVersion":"`...)
	tail := append(append(append(make([]byte, 0, 64+len(o.body)), `","uid":"`...), o.uid...), `"}`...)
	for _, name := range slices.Sorted(maps.Keys(o.parts)) {
		if name != "metadata" {
			tail = append(append(append(append(tail, `,"`...), name...), `":`...), o.parts[name].raw...)
		}
	}
	return to, append(tail, '}')
}

func newUID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

func stamp() string { return time.Now().UTC().Format(time.RFC3339) }
