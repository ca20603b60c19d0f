"""The webhooks of `limits`, and the recorded parts of a response: plain data, read by recorder and tests."""

import re
from typing import Any, Final

from record.admission.hooks import YES, case, patch, webhook
from record.admission.world import pod

Data = dict[str, Any]

_PARTS: Final = re.compile(r", (?=minimum |maximum |[\w./-]+ max limit )")
_GENERATED: Final = re.compile(r"(?<=made-)\w{5}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

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
    result = case(name, answer, *hooks, kind="Mutating", path=place)
    return {**result, "request": ["POST", place, pod("p")]}


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
    result = {"annotations": metadata.get("annotations"), "finalizers": metadata.get("finalizers")}
    if document["kind"] != "Pod":
        return {**result, "labels": metadata.get("labels"), "spec": spec}
    for field in ("containers", "initContainers"):
        result[field] = [[item["name"], item.get("resources")] for item in spec.get(field, [])]
    return {**result, "resources": spec.get("resources"), "qosClass": document["status"].get("qosClass")}


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
