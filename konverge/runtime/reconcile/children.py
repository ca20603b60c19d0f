"""The applies and deletes of one reconcile: of owned children, and of objects without owner reference; each object is applied once.

Guarantees: nothing is sent to an object of another owner. A child that the cache does not show is created, and never merged into an
existing object. A child that was deleted soon after its creation is created again only if the server still has the owner. Children
outside the set are deleted only while no child is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from konverge.client.requests import Propagation
from konverge.dropped import PartialObject
from konverge.errors import Conflict, Forbidden, NotFound, NotOurs, RetryAfter, UsageError
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata, MetadataObject, Object
from konverge.runtime.apply.conflicts import TAKE, Applied, Child, FieldsHeld, OnConflict
from konverge.runtime.apply.owners import check_scope, controller_reference, refuse_foreign
from konverge.runtime.consistency.own_writes import only_own_apply
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.trace import ReconcileTrace
from konverge.runtime.reconcile.unchanged import UnchangedChildren
from konverge.selectors import LabelSelector

if TYPE_CHECKING:
    from konverge.informers import Cached, Selection
    from konverge.runtime.apply.applier import AppliedObject

__all__ = ["Children"]

_NEVER_A_VERSION = "1"
_SOON = 30.0
"""Seconds after the creation of a child. A deletion within this time may be the garbage collector's, so the owner is read live."""
_LAGS = 1.0
"""Seconds until the children are tried again if the cache shows a deleted owner. The event of the deletion normally precedes."""


class Children:
    """Applies and deletes for one reconcile."""

    def __init__(self, services: ReconcileServices, owner: Metadata, trace: ReconcileTrace) -> None:
        self._services = services
        self._owner = owner
        self._trace = trace
        # API version, kind, namespace, name and subresource.
        self._applied: set[tuple[str, str, str, str, str]] = set()
        self.unchanged = UnchangedChildren(services, owner, trace, self._applied)
        # Looked up once in a reconcile, and not for each child.
        self._namespaced: dict[Kind[Any], bool] = {}
        self._reference = controller_reference(services.kind, owner)
        self._created: dict[Key, float] = {}
        self._before: Mapping[Key, float] | None = None

    async def identify(self, object_: Resource, subresource: str = "") -> tuple[Key, dict[str, Any], bool]:
        """Return key, intent and scope of an object, or of a subresource of one, that is to be applied."""
        kind = kind_of(object_)
        intent = object_.to_dict()
        namespaced = self._namespaced.get(kind)
        if namespaced is None:
            namespaced = self._namespaced[kind] = (await self._services.client.resource(kind)).namespaced
        metadata = intent.setdefault("metadata", {})
        if not metadata.get("name"):
            raise UsageError(f"a {kind.kind} without a name cannot be applied; give it a name derived from its owner's")
        if namespaced:
            metadata.setdefault("namespace", self._trace.key.namespace)
            if not metadata["namespace"]:
                raise UsageError(f"{kind.kind} {metadata['name']} is namespaced and has no namespace; give it one")
        else:
            metadata.pop("namespace", None)
        if subresource != "status":
            intent.pop("status", None)
        key = Key("", kind, metadata.get("namespace", ""), metadata["name"])
        if self._trace.is_about(key):
            # The uid keeps the apply from recreating a deleted object or changing its successor.
            metadata["uid"] = self._owner.uid
        return key, intent, namespaced

    async def own(self, object_: Resource, on_conflict: OnConflict, *, adopt: bool) -> tuple[Key, Object, bool]:
        """Apply one owned child; returns its key, the stored object, and whether anything was sent."""
        child, comparison = self.unchanged.find(object_, adopt=adopt)
        if child is None:
            return await self.compare_and_apply(object_, on_conflict, adopt=adopt, comparison=comparison)
        seen = child.metadata
        return Key("", kind_of(object_), seen.namespace, seen.name), child, False

    async def compare_and_apply(
        self, object_: Resource, on_conflict: OnConflict, *, adopt: bool, comparison: bytes | None
    ) -> tuple[Key, Object, bool]:
        """Apply an owned child that `unchanged.find` did not settle; `comparison` is the digest that it returned."""
        key, intent, namespaced = await self.identify(object_)
        services, owner = self._services, self._owner
        if key.kind not in services.owned:
            raise UsageError(
                f"controller {services.controller!r} owns {key} without having declared it: add .owns({key.kind.kind.upper()}) to it"
            )
        check_scope(services.kind, owner, key, child_namespaced=namespaced)
        partial = services.partial.get(key.kind) if services.partial else None
        metadata = intent["metadata"]
        references = [entry for entry in metadata.get("ownerReferences", ()) if entry.get("uid") != owner.uid]
        metadata["ownerReferences"] = [self._reference, *references]
        cached = services.caches.cached(key, partial=partial is not None)
        if cached is None:
            self._refuse_unselected(key, metadata.get("labels") or {})
        if cached is None and self._would_see(key):
            created = await self._create(key, intent, object_, adopt=adopt)
            if created is not None:
                return key, created if partial is None else view_of(created, partial), True
        existing = cached.metadata if cached is not None else await self._existing(key)
        if existing is None:
            await self._check_owner(key)
        else:
            refuse_foreign(owner, services.kind, key, existing, adopt=adopt)
            self._refuse_second_writer(key)
            if existing.deleting:
                plain = Kind(key.kind.api_version, key.kind.kind, Object)
                dying = Object(cached.data()) if cached else await services.client.get(plain, key.name, key.namespace)
                return key, dying if partial is None else view_of(dying, partial), False
            metadata["uid"] = existing.uid
        claim = services.claims.take(key, services.controller, self._trace.key)
        stored, sent, exact = await self.send(key, intent, cached, on_conflict, compare=comparison is None)
        if comparison and not sent:
            claim.unchanged = comparison
        elif exact:
            self.unchanged.note_applied(object_, stored, claim, adopt=adopt)
        if existing is None:
            self._note_made(key)
        if (
            sent
            and cached is not None
            and key.kind in services.filtered
            and only_own_apply(cached.data(), stored.data if partial is None else as_cached(stored, partial), intent)
        ):
            services.own_versions.add(key, stored.metadata.resource_version)
        return key, stored if partial is None else view_of(stored, partial), sent

    async def _create(self, key: Key, intent: dict[str, Any], object_: Resource, *, adopt: bool) -> Object | None:
        """Create a child that the cache does not show; None, with nothing changed, if it exists after all.

        A plain apply would merge into an existing object of another owner. So it names a version that no object can have: the server
        creates the object if it does not exist, and refuses if it does (kube-apiserver 1.36, tried; etcd counts from 1, so its first object
        is at 2).
        """
        await self._check_owner(key)
        metadata = {name: value for name, value in intent["metadata"].items() if name != "uid"}
        only_new = {**intent, "metadata": {**metadata, "resourceVersion": _NEVER_A_VERSION}}
        try:
            stored, _, exact = await self.send(key, only_new, None, TAKE, new=True)
        except Conflict:
            return None
        claim = self._services.claims.take(key, self._services.controller, self._trace.key)
        if exact:
            self.unchanged.note_applied(object_, stored, claim, adopt=adopt)
        self._note_made(key)
        if key.kind in self._services.filtered:
            self._services.own_versions.add(key, stored.metadata.resource_version)
        return stored

    async def _check_owner(self, key: Key) -> None:
        """Raise RetryAfter before a child is recreated for an owner that the server has deleted or is deleting.

        The garbage collector deletes such a child at once, and the deletion enqueues the owner: while the watch of the owner is
        interrupted, that is a hot loop. The owner of a child that existed for longer is not read: the creation starts no loop, since a
        deletion that follows it soon is checked. Without the right to read the owner the child is created nevertheless.

        The collector (attemptToDeleteItem):
        https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/garbagecollector/garbagecollector.go
        """
        owner, mine = self._owner, self._trace.key
        if not self._created:
            self._before = self._services.created_children.get(mine)
        created = None if self._before is None else self._before.get(key)
        now = asyncio.get_running_loop().time()
        if self._before is None or created is None or now - created >= _SOON:
            return
        try:
            stored = await self._services.client.get_metadata(mine.kind, mine.name, mine.namespace)
        except NotFound:
            stored = None
        except Forbidden:
            return
        if stored is None or stored.uid != owner.uid or (stored.deleting and not owner.deleting):
            self._services.created_children.put(mine, {**self._before, key: now})
            raise RetryAfter(
                _LAGS,
                f"{key} is not made, since the garbage collector would delete it: the server has deleted {mine}, or is deleting it, and "
                "the cache does not show that yet",
            )

    def _refuse_unselected(self, key: Key, labels: Mapping[str, str]) -> None:
        """Raise UsageError for a new child that the cache of the children would never show."""
        informer = self._services.caches.informer(key.kind)
        if informer is None or not informer.selection.labels:
            return
        if not LabelSelector.parse(informer.selection.labels).matches(labels):
            raise UsageError(
                f"controller {self._services.controller!r} owns only {key.kind.kind} with the labels {informer.selection.labels!r}, and "
                f"{key} does not have them: add the labels to the child, or leave out the selector of .owns"
            )

    def refuse_dropped(self, key: Key, intent: Mapping[str, Any]) -> None:
        """Raise UsageError for an intent that sets a field which the cache drops."""
        part = self._services.partial.get(key.kind)
        if part is not None and part.dropped is not None and (unseen := part.dropped.named_in(intent)):
            raise UsageError(
                f"controller {self._services.controller!r} sets {unseen} of {key}, which its cache drops, so a change of it would not be "
                "seen: take the path out of drop"
            )

    def _note_made(self, key: Key) -> None:
        self._created[key] = asyncio.get_running_loop().time()
        self._services.created_children.put(self._trace.key, self._created)

    def _would_see(self, key: Key) -> bool:
        """Return whether the cache holds every existing object of the kind and namespace, apart from the delay of a watch."""
        informer = self._services.caches.informer(key.kind)
        if informer is None or not informer.synced:
            return False
        chosen = informer.selection
        return not (chosen.labels or chosen.fields) and chosen.namespace in (None, key.namespace)

    async def _existing(self, key: Key) -> Metadata | None:
        """Read a child from the server before its first apply: the cache may lag, and an apply would merge into another owner's object."""
        try:
            return await self._services.client.get_metadata(key.kind, key.name, key.namespace)
        except NotFound:
            return None

    def _refuse_second_writer(self, key: Key) -> None:
        other = self._services.claims.other(key, self._services.controller)
        if other:
            raise NotOurs(
                f"{key} is written by controller {other!r}; controller {self._services.controller!r} does not write it too. "
                "Let one of them own it, or give the children different names"
            )

    async def apply(self, key: Key, intent: dict[str, Any], on_conflict: OnConflict, subresource: str) -> Object:
        """Apply an object without owner reference, or a subresource; refuses another controller's child with the same field manager."""
        other = "" if subresource else self._services.claims.other(key, self._services.controller)
        if other and self._services.field_managers.get(other) == self._services.manager:
            self._refuse_second_writer(key)
        cached = self._services.caches.cached(key)
        return (await self.send(key, intent, cached, on_conflict, subresource=subresource)).stored

    async def send(
        self,
        key: Key,
        intent: dict[str, Any],
        cached: Cached | None,
        on_conflict: OnConflict,
        *,
        subresource: str = "",
        new: bool = False,
        compare: bool = True,
    ) -> AppliedObject:
        """Apply an intent, once in a reconcile. With `new` it can only create the object.

        `compare` is False if the caller remembers the comparisons that find no change.
        """
        target = (key.kind.api_version, key.kind.kind, key.namespace, key.name, subresource)
        if target in self._applied:
            raise UsageError(
                f"{key} was applied twice in one reconcile; an apply carries the whole intent, the second would undo the first"
            )
        self._trace.check_open()
        if self._services.partial:
            self.refuse_dropped(key, intent)
        try:
            applied = await self._services.applier.apply(
                key,
                intent,
                cached=cached,
                manager=self._services.manager,
                on_conflict=on_conflict,
                subresource=subresource,
                writer=self._trace.writer,
                on_behalf=None if new else self._trace.key,
                compare=compare,
            )
        except FieldsHeld as held:
            self._trace.look_again = min(self._trace.look_again, held.look_again)
            raise
        self._applied.add(target)
        if applied.sent:
            self._trace.writes.append(f"apply {subresource} of {key}" if subresource else f"apply {key}")
        else:
            self._trace.skipped += 1
        return applied

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str,
        *,
        uid: str = "",
        expect: Resource | Metadata | None = None,
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete an object under preconditions; returns False if it does not exist."""
        self._trace.write(f"delete {Key('', kind, namespace, name)}")
        return await self._services.client.delete(
            kind,
            name,
            namespace,
            uid=uid,
            expect=expect,
            propagation=propagation,
            writer=self._trace.writer,
        )

    async def apply_all(self, wanted: tuple[Child, ...]) -> Applied:
        """Apply these children and delete owned children outside the set."""
        applied, held = Applied(), []
        keys: set[Key] = set()
        for child in wanted:
            try:
                key, stored, sent = await self.own(child.object, child.on_conflict, adopt=child.adopt)
            except FieldsHeld as conflict:
                held.append(conflict.held)
                continue
            keys.add(key)
            applied.add(key, stored)
            applied.changed = applied.changed or sent
        applied.held = tuple(held)
        if not held:
            applied.changed = await self._prune(keys) or applied.changed
        return applied

    async def _prune(self, keep: set[Key]) -> bool:
        """Delete owned children outside the set. The cache is enough to find them: the barrier keeps it up with our own writes."""
        owner, pruned = self._owner, False
        for kind in sorted(self._services.owned, key=lambda kind: (kind.api_version, kind.kind)):
            informer = self._services.caches.informer(kind)
            if informer is None or not informer.synced:
                continue
            for cached in informer.store.by_index("owner", owner.uid):
                metadata = cached.metadata
                child = Key("", kind, metadata.namespace, metadata.name)
                if child in keep or metadata.deleting or self._is_anothers(child, cached):
                    continue
                await self.delete(kind, metadata.name, metadata.namespace, uid=metadata.uid)
                pruned = True
        return pruned

    def _is_anothers(self, child: Key, cached: Cached) -> bool:
        """Return whether another controller of this kind applies the child (its claim) or has applied it (its field manager)."""
        managers = {owner.manager for owner in cached.owned or () if not owner.subresource}
        applied_by_others = bool(managers) and self._services.manager not in managers
        return applied_by_others or bool(self._services.claims.other(child, self._services.controller))


def as_cached(stored: Object, part: Selection) -> dict[str, Any]:
    """Return a stored object as the cache of this selection holds it."""
    return stored.data if part.dropped is None else part.dropped.strip_data(stored.data)


def view_of(stored: Object, part: Selection) -> Object:
    """Return a stored object as a read of the cache would: whether an apply was sent must not decide what can be read."""
    if part.metadata_only:
        return MetadataObject.of(part.kind.api_version, part.kind.kind, stored.metadata)
    return stored if part.dropped is None else PartialObject(part.dropped.strip_data(stored.data), part.dropped)
