"""Admission around a write, skipped if no plugin or webhook concerns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from konverge_testing.apiserver.admission import AdmissionCall, Operation
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.request import ResourceRequest

__all__ = ["mutated", "reviewed"]

_KINDS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions", "CONNECT": ""}
_GROUP_KINDS: Final = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "binding": ("", "v1", "Binding"),
}


def _call(request: ResourceRequest, operation: Operation, new: Data | None, old: Data | None) -> AdmissionCall:
    name = request.info.name or ((new or old or {}).get("metadata") or {}).get("name", "")
    options: Data = {"kind": _KINDS[operation], "apiVersion": "meta.k8s.io/v1"}
    if request.options.manager:
        options["fieldManager"] = request.options.manager
    if request.options.dry_run:
        options["dryRun"] = ["All"]
    return AdmissionCall(
        operation=operation,
        resource=request.resource,
        version=request.version.name,
        subresource=request.info.subresource,
        namespace=name if request.resource.id == ("", "namespaces") else request.namespace,
        name=name,
        object=new,
        old=old,
        user=request.user,
        dry_run=request.options.dry_run,
        options=options,
        group_kind=_GROUP_KINDS.get(request.info.subresource),
        warnings=request.warnings,
    )


async def mutated(
    registry: Registry, request: ResourceRequest, operation: Operation, new: Data, old: Data | None
) -> Data:
    """Let mutating admission change an object; the changed fields have no owner."""
    if not registry.admission.needed(request.resource.id, operation):
        return new
    return await registry.admission.mutate(_call(request, operation, new, old))


async def reviewed(
    registry: Registry, request: ResourceRequest, operation: Operation, new: Data | None, old: Data | None
) -> Callable[[], None]:
    """Let guards and validating admission refuse a write; returns a function to be called after the write is stored (quota's charges).

    Nothing else runs between quota's check and the return.
    """
    for guard in registry.guards:
        guard(request, new, old)
    if not registry.admission.needed(request.resource.id, operation):
        return _nothing
    if operation == "DELETE":
        await registry.admission.mutate(_call(request, operation, new, old))
    return await registry.admission.validate(_call(request, operation, new, old)) or _nothing


def _nothing() -> None:
    return None
