"""ResourceQuota's controller: `status` as computed from the stored objects (k8s.io/kubernetes `pkg/controller/resourcequota`).

Admission charges at creation; this controller subtracts the usage of deleted objects, and computes the status of new or changed quotas.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver.admission import QUOTAS, recalculate
from konverge_testing.apiserver.controllers.worker import Worker
from konverge_testing.apiserver.registry.core import Registry
from konverge_testing.apiserver.storage import Changed, Event, StoredObjects

__all__ = ["QuotaController"]

_NEVER: Final = frozenset({("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases")})


class QuotaController:
    """Follows every commit in a namespace that has quotas."""

    name = "resourcequota-controller"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._namespaces: dict[str, int] = {}
        self.worker: Worker[tuple[str, str]] = Worker(self.name, self._work)

    def observe(self, event: Event) -> None:
        """Handle one commit."""
        entry = event.entry
        if entry.resource == QUOTAS:
            step = {"ADDED": 1, "DELETED": -1}.get(event.type, 0)
            self._namespaces[entry.namespace] = self._namespaces.get(entry.namespace, 0) + step
            if event.type != "DELETED":
                self.worker.add((entry.namespace, entry.name))
        elif event.type != "ADDED" and entry.resource not in _NEVER and self._namespaces.get(entry.namespace):
            for quota in self._registry.store.list(QUOTAS, entry.namespace):
                self.worker.add((quota.namespace, quota.name))

    async def _work(self, key: tuple[str, str]) -> None:
        store = self._registry.store
        entry = store.get(QUOTAS, *key)
        if entry is None:
            return
        quota = entry.object()
        status = recalculate(quota, StoredObjects(store), self._registry.moment())
        if status == quota.get("status"):
            return
        try:
            store.update(QUOTAS, entry, {**quota, "status": status})
        except Changed:
            self.worker.add(key)
