"""The requests about LimitRanges that `limits` sends to a real server, and the recorded parts of a response: plain data, read by recorder
and tests."""

from __future__ import annotations

import re
from typing import Any, Final

from record.admission.hooks import YES, case, patch, webhook
from record.admission.world import pod

__all__ = ["INJECTED", "LIMIT_CASES", "LIMIT_HOOKS", "shown"]

Data = dict[str, Any]

_PARTS: Final = re.compile(r", (?=minimum |maximum |[\w./-]+ max limit )")
_GENERATED: Final = re.compile(r"(?<=made-)\w{5}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ALWAYS: Final = {"restartPolicy": "Always"}
HOLD: Final = {"finalizers": ["example.com/hold"]}


def ranges(name: str, *items: Data, **metadata: Any) -> Data:
    """Return the step that creates a LimitRange."""
    body = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name, **metadata},
        "spec": {"limits": [*items]},
    }
    return {"method": "POST", "path": "limitranges", "body": body}


def made(name: str, *containers: Data, **spec: Any) -> Data:
    """Return the step that creates a pod, in a dry run."""
    return {"method": "POST", "path": "pods?dryRun=All", "body": pod(name, *containers, **spec)}


def asks(requests: Data | None = None, limits: Data | None = None, **more: Any) -> Data:
    """Return a container."""
    given = {name: value for name, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {**({"resources": given} if given else {}), **more}


def first(*containers: Data) -> list[Data]:
    """Return init containers."""
    return [
        {"name": f"i{number}", "image": "registry.example.com/i:1", **each} for number, each in enumerate(containers)
    ]


def claim(name: str, storage: str, **metadata: Any) -> Data:
    """Return the step that creates a claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, "storageClassName": ""}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, **metadata}, "spec": spec}
    return {"method": "POST", "path": "persistentvolumeclaims", "body": body}


def merge(path: str, body: Data) -> Data:
    """Return a merge patch."""
    return {"method": "PATCH", "path": path, "body": body}


def _container(**item: Any) -> Data:
    return {"type": "Container", **item}


_DEFAULTS: Final[list[Data]] = [
    ranges("l", _container(default={"cpu": "500m", "memory": "0.25Gi"}, defaultRequest={"cpu": "0.1"})),
    {"method": "GET", "path": "limitranges/l"},
    made("nothing"),
    made("limit", asks(None, {"cpu": "400m"})),
    made("request", asks({"memory": "100Mi"})),
    made("both", asks({"cpu": "100m", "memory": "1Mi"}, {"cpu": "100m", "memory": "1Mi"})),
    made("more", asks({"cpu": "2"})),
    made("other", asks({"example.com/gpu": "1"}, {"example.com/gpu": "1"})),
    made("zero", asks({"cpu": "0"})),
    made("many", {}, asks({"cpu": "1m"}), initContainers=first({}, ALWAYS, asks({"cpu": "5m"}, {"cpu": "6m", "memory": "1M"}))),
    made("noted", metadata={"annotations": {"a": "b", "kubernetes.io/limit-ranger": "mine"}}),
    made("full", asks({"cpu": "1m", "memory": "1Mi"}, {"cpu": "1m", "memory": "1Mi"}), metadata={"annotations": {"kubernetes.io/limit-ranger": "mine"}}),
    made("whole", resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
    made("small", resources={"limits": {"cpu": "100m"}}),
]  # fmt: skip

_BOUNDS: Final[list[Data]] = [
    ranges("l", _container(min={"cpu": "100m"}, max={"cpu": "1"})),
    {"method": "GET", "path": "limitranges/l"},
    made("nothing"),
    made("request", asks({"cpu": "50m"})),
    made("limit", asks(None, {"cpu": "2"})),
    made("wide", asks({"cpu": "50m"}, {"cpu": "2000m"})),
    made("much", asks({"cpu": "1.5"}, {"cpu": "1.5"})),
    made("zero", asks({"cpu": "0"}, {"cpu": "0"})),
    made("exact", asks({"cpu": "100m"}, {"cpu": "1000m"})),
    made("first", initContainers=first(asks({"cpu": "2"}, {"cpu": "2"}))),
    made("sidecar", initContainers=first({**asks({"cpu": "10m"}, {"cpu": "3"}), **ALWAYS})),
    made("same", asks(None, {"cpu": "2"}), asks(None, {"cpu": "2"})),
    made("several", asks(None, {"cpu": "2"}), asks({"cpu": "1m"}), initContainers=first(asks(None, {"cpu": "3"}))),
    made("wrong", asks({"cpu": "3"}, {"cpu": "2"})),
    {"method": "POST", "path": "pods", "body": pod("", asks(None, {"cpu": "2"}), metadata={"generateName": "made-"})},
    {"method": "POST", "path": "pods", "body": pod("kept")},
    merge("limitranges/l", {"spec": {"limits": [_container(max={"cpu": "500m"})]}}),
    merge("pods/kept", {"metadata": {"labels": {"a": "b"}}}),
    merge("pods/kept/status", {"status": {"phase": "Running"}}),
    made("later"),
    made("latest", asks(None, {"cpu": "1"})),
    {"method": "DELETE", "path": "limitranges/l"},
    made("free", asks(None, {"cpu": "100"})),
]

_NOT_STATED: Final[list[Data]] = [
    ranges("l", _container(maxLimitRequestRatio={"cpu": "2"})),
    {"method": "GET", "path": "limitranges/l"},
    made("nothing"),
    made("limit", asks(None, {"cpu": "1"})),
    made("request", asks({"cpu": "1"})),
    made("twice", asks({"cpu": "1"}, {"cpu": "2"})),
    made("more", asks({"cpu": "300m"}, {"cpu": "1"})),
    made("none", asks({"cpu": "0"}, {"cpu": "1"})),
    made("zero", asks({"cpu": "0"}, {"cpu": "0"})),
]

_FRACTION: Final[list[Data]] = [
    ranges("l", _container(maxLimitRequestRatio={"memory": "1500m"})),
    made("less", asks({"memory": "100"}, {"memory": "149"})),
    made("even", asks({"memory": "100"}, {"memory": "150"})),
    made("more", asks({"memory": "3Mi"}, {"memory": "5Mi"})),
    made("large", asks({"memory": "3Ei"}, {"memory": "5Ei"})),
]

_LARGE: Final[list[Data]] = [
    ranges("l", _container(min={"memory": "1Ki"}, max={"memory": "6E"})),
    made("within", asks(None, {"memory": "5E"})),
    made("beyond", asks(None, {"memory": "7E"})),
    made("just", asks({"memory": "1023"}, {"memory": "6E"})),
    made("milli", asks({"memory": "1023500m"}, {"memory": "1G"})),
]

_PODS: Final[list[Data]] = [
    ranges("l", {"type": "Pod", "min": {"cpu": "500m"}, "max": {"cpu": "2"}}),
    made("nothing"),
    made("limit", asks(None, {"cpu": "600m"})),
    made("sum", asks(None, {"cpu": "1"}), asks(None, {"cpu": "1.5"})),
    made("fits", asks({"cpu": "250m"}, {"cpu": "1"}), asks({"cpu": "250m"}, {"cpu": "1"})),
    made("small", asks({"cpu": "200m"}, {"cpu": "1"}), asks({"cpu": "100m"}, {"cpu": "1"})),
    made("part", asks({"cpu": "500m"}), asks(None, {"cpu": "100m"})),
    made("first", asks(None, {"cpu": "100m"}), initContainers=first(asks(None, {"cpu": "2500m"}))),
    made("turns", asks(None, {"cpu": "1"}), initContainers=first(asks(None, {"cpu": "2"}), asks(None, {"cpu": "2"}))),
    made("sidecar", asks(None, {"cpu": "1500m"}), initContainers=first({**asks(None, {"cpu": "600m"}), **ALWAYS})),
    made("beside", asks(None, {"cpu": "1"}),
         initContainers=first({**asks(None, {"cpu": "600m"}), **ALWAYS}, asks(None, {"cpu": "1500m"}))),
    made("before", asks(None, {"cpu": "1"}),
         initContainers=first(asks(None, {"cpu": "1500m"}), {**asks(None, {"cpu": "600m"}), **ALWAYS})),
    made("own", asks({"cpu": "100m"}, {"cpu": "200m"}), resources={"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
    made("owned", asks({"cpu": "100m"}, {"cpu": "200m"}), resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
    made("aside", asks(None, {"cpu": "600m"}), resources={"limits": {"memory": "1Gi"}}),
    made("over", asks(None, {"cpu": "1900m"}), runtimeClassName="heavy", overhead={"cpu": "1"}),
]  # fmt: skip

_POD_RATIO: Final[list[Data]] = [
    ranges("l", {"type": "Pod", "maxLimitRequestRatio": {"memory": "2"}}, _container(max={"cpu": "1"})),
    made("nothing"),
    made("sum", asks({"memory": "1Gi"}, {"memory": "3Gi"}), asks({"memory": "1Gi"}, {"memory": "1Gi"})),
    made("wide", asks({"memory": "1Gi"}, {"memory": "4Gi"}), asks({"memory": "1Gi"}, {"memory": "1Gi"})),
    made("both", asks({"memory": "1M"}, {"memory": "4M", "cpu": "2"})),
]

_CLAIMS: Final[list[Data]] = [
    claim("old", "1Gi"),
    claim("ending", "1Gi", **HOLD),
    {"method": "DELETE", "path": "persistentvolumeclaims/ending"},
    ranges("l", {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "10Gi"}}),
    {"method": "GET", "path": "limitranges/l"},
    claim("small", "1Gi"),
    claim("large", "0.5Ti"),
    claim("right", "2048Mi"),
    claim("right", "3Gi"),
    claim("", "1", generateName="made-"),
    merge("persistentvolumeclaims/old", {"metadata": {"labels": {"a": "b"}}}),
    merge("persistentvolumeclaims/old/status", {"status": {"phase": "Bound"}}),
    merge("persistentvolumeclaims/ending", {"metadata": {"labels": {"a": "b"}}}),
    made("unconcerned"),
]

_CLAIM_WORDS: Final[list[Data]] = [
    ranges(
        "l",
        {"type": "PersistentVolumeClaim", "min": {"storage": "1", "cpu": "1"}},
        {"type": "example.com/thing", "max": {"storage": "1"}},
    ),
    claim("a", "1Gi"),
    ranges("m", {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi", "example.com/x": "3"}}),
    {"method": "DELETE", "path": "limitranges/l"},
    claim("b", "1Gi"),
    claim("c", "2Gi"),
]

_SEVERAL: Final[list[Data]] = [
    ranges("defaults", _container(default={"cpu": "2", "memory": "1Gi"})),
    ranges("bounds", _container(maxLimitRequestRatio={"cpu": "3"}), {"type": "Pod", "max": {"cpu": "3", "memory": "1536Mi"}}),
    made("one"),
    made("two", {}, {}),
    made("three", asks({"cpu": "1m"}), {}),
]  # fmt: skip

_RULES: Final[list[Data]] = [
    ranges("a", _container(min={"cpu": "2"}, max={"cpu": "1"})),
    ranges("a", _container(default={"cpu": "2"}, max={"cpu": "1"})),
    ranges("a", _container(default={"cpu": "1"}, defaultRequest={"cpu": "2"})),
    ranges("a", _container(min={"cpu": "1"}, defaultRequest={"cpu": "500m"})),
    ranges("a", _container(min={"cpu": "1"}, default={"cpu": "500m"})),
    ranges("a", _container(maxLimitRequestRatio={"cpu": "500m"})),
    ranges("a", _container(min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"})),
    ranges("a", _container(min={"cpu": "100u"}, max={"cpu": "1m"}, maxLimitRequestRatio={"cpu": "1500m"})),
    ranges("a", _container(min={"cpu": "0"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"})),
    ranges("a", _container(default={"hugepages-2Mi": "2Mi"}, defaultRequest={"hugepages-2Mi": "4Mi"})),
    ranges("a", _container(default={"example.com/x": "2"}, defaultRequest={"example.com/x": "1"})),
    ranges("a", _container(default={"storage": "2"})),
    ranges("a", _container(max={"cpu": "-1"})),
    ranges("a", _container(max={"cpu": "1"}), _container(max={"cpu": "1"})),
    ranges("a", {"type": "Pod", "default": {"cpu": "1"}}),
    ranges("a", {"type": "Pod", "max": {"storage": "1"}}),
    ranges("a", {"type": "PersistentVolumeClaim", "maxLimitRequestRatio": {"storage": "1"}}),
    ranges("a", {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}, "default": {"storage": "3Gi"}}),
    ranges("a", {"type": "Node", "max": {"cpu": "1"}}),
    ranges("a", {"max": {"cpu": "1"}}),
    ranges("a", _container(max={"cpu": "lots"})),
    ranges("A_b", _container()),
    ranges("empty"),
    ranges("given", _container(min={"cpu": "1m"}, max={"memory": "1024Ki"}, default={"cpu": 2})),
    ranges("of-pods", {"type": "Pod", "min": {"cpu": "1000m"}, "max": {"cpu": "2000m"}}),
]

_WHOLE: Final[list[Data]] = [
    made("hollow", asks(None, {"cpu": "1"}), resources={}),
    made("requests", asks({"memory": "1Mi"}, {"cpu": "1"}), resources={"requests": {"cpu": "2"}}),
    made("limits", asks({"memory": "1Mi"}, {"cpu": "1"}), {}, resources={"limits": {"cpu": "2"}}),
    made("both", {}, initContainers=first(asks({"cpu": "1"})), resources={"limits": {"cpu": "2", "memory": "2048Mi"}}),
    made(
        "sidecar",
        asks({"cpu": "1"}),
        initContainers=first({**asks({"cpu": "1"}), **ALWAYS}),
        resources={"limits": {"cpu": "4"}},
    ),
    made("less", asks({"cpu": "1"}), asks({"cpu": "1"}), resources={"requests": {"cpu": "1500m"}}),
    made("over", asks({"cpu": "1"}), asks({"cpu": "1"}), resources={"limits": {"cpu": "1500m"}}),
    made("first", initContainers=first(asks(None, {"cpu": "3"})), resources={"limits": {"cpu": "2"}}),
    made("wide", asks(None, {"cpu": "3"}), resources={"requests": {"cpu": "3"}, "limits": {"cpu": "2"}}),
    made("pages", asks(None, {"hugepages-2Mi": "4Mi", "cpu": "1"}), resources={"limits": {"memory": "1Gi"}}),
    made("asked", asks(None, {"hugepages-2Mi": "4Mi", "cpu": "1"}), resources={"requests": {"memory": "1Gi"}}),
    made(
        "leaves",
        asks(None, {"hugepages-2Mi": "4Mi", "cpu": "1"}),
        resources={"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}},
    ),
    made("alone", resources={"limits": {"hugepages-2Mi": "2Mi"}}),
    made("other", resources={"limits": {"ephemeral-storage": "1"}}),
    made("gpu", asks(None, {"example.com/gpu": "1"}), resources={"limits": {"cpu": "1"}}),
    made("negative", resources={"requests": {"cpu": "-1"}}),
    made("windows", os={"name": "windows"}, resources={"limits": {"cpu": "1"}}),
]

LIMIT_CASES: Final[dict[str, list[Data]]] = {
    "defaults": _DEFAULTS,
    "bounds": _BOUNDS,
    "ratios": _NOT_STATED,
    "fractions": _FRACTION,
    "large": _LARGE,
    "pods": _PODS,
    "pod-ratios": _POD_RATIO,
    "claims": _CLAIMS,
    "claim-words": _CLAIM_WORDS,
    "several": _SEVERAL,
    "rules": _RULES,
    "wholes": _WHOLE,
}
"""Steps by their namespace, in order."""

INJECTED: Final = "injected"
"""The namespace of the webhooks' cases."""
_ON_PODS: Final[Data] = {
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": INJECTED}},
}
_SIDECAR: Final = patch(
    {"op": "add", "path": "/spec/containers/-", "value": {"name": "added", "image": "registry.example.com/s:1"}}
)
_NOTE: Final = patch({"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}})


def _hooked(name: str, answer: Any, *hooks: Data) -> Data:
    place = f"/api/v1/namespaces/{INJECTED}/pods?dryRun=All"
    found = case(name, answer, *hooks, kind="Mutating", path=place)
    return {**found, "request": ["POST", place, pod("p")]}


LIMIT_HOOKS: Final[list[Data]] = [
    _hooked("a container is added", _SIDECAR, webhook("one", **_ON_PODS)),
    _hooked("a label is added", _NOTE, webhook("one", **_ON_PODS)),
    _hooked("the first is asked again", {"/one": YES, "/two": _SIDECAR},
            webhook("one", reinvocationPolicy="IfNeeded", **_ON_PODS), webhook("two", **_ON_PODS)),
    _hooked("the only one is asked again for what was filled in", _SIDECAR, webhook("one", reinvocationPolicy="IfNeeded", **_ON_PODS)),
    _hooked("the only one is not asked again for nothing", _NOTE, webhook("one", reinvocationPolicy="IfNeeded", **_ON_PODS)),
]  # fmt: skip
"""Webhooks, their responses, and the created pod: in a namespace with the LimitRange of the case `defaults`."""


def shown(document: Data) -> Data:
    """Return the compared part of a response. Lists in random order of the real server are sorted, and generated names are hidden."""
    if document.get("kind") == "Status":
        status: Data = _masked(document)
        head, _, tail = status.get("message", "").partition(" is forbidden: [")
        if tail and len(_PARTS.split(tail)) > 1:
            status["message"] = (
                f"{head} is forbidden: [{', '.join(_sorted_runs(_PARTS.split(tail.removesuffix(']'))))}]"
            )
        return status
    metadata, spec = document["metadata"], document["spec"]
    found = {"annotations": metadata.get("annotations"), "finalizers": metadata.get("finalizers")}
    if document["kind"] != "Pod":
        return {**found, "labels": metadata.get("labels"), "spec": spec}
    for field in ("containers", "initContainers"):
        found[field] = [[one["name"], one.get("resources")] for one in spec.get(field, [])]
    return {**found, "resources": spec.get("resources"), "qosClass": document["status"].get("qosClass")}


def _sorted_runs(parts: list[str]) -> list[str]:
    """Sort neighbours with the same message about several resources: Go iterates over these in random order."""
    runs: list[list[str]] = []
    for part in parts:
        words = part.split(" ")
        key = words[0] if words[0] in ("minimum", "maximum") else "ratio"
        if runs and runs[-1][0] == key:
            runs[-1].append(part)
        else:
            runs.append([key, part])
    return [part for key, *run in runs for part in sorted(run)]


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_masked(each) for each in value]
    return _GENERATED.sub("GENERATED", value) if isinstance(value, str) else value
