"""The garbage collector: children follow their owners.

Guarantees: the rules of kube-controller-manager's (k8s.io/kubernetes `pkg/controller/garbagecollector`). A child with no owner left is
deleted; a child that keeps an owner loses the references to absent owners. `orphan` frees the children first, `foregroundDeletion` waits
for those that block. An owner is looked up in the child's own namespace, or cluster-wide for a cluster-scoped kind; an owner with another
uid is absent. A cluster-scoped child of a namespaced owner, and a child of an owner whose kind is not served, stay, since their owners
cannot be looked up.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.controllers.client import ControllerClient
from konverge_testing.apiserver.controllers.worker import Worker
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.deleting import FOREGROUND, ORPHAN
from konverge_testing.apiserver.resources import Resource
from konverge_testing.apiserver.storage import Entry, Event

__all__ = ["GarbageCollector"]

Where: TypeAlias = tuple[tuple[str, str], str, str]
"""Resource, namespace, name."""

_HINTS: Final = (b'"ownerReferences"', b'"deletionTimestamp"')


class GarbageCollector:
    """Follows every commit; keeps the children of each owner's uid."""

    name = "generic-garbage-collector"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._hands = ControllerClient(registry, self.name)
        self._children: dict[str, dict[Where, None]] = {}
        self._owners: dict[Where, tuple[str, ...]] = {}
        self._waiting: dict[str, Where] = {}
        self.worker: Worker[Where] = Worker(self.name, self._work)

    # --- commits -------------------------------------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Handle one commit."""
        entry = event.entry
        where = (entry.resource, entry.namespace, entry.name)
        if event.type == "DELETED":
            self._waiting.pop(entry.uid, None)
            self._forget(where)
            for child in self._children.get(entry.uid, ()):
                self.worker.add(child)
            return
        if not any(hint in entry.raw for hint in _HINTS):
            if where in self._owners:
                self._forget(where)
            return
        metadata = entry.metadata()
        self._link(where, metadata.get("ownerReferences") or ())
        if metadata.get("deletionTimestamp") and FOREGROUND in (metadata.get("finalizers") or ()):
            self._waiting[entry.uid] = where
        if metadata.get("ownerReferences") or metadata.get("deletionTimestamp"):
            self.worker.add(where)

    def _link(self, where: Where, references: Any) -> None:
        self._forget(where)
        uids = tuple(one["uid"] for one in references)
        if not uids:
            return
        self._owners[where] = uids
        for uid in uids:
            self._children.setdefault(uid, {})[where] = None

    def _forget(self, where: Where) -> None:
        for uid in self._owners.pop(where, ()):
            if uid in self._waiting:
                self.worker.add(self._waiting[uid])
            children = self._children.get(uid, {})
            children.pop(where, None)
            if not children:
                self._children.pop(uid, None)

    # --- actions -------------------------------------------------------------------------------------------------------------

    async def _work(self, where: Where) -> None:
        resource = self._registry.find(*where[0])
        entry = None if resource is None else self._registry.store.get(*where)
        if resource is None or entry is None:
            return
        metadata = entry.metadata()
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or ()
            if ORPHAN in finalizers:
                await self._orphan(resource, entry, metadata)
            elif FOREGROUND in finalizers:
                await self._foreground(resource, entry, metadata)
            return
        if metadata.get("ownerReferences"):
            await self._child(resource, entry, metadata)

    async def _orphan(self, resource: Resource, entry: Entry, metadata: Data) -> None:
        for child in list(self._children.get(entry.uid, ())):
            await self._drop_references(child, {entry.uid})
        await self._drop_finalizer(resource, entry, metadata, ORPHAN)

    async def _foreground(self, resource: Resource, entry: Entry, metadata: Data) -> None:
        blocking = False
        for child in list(self._children.get(entry.uid, ())):
            found = self._registry.store.get(*child)
            child_resource = self._registry.find(*child[0])
            if found is None or child_resource is None:
                continue
            references = found.metadata().get("ownerReferences") or ()
            blocking = blocking or any(one["uid"] == entry.uid and one.get("blockOwnerDeletion") for one in references)
            self.worker.add(child)
        if not blocking:
            await self._drop_finalizer(resource, entry, metadata, FOREGROUND)

    async def _child(self, resource: Resource, entry: Entry, metadata: Data) -> None:
        solid, dangling, waiting = list[Data](), list[Data](), list[Data]()
        for reference in metadata["ownerReferences"]:
            state = self._owner(resource, entry, reference)
            {"solid": solid, "absent": dangling, "waiting": waiting}[state].append(reference)
        where = (entry.resource, entry.namespace, entry.name)
        if solid:
            gone = {one["uid"] for one in (*dangling, *waiting)}
            if gone:
                await self._drop_references(where, gone)
            return
        if waiting and self._children.get(entry.uid):
            await self._hands.delete(resource, entry.namespace, entry.name, policy="Foreground", uid=entry.uid)
            return
        finalizers = metadata.get("finalizers") or ()
        policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
        await self._hands.delete(resource, entry.namespace, entry.name, policy=policy, uid=entry.uid)

    def _owner_entry(self, resource: Resource, entry: Entry, reference: Data) -> tuple[Resource | None, Entry | None]:
        owner = self._registry.by_kind(reference["apiVersion"], reference["kind"])
        if owner is None or (owner.namespaced and not resource.namespaced):
            return None, None
        found = self._registry.store.get(owner.id, entry.namespace if owner.namespaced else "", reference["name"])
        return owner, found if found is not None and found.uid == reference["uid"] else None

    def _owner(self, resource: Resource, entry: Entry, reference: Data) -> str:
        owner, found = self._owner_entry(resource, entry, reference)
        if owner is None:
            return "solid"  # the owner cannot be looked up
        if found is None:
            return "absent"
        metadata = found.metadata()
        waits = metadata.get("deletionTimestamp") and FOREGROUND in (metadata.get("finalizers") or ())
        return "waiting" if waits else "solid"

    async def _drop_references(self, where: Where, uids: set[str]) -> None:
        resource, entry = self._registry.find(*where[0]), self._registry.store.get(*where)
        if resource is None or entry is None:
            return
        kept = [one for one in entry.metadata().get("ownerReferences") or () if one["uid"] not in uids]
        document = {"metadata": {"uid": entry.uid, "ownerReferences": kept or None}}
        await self._hands.merge(resource, entry.namespace, entry.name, document)

    async def _drop_finalizer(self, resource: Resource, entry: Entry, metadata: Data, finalizer: str) -> None:
        kept = [one for one in metadata["finalizers"] if one != finalizer]
        document = {
            "metadata": {"uid": entry.uid, "resourceVersion": metadata["resourceVersion"], "finalizers": kept or None}
        }
        await self._hands.merge(resource, entry.namespace, entry.name, document)
