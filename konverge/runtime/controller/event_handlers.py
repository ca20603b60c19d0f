"""From events in the caches of a controller to requests in its queue.

Guarantees: events of a key that is being reconciled are held back until the reconcile has ended. Only then it is known which of them show
our own status write: the event of a write often comes before its response, and would run the key again, past its backoff.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from konverge.errors import InvalidObject, UsageError
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.runtime.apply.applier import Applier
from konverge.runtime.builder.builder import Controller, Watched
from konverge.runtime.cache.readers import Caches
from konverge.runtime.consistency.own_versions import OwnVersions
from konverge.runtime.controller.requests import (
    INITIAL_PRIORITY,
    ReconcileRequest,
    requests_for_object,
    requests_for_owner,
    requests_mapped,
)
from konverge.runtime.controller.shard_gate import ShardGate
from konverge.runtime.controller.watches import ControllerWatches
from konverge.words import LogKey, Why
from konverge.workqueue import WorkQueue

__all__ = ["EventHandlers"]

_KEYS_AT_ONCE = 500


class EventHandlers:
    """The event handlers of one controller. Constructing it does nothing."""

    def __init__(
        self,
        spec: Controller[Any],
        queue: WorkQueue[Key],
        *,
        watches: ControllerWatches,
        caches: Caches,
        applier: Applier,
        own_versions: OwnVersions,
        forget: Callable[[Key], None],
        log: Any,
        shards: ShardGate | None = None,
    ) -> None:
        self._spec = spec
        self._queue = queue
        self._watches = watches
        self._caches = caches
        self._applier = applier
        self._own_versions = own_versions
        self._forget = forget
        self._log = log
        self._shards = shards
        self.held_back: dict[Key, list[Change]] = {}
        """The events of each key that is being reconciled."""
        self.standing_by = False
        """Whether no worker takes keys, so that keys of objects that are gone pile up: they are dropped, and all that is kept of them."""

    def on_primary(self, change: Change) -> None:
        """Handle an event of the controller's own kind."""
        key = Key("", self._spec.kind, change.namespace, change.name)
        if self._shards is not None and self._shards.observe(key, change):
            self.enqueue(key, Why.SHARD)  # whatever the controller's predicate says of the change
        held = self.held_back.get(key)
        if held is not None:
            held.append(change)
            return
        own = self._own_versions.of(key)
        self._enqueue(requests_for_object(self._spec, change, own))
        if own and change.new is not None:
            self._own_versions.seen(key, change.new.metadata.resource_version)

    def on_owned(self, watch: Watched, change: Change) -> None:
        """Handle an event of a child."""
        own: tuple[str, ...] = ()
        if change.new is None:
            gone = Key("", watch.kind, change.namespace, change.name)
            self._applier.forget(gone)
            self._own_versions.forget(gone)
        elif not watch.own_writes:
            own = self._own_versions.take(
                Key("", watch.kind, change.namespace, change.name), change.new.metadata.resource_version
            )
        self._enqueue_related(requests_for_owner(self._spec, watch, change, own, namespaced=self._watches.namespaced))

    def on_watched(self, watch: Watched, change: Change) -> None:
        """Handle an event of a kind that is mapped to keys."""
        self._enqueue_related(requests_mapped(watch, change, self._caches, undecodable=self._undecodable))

    def _undecodable(self, error: InvalidObject) -> None:
        self._log.warning("a watched object does not decode; no request is made for it", **{LogKey.ERROR: str(error)})

    def release(self, key: Key) -> None:
        """Handle the events of a key that were held back during its reconcile."""
        for change in self.held_back.pop(key):
            self.on_primary(change)

    def _enqueue_related(self, requests: Iterable[ReconcileRequest]) -> None:
        """Enqueue the keys that the event of another object gives.

        With sharding those alone whose object is in the cache: with a coordinator a replica sees the children of all objects, and of the
        objects its own. One that comes into the cache later is enqueued by that.
        """
        shards, store = self._shards, self._watches.primary.store
        self._enqueue(
            one for one in requests if shards is None or store.get(one.key.namespace, one.key.name) is not None
        )

    def _enqueue(self, requests: Iterable[ReconcileRequest]) -> None:
        for request in requests:
            if request.key.kind != self._spec.kind:
                raise UsageError(
                    f"a map function of controller {self._spec.name!r} gave {request.key}; it must give keys of "
                    f"{self._spec.kind.group_kind}, as caches({self._spec.kind.kind}).keys(...) does"
                )
            self.enqueue(request.key, request.reason, request.priority)

    def enqueue(self, key: Key, reason: str, priority: int = 0) -> None:
        """Enqueue a key, as one of the controller's own kind: an equal kind may decode to another model than the reconciler's."""
        own = self._spec.kind
        if key.kind is not own:
            key = Key(key.cluster, own, key.namespace, key.name)
        if self.standing_by and self._watches.primary.store.get(key.namespace, key.name) is None:
            self._queue.remove(key)
            self._forget(key)
            return
        if self._shards is None or self._concerns(self._shards, key.namespace, key.name):
            self._queue.add(key, reason=reason, priority=priority)

    def _concerns(self, shards: ShardGate, namespace: str, name: str) -> bool:
        """Whether a key is worked on here. One whose object is gone is, so that what is kept of it is dropped."""
        cached = self._watches.primary.store.get(namespace, name)
        return cached is None or shards.concerns(cached)

    async def enqueue_all(self, reason: str) -> None:
        """Enqueue every object, and yield to the event loop in between."""
        await self._enqueue_where(reason, None if self._shards is None else self._shards.concerns)

    async def enqueue_shard_changes(self) -> None:
        """Enqueue the objects that this replica is to claim or to hand over."""
        assert self._shards is not None
        await self._enqueue_where(Why.SHARD, self._shards.changes)

    async def _enqueue_where(self, reason: str, chosen: Callable[[Cached], bool] | None) -> None:
        kind, store = self._spec.kind, self._watches.primary.store
        for number, (namespace, name) in enumerate(store.keys(), start=1):
            cached = None if chosen is None else store.get(namespace, name)
            if chosen is None or (cached is not None and chosen(cached)):
                self._queue.add(Key("", kind, namespace, name), reason=reason, priority=INITIAL_PRIORITY)
            if number % _KEYS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def resync_now(self) -> None:
        """Enqueue every object in one turn of the event loop, for tests."""
        for namespace, name in self._watches.primary.store.keys():  # noqa: SIM118  # a method of the store, no dict
            self._queue.add(Key("", self._spec.kind, namespace, name), reason=Why.RESYNC, priority=INITIAL_PRIORITY)
