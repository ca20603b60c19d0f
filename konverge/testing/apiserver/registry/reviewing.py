"""Admission around a write: what is asked, and what of it may be passed over at no cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from konverge.testing.apiserver.admission import AdmissionCall, Operation
from konverge.testing.apiserver.registry.core import Data, Registry
from konverge.testing.apiserver.registry.request import ResourceRequest

__all__ = ["mutated", "reviewed"]

_KINDS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions", "CONNECT": ""}
_GROUP_KINDS: Final = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "binding": ("", "v1", "Binding"),
}


def _call(ask: ResourceRequest, operation: Operation, new: Data | None, old: Data | None) -> AdmissionCall:
    name = ask.place.name or ((new or old or {}).get("metadata") or {}).get("name", "")
    options: Data = {"kind": _KINDS[operation], "apiVersion": "meta.k8s.io/v1"}
    if ask.options.manager:
        options["fieldManager"] = ask.options.manager
    if ask.options.dry_run:
        options["dryRun"] = ["All"]
    return AdmissionCall(
        operation=operation,
        resource=ask.resource,
        version=ask.version.name,
        subresource=ask.place.subresource,
        namespace=name if ask.resource.id == ("", "namespaces") else ask.namespace,
        name=name,
        object=new,
        old=old,
        user=ask.user,
        dry_run=ask.options.dry_run,
        options=options,
        group_kind=_GROUP_KINDS.get(ask.place.subresource),
        warnings=ask.warnings,
    )


async def mutated(registry: Registry, ask: ResourceRequest, operation: Operation, new: Data, old: Data | None) -> Data:
    """Let mutating admission change an object; the fields that it changed have no owner."""
    if not registry.admission.needed(ask.resource.id, operation):
        return new
    return await registry.admission.mutate(_call(ask, operation, new, old))


async def reviewed(
    registry: Registry, ask: ResourceRequest, operation: Operation, new: Data | None, old: Data | None
) -> Callable[[], None]:
    """Let guards and validating admission refuse a write; returns what is to be called once the write is stored (quota's charges).

    Nothing else runs between quota's check and the return.
    """
    for guard in registry.guards:
        guard(ask, new, old)
    if not registry.admission.needed(ask.resource.id, operation):
        return _nothing
    if operation == "DELETE":
        await registry.admission.mutate(_call(ask, operation, new, old))
    return await registry.admission.validate(_call(ask, operation, new, old)) or _nothing


def _nothing() -> None:
    return None
