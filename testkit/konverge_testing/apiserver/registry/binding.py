"""Bindings: how a scheduler assigns a pod to a node, through `pods/binding` and through `bindings`.

Guarantees: a binding passes admission like any create; it fails if the pod has a node, scheduling gates or a deletionTimestamp, or if the
pod is not the pod whose uid or resourceVersion the binding names. Source: `pkg/registry/core/pod/storage/storage.go` (BindingREST).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.creating import placed
from konverge_testing.apiserver.registry.pipeline import decode_body, owned
from konverge_testing.apiserver.registry.request import ResourceRequest
from konverge_testing.apiserver.registry.reviewing import mutated, reviewed
from konverge_testing.apiserver.statuses import FieldError, StatusError, bad_request, conflict, not_found
from konverge_testing.apiserver.storage import Entry

__all__ = ["bind"]

_PODS: Final = ("", "pods")


async def bind(registry: Registry, request: ResourceRequest) -> Data:
    """Assign a pod to a node; returns the Status of the response."""
    bindings = registry.find("", "bindings")
    assert bindings is not None, "bindings are always served"
    shape = replace(request, resource=bindings, version=bindings.versions[0])
    body = decode_body(shape)
    placed(shape, body)
    owned(shape, None, body, registry.now())
    body = await mutated(registry, request, "CREATE", body, None)
    name = str(body["metadata"].get("name") or "")
    if request.info.name and name != request.info.name:
        raise bad_request("name in URL does not match name in Binding object")
    _check_target(body.get("target") or {})
    await reviewed(registry, request, "CREATE", body, None)
    entry = registry.store.get(_PODS, request.namespace, name)
    if entry is None:
        raise not_found("", "pods", name)
    _check_preconditions(body["metadata"], entry)
    pod = entry.object()
    _check_pod(pod)
    if not request.options.dry_run:
        registry.store.update(_PODS, entry, _bound(pod, body, registry.now()))
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check_target(target: Data) -> None:
    kind, errors = target.get("kind") or "", list[FieldError]()
    if kind not in ("", "Node"):
        errors.append(FieldError("NotSupported", "target.kind", kind, 'supported values: "Node", "<empty>"'))
    if not target.get("name"):
        errors.append(FieldError("Required", "target.name", "", ""))
    if errors:
        texts = [str(error) for error in errors]
        raise StatusError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _check_preconditions(wanted: Data, entry: Entry) -> None:
    for what, given, there in (
        ("UID", wanted.get("uid"), entry.uid),
        ("ResourceVersion", wanted.get("resourceVersion"), str(entry.version)),
    ):
        if given and given != there:
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/pods/{entry.namespace}/{entry.name}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: {what} in precondition: {given}, {what} in object meta: {there}"
            )
            raise conflict("", "pods", entry.name, why)


def _check_pod(pod: Data) -> None:
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    why = ""
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict("", "pods/binding", name, why)


def _bound(pod: Data, binding: Data, now: str) -> Data:
    """Return a pod with its node, and with the annotations and labels of the binding."""
    metadata, status = dict(pod["metadata"]), dict(pod.get("status") or {})
    for field in ("annotations", "labels"):
        if given := binding["metadata"].get(field):
            metadata[field] = {**(metadata.get(field) or {}), **given}
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    kept = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
    status["conditions"] = [*kept, scheduled]
    spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
    return {**pod, "metadata": metadata, "spec": spec, "status": status}
