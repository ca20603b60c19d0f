"""A namespace's `finalize` subresource (k8s.io/kubernetes `pkg/registry/core/namespace/storage`)."""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.storage import Entry

__all__ = ["finalize"]

_NAMESPACES: Final = ("", "namespaces")


def finalize(registry: Registry, entry: Entry, finalizers: list[str]) -> Data:
    """Set a namespace's spec.finalizers; a namespace under deletion without finalizers is removed. Raises Changed."""
    data = entry.object()
    spec = {**(data.get("spec") or {}), "finalizers": finalizers}
    if not finalizers:
        del spec["finalizers"]
    new = {**data, "spec": spec}
    metadata: dict[str, Any] = data["metadata"]
    if metadata.get("deletionTimestamp") and not finalizers and not metadata.get("finalizers"):
        registry.store.delete(_NAMESPACES, entry, new)
        return new
    return registry.store.update(_NAMESPACES, entry, new).object()
