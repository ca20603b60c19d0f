"""What `record_apply` asks a real API server, and the tests of server-side apply replay: sequences of writes by several managers.

A step is a dict: `do` (apply, create, put, merge), `by` (field manager), and what it needs of `body`, `force`, `sub` (subresource), `version`,
`agent` (User-Agent, where `by` is ""). A body stands without apiVersion, kind, name and namespace, unless it brings its own. `put` sends the
object as it is with `set` (paths with dots) and `unset` done to it.
"""

from __future__ import annotations

from typing import Any

Step = dict[str, Any]

CONDITION = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string"},
        "reason": {"type": "string"},
        "message": {"type": "string"},
        "observedGeneration": {"type": "integer"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
PART = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": STRING,
        "value": INTEGER,
        "inner": {"type": "object", "properties": {"a": STRING, "b": STRING}},
        "items": {
            "type": "array",
            "items": {"type": "object", "required": ["id"], "properties": {"id": INTEGER, "text": STRING}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
        },
    },
}
PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": INTEGER,
        "protocol": {"type": "string", "default": "TCP"},
        "target": {"x-kubernetes-int-or-string": True},
    },
}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SPEC = {
    "type": "object",
    "properties": {
        "size": INTEGER,
        "ratio": {"type": "number"},
        "color": STRING,
        "on": {"type": "boolean"},
        "note": {"type": "string", "nullable": True},
        "amount": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "object", "additionalProperties": STRING},
        "limits": {"type": "object", "additionalProperties": {"type": "object", "properties": {"min": INTEGER, "max": INTEGER}}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"r": INTEGER, "g": INTEGER}},
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": STRING},
        "args": {"type": "array", "items": STRING},
        "flags": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        "numbers": {"type": "array", "items": INTEGER, "x-kubernetes-list-type": "set"},
        "parts": {
            "type": "array",
            "items": PART,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "ports": {
            "type": "array",
            "items": PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
        "free": FREE,
        "known": {**FREE, "properties": {"size": INTEGER, "deep": {"type": "object", "properties": {"a": STRING}}}},
        "anything": {"x-kubernetes-preserve-unknown-fields": True},
        "template": {**FREE, "x-kubernetes-embedded-resource": True},
        "deep": {"type": "object", "properties": {"one": {"type": "object", "properties": {"two": {"type": "object", "properties": {"x": STRING, "y": STRING}}}}}},
    },
}
STATUS = {
    "type": "object",
    "properties": {
        "phase": STRING,
        "observedGeneration": INTEGER,
        "conditions": {
            "type": "array",
            "items": CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}
WIDGET = {"type": "object", "properties": {"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}, "spec": SPEC, "status": STATUS}}
LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"spec": {"type": "object", "properties": {"size": INTEGER}, "x-kubernetes-preserve-unknown-fields": True}}}


def apply(by: str, body: Step | None = None, **more: Any) -> Step:
    """An apply."""
    return {"do": "apply", "by": by, "body": body or {}, **more}


def create(by: str, body: Step, **more: Any) -> Step:
    """A POST."""
    return {"do": "create", "by": by, "body": body, **more}


def put(by: str, set: Step | None = None, unset: tuple[str, ...] = (), **more: Any) -> Step:  # noqa: A002  # reads as a sentence
    """A PUT of the object as it is, changed."""
    return {"do": "put", "by": by, "set": set or {}, "unset": list(unset), **more}


def merge(by: str, body: Step, **more: Any) -> Step:
    """A JSON merge patch."""
    return {"do": "merge", "by": by, "body": body, **more}


def spec(**fields: Any) -> Step:
    """A body with a spec."""
    return {"spec": fields}


def part(name: str, **fields: Any) -> Step:
    """An item of a list that is a map."""
    return {"name": name, **fields}


def ready(status: str, reason: str = "AsExpected", kind: str = "Ready", **more: Any) -> Step:
    """A condition."""
    return {"type": kind, "status": status, "reason": reason, "message": "as told", "lastTransitionTime": "2026-01-01T00:00:00Z", **more}


def conditions(*found: Step, **more: Any) -> Step:
    """A body with status conditions."""
    return {"status": {"conditions": list(found), **more}}


LAST = "kubectl.kubernetes.io/last-applied-configuration"
CONFIG = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{},"name":"%s","namespace":"default"},"spec":{"color":"red","size":1}}\n'

WIDGETS: dict[str, list[Step]] = {
    "apply creates and repeats": [apply("a", spec(size=1, color="red")), apply("a", spec(size=1, color="red")), apply("a", spec(size=2, color="red"))],
    "another value is a conflict": [apply("a", spec(size=1)), apply("b", spec(size=2)), apply("b", spec(size=2), force=True), apply("a", spec(size=1)), apply("a", {})],
    "the same value is shared": [apply("a", spec(size=1, color="red")), apply("b", spec(size=1)), apply("a", spec(color="red")), apply("b", spec()), apply("b", {})],
    "several conflicts with several managers": [
        apply("a", spec(size=1, tags={"x": "1"})), apply("b", spec(color="red", parts=[part("p", value=1)])),
        apply("c", spec(size=2, color="blue", tags={"x": "2"}, parts=[part("p", value=2)])),
        apply("c", spec(size=2, color="blue", tags={"x": "2"}, parts=[part("p", value=2)]), force=True),
    ],
    "an update takes what it changes": [
        create("a", spec(size=1, color="red", tags={"x": "1"})), put("b", {"spec.size": 2}), merge("c", spec(tags={"x": "2", "y": "3"})),
        apply("d", spec(size=3, tags={"x": "3"})), apply("d", spec(size=3), force=True), put("a", {}, ("spec.size",)), put("a", {}),
    ],
    "an update of an applied field": [apply("a", spec(size=1, color="red")), merge("a", spec(size=2)), apply("a", spec(size=3, color="red")), apply("a", spec(size=3, color="red"), force=True)],
    "fields no longer applied": [
        apply("a", spec(size=1, color="red", tags={"x": "1", "y": "2"})), apply("b", spec(tags={"y": "2"})), apply("a", spec(size=1)), apply("a", {"metadata": {"labels": {"l": "1"}}}),
        apply("a", {}), apply("b", {}),
    ],
    "maps of structs": [
        apply("a", spec(limits={"cpu": {"min": 1, "max": 2}, "mem": {"min": 1}})), apply("b", spec(limits={"cpu": {"max": 2}, "disk": {}})),
        apply("a", spec(limits={"cpu": {"min": 1}})), apply("b", spec(limits={})), apply("a", spec(limits={"cpu": {}})), apply("a", spec()),
    ],
    "list maps by key": [
        apply("a", spec(parts=[part("x", value=1), part("y", value=2)])), apply("b", spec(parts=[part("z", value=3), part("x")])),
        apply("a", spec(parts=[part("y", value=2)])), apply("b", spec(parts=[part("x", value=9), part("y", value=9)])),
        apply("b", spec(parts=[part("y", value=9), part("n"), part("x", value=9)]), force=True), apply("a", spec()), apply("b", spec(parts=[])),
    ],
    "order of merged lists": [
        apply("a", spec(parts=[part("1"), part("2"), part("3"), part("4")])), apply("b", spec(parts=[part("4"), part("new"), part("2")])),
        apply("c", spec(parts=[part("z"), part("3"), part("1")])), apply("b", spec(parts=[part("2"), part("new2"), part("4")])),
        apply("a", spec(parts=[part("4"), part("3"), part("2"), part("1")])),
    ],
    "lists within list items": [
        apply("a", spec(parts=[part("x", inner={"a": "1"}, items=[{"id": 2, "text": "t"}, {"id": 10}, {"id": 1}])])),
        apply("b", spec(parts=[part("x", inner={"b": "2"}, items=[{"id": 10, "text": "u"}])])), apply("c", spec(parts=[part("x", inner={"a": "9"}, items=[{"id": 2, "text": "v"}])])),
        apply("a", spec(parts=[part("x", items=[{"id": 1}])])), merge("d", spec(parts=[part("x", items=[{"id": 1, "text": "w"}])])), apply("a", spec(parts=[part("x")])), apply("a", spec()),
    ],
    "several keys and a default key": [
        apply("a", spec(ports=[{"port": 80}, {"port": 80, "protocol": "UDP", "target": "x"}])), apply("b", spec(ports=[{"port": 80, "protocol": "TCP", "target": 8080}])),
        apply("c", spec(ports=[{"port": 80, "target": 1}])), apply("a", spec(ports=[{"port": 80}])), put("d", {"spec.ports": [{"port": 443, "protocol": "TCP"}, {"port": 8}]}),
        apply("a", spec(ports=[{"target": 1}])), apply("a", spec(ports=[{"port": 5}, {"port": 5, "protocol": "TCP"}])),
    ],
    "sets": [
        apply("a", spec(flags=["x", "y"], numbers=[1, 10, 2])), apply("b", spec(flags=["y", "z"], numbers=[10])), apply("a", spec(flags=["x"], numbers=[])), apply("a", spec(flags=["q", "q"])),
        put("c", {"spec.flags": ["z", 'quo"te <&>'], "spec.numbers": [3]}), apply("b", spec(flags=[])), apply("a", spec()), apply("b", spec()),
    ],
    "atomic lists": [
        apply("a", spec(args=["1", "2"])), apply("b", spec(args=["1", "2"])), apply("b", spec(args=["1"])), apply("b", spec(args=["1"]), force=True), apply("b", spec(args=[])), apply("b", spec()),
    ],
    "atomic structs and maps": [
        apply("a", spec(whole={"r": 1, "g": 2}, selector={"app": "x"})), apply("b", spec(whole={"r": 1})), apply("b", spec(whole={"g": 3}, selector={"app": "y"}), force=True),
        merge("c", spec(whole={"r": 5})), apply("a", spec(whole={"r": 5, "g": 3})), apply("b", spec(selector={})), apply("b", spec()), apply("a", {}),
    ],
    "empty and null": [
        apply("a", spec(tags={}, parts=[], flags=None, color=None)), apply("a", spec(note=None, deep={}, size=None)), create("", spec(), agent="x"), put("b", {"spec.tags": {"x": "1"}, "spec.note": None}),
        apply("a", spec(tags={}, note=None)), apply("a", spec(tags=None)), apply("a", {"spec": None}), apply("a", {"metadata": {"labels": {}, "annotations": None}}),
    ],
    "free form": [
        apply("a", spec(free={"x": 1, "list": [1, {"y": 2}], "deep": {"er": {"a": True}}})), apply("b", spec(free={"deep": {"er": {"b": 1.5}}, "list": [1]})),
        apply("b", spec(free={"deep": {"er": {"b": 1.5}}})), merge("c", spec(free={"deep": {"er": {"b": 2, "c": "x"}, "new": {}}})), apply("a", spec(free={"deep": {"er": "scalar"}})),
        apply("a", spec(free={"deep": {"er": "scalar"}}), force=True), put("d", {"spec.free.deep": ["now", "a", "list"]}), apply("a", spec(free={})), apply("a", spec()),
    ],
    "free form with known fields": [
        apply("a", spec(known={"size": 1, "deep": {"a": "x", "unknown": 1}, "other": {"z": [1]}}), pruned=True), apply("b", spec(known={"other": {"z": [1], "y": 2}})), apply("a", spec(known={"deep": {}})),
        apply("b", spec(known={"size": "text"})), merge("c", spec(known={"deep": {"u": {"v": 1}}})), apply("b", spec()),
    ],
    "anything": [
        apply("a", spec(anything=1)), apply("b", spec(anything={"a": 1})), apply("b", spec(anything={"a": 1}), force=True), merge("c", spec(anything={"b": {"c": []}})), put("d", {"spec.anything": [1, 2]}),
        put("d", {"spec.anything": None}), put("d", {"spec.anything": {"x": {"y": None}}}), put("e", {"spec.anything": 0.5}), apply("b", spec()),
    ],
    "int or string": [apply("a", spec(amount=1)), apply("b", spec(amount="1")), apply("b", spec(amount="1"), force=True), merge("c", spec(amount=5)), apply("a", spec(amount=True))],
    "numbers": [apply("a", spec(ratio=1.5)), apply("b", spec(ratio=1.5)), merge("c", spec(ratio=2)), apply("a", spec(ratio=2.0)), apply("a", spec(ratio=3), force=True)],
    "embedded object": [
        apply("a", spec(template={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "labels": {"a": "1"}}, "spec": {"x": [1]}})),
        apply("b", spec(template={"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"b": "2"}}})),
        merge("c", spec(template={"metadata": {"finalizers": ["example.com/f"], "annotations": {"z": "1"}}, "spec": {"y": {"z": 1}}})), apply("a", spec(template={"apiVersion": "v1", "kind": "Pod"})), apply("a", {}),
    ],
    "status by apply": [
        create("a", spec(size=1)), apply("c", conditions(ready("True"), phase="Up"), sub="status"), apply("c", conditions(ready("True"), phase="Up"), sub="status"),
        apply("d", conditions(ready("False"), ready("True", kind="Synced")), sub="status"), apply("d", conditions(ready("True", kind="Synced")), sub="status"),
        apply("c", conditions(ready("False"), ready("True", kind="Odd", observedGeneration=1)), sub="status"), apply("c", conditions(ready("False")), sub="status"), apply("c", {"status": {"phase": "Up"}}, sub="status"),
    ],
    "status by update": [
        create("a", spec(size=1)), put("c", {"status": {"phase": "Up", "conditions": [ready("True")]}}, sub="status"), put("c", {"status.phase": "Down", "spec.size": 9, "metadata.labels": {"x": "1"}}, sub="status"),
        merge("d", {"status": {"observedGeneration": 2}}, sub="status"), apply("c", {"status": {"phase": "Up"}}, sub="status"), apply("c", {"status": {"phase": "Up"}}, sub="status", force=True),
        put("c", {}, ("status.conditions",), sub="status"), put("c", {}, ("status",), sub="status"),
    ],
    "status through the main resource": [
        apply("a", {"spec": {"size": 1}, "status": {"phase": "Up"}}), put("b", {"status.phase": "X", "spec.size": 2}), apply("c", {"status": {"phase": "Up"}, "spec": {"size": 9}, "metadata": {"labels": {"l": "1"}}}, sub="status"),
        apply("a", {"spec": {"size": 2}, "status": {"phase": "Down"}}), merge("d", {"status": {"phase": "Down"}}), apply("a", {"status": {"phase": "Down"}}), apply("c", {"spec": {"size": 1}}, sub="status"),
    ],
    "metadata": [
        apply("a", {"metadata": {"labels": {"x": "1"}, "annotations": {"n": "1"}, "finalizers": ["example.com/a", "example.com/b"]}}),
        apply("b", {"metadata": {"labels": {"x": "2"}, "finalizers": ["example.com/b"], "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": "u-1"}]}}),
        apply("b", {"metadata": {"labels": {"x": "2"}, "finalizers": ["example.com/b"], "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": "u-1"}]}}, force=True),
        apply("a", {"metadata": {"annotations": {"n": "1"}, "finalizers": ["example.com/a"]}}), merge("c", {"metadata": {"annotations": {"m": "2"}, "labels": None}}),
        apply("c", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": "u-1", "controller": True}]}}), put("c", {"metadata.ownerReferences": [], "metadata.finalizers": []}),
        apply("a", {}), apply("b", {}),
    ],
    "unknown names of managers": [create("", spec(size=1), agent="Mozilla/5.0 (x) y/z"), merge("", spec(size=2), agent="/nothing"), merge("", spec(size=3), agent="tab\tbed agent"), apply("", spec(size=4)), apply("x\ty", spec(size=4)), apply("l" * 129, spec(size=4)), merge("", spec(size=5), agent="x" * 150)],
    "clients that send managedFields": [
        create("a", spec(size=1)), put("b", {"metadata.managedFields": [], "spec.size": 2}), put("b", {"spec.size": 3}), apply("c", spec(color="red")), put("d", {"metadata.managedFields": [{}]}),
        apply("c", spec(color="blue")), apply("c", spec(color="blue"), force=True), put("e", {"metadata.managedFields": [{"manager": "me", "operation": "Apply", "apiVersion": "example.com/v1", "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:size": {}, "f:parts": {'k:{ "name" : "x" }': {".": {}}}}}}]}),
        put("f", {"metadata.managedFields": [{"manager": "bad", "operation": "Nothing", "apiVersion": "v1"}], "spec.size": 8}), put("f", {"metadata.managedFields": [{"manager": "g", "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:size": {}}}}], "spec.on": True}, sub="status"),
        merge("h", {"metadata": {"managedFields": None}, "spec": {"size": 9}}), merge("h", {"metadata": {"managedFields": []}, "spec": {"size": 10}}), apply("i", {"metadata": {"managedFields": []}}), apply("i", {"metadata": {"managedFields": None}, "spec": {"on": True}}),
    ],
    "created with managedFields": [
        create("a", {"metadata": {"managedFields": [{"manager": "me", "operation": "Apply", "apiVersion": "example.com/v1", "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:size": {}}}}]}, "spec": {"size": 1, "color": "red"}}), apply("me", spec(color="red")),
    ],
    "more than ten updaters": [create("m00", spec(tags={"k00": "v"})), *(merge(f"m{i:02d}", spec(tags={f"k{i:02d}": "v"})) for i in range(1, 13)), merge("m03", spec(tags={"k03": "w"})), apply("z", spec(tags={"k01": "x"})), apply("z", spec(tags={"k12": "x"}))],
    "kubectl takes over from client-side apply": [
        create("kubectl-client-side-apply", {"metadata": {"annotations": {LAST: CONFIG % "kubectl-takes-over-from-client-side-apply"}}, "spec": {"size": 1, "color": "red"}}),
        apply("kubectl", spec(size=2, color="red")), apply("kubectl", {"metadata": {"annotations": {"x": "<1>"}}, "spec": {"size": 3}}), merge("other", spec(color="blue")), apply("kubectl", spec(size=3, color="green")), apply("kubectl", spec(size=4)),
    ],
    "kubectl where others changed things": [
        create("kubectl-client-side-apply", {"metadata": {"annotations": {LAST: CONFIG % "kubectl-where-others-changed-things"}}, "spec": {"size": 1, "color": "red"}}), merge("other", spec(size=7)),
        apply("kubectl", spec(size=2, color="blue")), apply("kubectl", spec(color="blue")), apply("notkubectl", spec(color="red")),
    ],
    "before the first apply": [create("a", spec(size=1, tags={"x": "1"})), put("a", {"metadata.managedFields": []}), merge("b", spec(on=True)), apply("c", spec(size=1, color="red")), apply("c", spec(tags={"x": "2"}))],
    "before the first apply of a status": [create("a", spec(size=1)), merge("s", {"status": {"phase": "Up"}}, sub="status"), put("a", {"metadata.managedFields": []}), apply("c", {"status": {"phase": "Down"}}, sub="status"), apply("c", {"status": {"phase": "Up"}}, sub="status"), apply("d", spec(size=2))],
    "two versions": [apply("a", spec(size=1)), apply("a", spec(size=1, color="red"), version="v2"), apply("b", spec(color="blue")), merge("u", spec(on=True)), merge("u", spec(on=False), version="v2"), apply("a", spec(size=2)), apply("c", spec(on=True), version="v2")],
    "what is refused": [
        apply("a", {"apiVersion": "example.com/v3", "spec": {}}), apply("a", {"kind": "Gadget", "spec": {}}), apply("a", {"apiVersion": None}), apply("a", {"kind": None}), apply("a", {"metadata": {"managedFields": []}}), apply("a", spec(size="x")), apply("a", spec(color=1)),
        apply("a", spec(color={"x": 1})), apply("a", spec(on="yes")), apply("a", spec(tags=[1])), apply("a", spec(args={"a": "b"})), apply("a", spec(args=[1])), apply("a", spec(parts=["x"])), apply("a", spec(parts=[None])), apply("a", spec(parts=[{"value": 1}])),
        apply("a", spec(parts=[part("x"), part("x")])), apply("a", spec(flags=[["x"]])), apply("a", spec(flags=[{}])), apply("a", spec(flags=[None])), apply("a", spec(unknown=1)), apply("a", {"extra": 1}), apply("a", {"metadata": {"labels": {"a": 1}}}), apply("a", {"metadata": {"what": 1}}), apply("a", spec(size=True)),
        apply("a", spec(numbers=[1, 1])), apply("a", spec(parts=[part("x", inner={"zzz": 1})])), apply("a", spec(ratio="1")), apply("a", spec(size={})), apply("a", {"spec": "text"}), apply("a", spec(size=1.5)),
    ],
    "what is refused of a list where it stands": [create("a", spec(parts=[part("x", value=1)])), apply("b", spec(parts=[part("x", value=1), part("y", value="1")])), apply("b", spec(limits={"cpu": {"mid": 1}})), apply("b", spec(deep={"one": {"two": {"z": "1"}}})), apply("b", spec(deep={"one": {"two": {"x": "1"}}}))],
    "nothing changes": [create("a", spec(size=1, flags=["x"])), put("b", {"spec.size": 1}), merge("b", spec(size=1)), apply("c", spec(size=1)), apply("c", spec(size=1)), apply("c", spec(size=1, flags=["x"])), apply("c", spec(flags=["x"])), put("c", {"metadata.labels": {}}), merge("c", {"metadata": {"labels": {"x": None}}})],
    "update where it was applied": [apply("a", spec(size=1, parts=[part("x", value=1)])), put("a", {"spec.parts": [part("x", value=2), part("y")]}), put("b", {"spec.parts": [part("y")]}), apply("a", spec(size=1)), apply("a", spec(size=1, parts=[part("y", value=3)])), put("b", {}, ("spec",)), apply("a", spec(size=1))],
    "deep structs": [apply("a", spec(deep={"one": {"two": {"x": "1"}}})), apply("b", spec(deep={"one": {"two": {"y": "2"}}})), apply("a", spec(deep={"one": {}})), apply("b", spec(deep={})), apply("a", spec()), merge("c", spec(deep={"one": {"two": {"x": "3"}}})), merge("c", spec(deep={"one": {"two": None}}))],
    "an item that others fill in": [apply("a", spec(parts=[part("x")])), merge("b", spec(parts=[part("x", value=1, inner={"a": "1"})])), apply("a", spec(parts=[])), apply("a", spec(parts=[part("x"), part("z")])), apply("c", spec(parts=[part("z", value=2)])), apply("a", spec()), put("d", {"spec.parts": []})],
    "dropped with what nobody owns": [create("a", spec(parts=[part("x", value=1)], tags={"x": "1"})), put("a", {"metadata.managedFields": [{"manager": "p", "operation": "Apply", "apiVersion": "example.com/v1", "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:parts": {'k:{"name":"x"}': {".": {}, "f:name": {}}}, "f:tags": {}}}}]}), apply("p", spec(size=1)), apply("p", {})],
    "taken by force and given back": [apply("a", spec(size=1, color="red")), apply("b", spec(size=2, color="blue"), force=True), apply("b", spec(size=2)), apply("a", spec(color="red")), apply("a", spec(size=2, color="red")), apply("b", {}), apply("a", {})],
}

LOOSE_WIDGETS: dict[str, list[Step]] = {
    "loose at the root": [apply("a", {"spec": {"size": 1, "x": {"y": [1]}}, "top": {"a": 1, "b": {"c": 2}}}), apply("b", {"top": {"b": {"c": 3}}}), apply("b", {"top": {"b": {"d": 3}}, "status": {"phase": "Up"}}), merge("c", {"top": {"e": {}}, "status": {"phase": "Down", "list": [1]}}), apply("a", {"spec": {"x": {}}}), apply("b", {})],
    "loose created": [create("a", {"spec": {"x": {"y": {}}}, "status": {"n": None}, "list": [1], "metadata": {"labels": {"a": "b"}}}), put("b", {"status": 1, "list": {"now": "map"}}), apply("c", {"spec": {"size": "text"}}), apply("c", {"list": {"now": "x"}})],
}

CONFIG_MAPS: dict[str, list[Step]] = {
    "config map": [create("a", {"data": {"x": "1", "y": "2"}}), apply("b", {"data": {"x": "1"}}), apply("b", {"data": {"x": "2", "z": "3"}}), apply("b", {"data": {"x": "2", "z": "3"}}, force=True), merge("c", {"data": {"y": None}, "metadata": {"labels": {"l": "1"}}}), apply("b", {}), put("c", {}, ("data",)), put("c", {"binaryData": {"b": "AAAA"}, "immutable": False})],
    "config map whose owners are forgotten": [create("a", {"data": {"x": "1"}}), put("b", {"metadata.managedFields": []}), put("b", {"data.x": "2"}), apply("c", {"data": {"x": "2"}}), put("d", {"metadata.managedFields": [{}], "data.x": "3"}), merge("d", {"data": {"x": "4"}}), apply("c", {"data": {"x": "2"}}), merge("d", {"metadata": {"managedFields": []}}), merge("d", {"metadata": {"managedFields": [{}]}, "data": {"y": "1"}})],
    "config map applied": [apply("a", {"data": {"x": "1"}, "immutable": False}), apply("a", {"data": {"x": 1}}), apply("a", {"dta": {}}), apply("a", {"data": {}}), apply("b", {"data": {"x": "1"}, "metadata": {"annotations": {"n": "1"}}}), merge("c", {"data": {"x": "5"}}), apply("b", {"data": {"x": "1"}}), apply("b", {"kind": "Secret", "data": {"x": "1"}}), apply("b", {"apiVersion": "v2"})],
}


def deployment(*containers: Step, replicas: int | None = 1, **more: Any) -> Step:
    """A body of a Deployment."""
    body: Step = {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": list(containers), **more}}}
    return {"spec": body if replicas is None else {"replicas": replicas, **body}}


WEB = {"name": "web", "image": "example.com/web:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}
DEPLOYMENTS: dict[str, list[Step]] = {
    "deployment applied": [
        apply("a", deployment(WEB)), apply("b", {"spec": {"replicas": 3}}), apply("b", {"spec": {"replicas": 3}}, force=True), apply("a", deployment(WEB, replicas=None)),
        apply("c", deployment({"name": "side", "image": "example.com/side:1", "args": ["x"]}, {"name": "web", "image": "example.com/web:1", "env": [{"name": "B", "value": "2"}]}, replicas=None)),
        apply("c", deployment({"name": "web", "image": "example.com/web:2"}, replicas=None)), apply("a", deployment({**WEB, "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 9}]}, replicas=None)),
        apply("c", deployment({"name": "web", "image": "example.com/web:1"}, replicas=None)), apply("b", {}), apply("d", deployment({"name": "web", "imagee": "x"})), apply("d", {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}),
    ],
    "deployment created": [
        create("kubectl-create", deployment({**WEB, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"key": "k", "operator": "Exists"}], nodeSelector={"a": "b"})),
        merge("b", {"spec": {"replicas": 4, "strategy": {"type": "Recreate", "rollingUpdate": None}}}), put("c", {"spec.template.spec.containers.0.image": "example.com/web:3", "spec.template.spec.terminationGracePeriodSeconds": 5}),
        put("s", {"status": {"replicas": 4, "observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]}}, sub="status"), apply("t", {"status": {"replicas": 4, "conditions": [{"type": "Available", "status": "False"}]}}, sub="status"),
        apply("t", {"status": {"conditions": [{"type": "Progressing", "status": "False"}]}}, sub="status"), put("c", {"spec.template.spec.volumes": [], "spec.template.spec.containers.0.volumeMounts": []}),
    ],
}
