"""The store for other packages: the `Objects` protocol. A thin adapter."""

from __future__ import annotations

import builtins
from typing import Any

from konverge_testing.apiserver.storage.entries import ResourceId
from konverge_testing.apiserver.storage.store import Store

__all__ = ["StoredObjects"]


class StoredObjects:
    """Stored objects as fresh plain data; implements `konverge_testing.apiserver.objects.Objects`."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get(self, resource: ResourceId, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object; `namespace` is "" for a cluster-scoped object."""
        entry = self.store.get(resource, namespace, name)
        return None if entry is None else entry.object()

    def list(self, resource: ResourceId, namespace: str | None = None) -> builtins.list[dict[str, Any]]:
        """Return the objects of a namespace, or (None) all of them."""
        return [entry.object() for entry in self.store.list(resource, namespace)]

    def changed(self, resource: ResourceId) -> int:
        """Return the version of the last change to any object of a resource, or 0 if there was none."""
        return self.store.changed(resource)
