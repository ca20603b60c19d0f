"""From events in the caches of a controller to requests in its queue.

Guarantees: events of a key that is being reconciled are held back until the reconcile has ended. Only then it is known which of them show
our own status write: the event of a write often comes before its response, and would run the key again, past its backoff.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from konverge.errors import InvalidObject, UsageError
from konverge.informers import Change
from konverge.keys import Key
from konverge.objects import Metadata
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
from konverge.runtime.controller.watches import ControllerWatches
from konverge.runtime.hooks.object_gate import ObjectGate
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
        gate: ObjectGate | None = None,
    ) -> None:
        self._spec = spec
        self._queue = queue
        self._watches = watches
        self._caches = caches
        self._applier = applier
        self._own_versions = own_versions
        self._forget = forget
        self._log = log
        self._gate = gate
        self.held_back: dict[Key, list[Change]] = {}
        """The events of each key that is being reconciled."""
        self.standing_by = False
        """Whether no worker takes keys, so that keys of objects that are gone pile up: they are dropped, and all that is kept of them."""

    def on_primary(self, change: Change) -> None:
        """Handle an event of the controller's own kind."""
        key = Key("", self._spec.kind, change.namespace, change.name)
        if self._gate is not None and self._gate.observe(key, change):
            self.enqueue(key, Why.OWNER_CHANGED)  # whatever the controller's predicate returns
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

        Behind a gate only keys of cached objects are enqueued: a gate may narrow the watch of the objects, and not the watch of their
        children. The event of an object that enters the cache later enqueues its key.
        """
        gate, store = self._gate, self._watches.primary.store
        self._enqueue(
            request
            for request in requests
            if gate is None or store.get(request.key.namespace, request.key.name) is not None
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
        if self._gate is None or self._concerns(self._gate, key.namespace, key.name):
            self._queue.add(key, reason=reason, priority=priority)

    def _concerns(self, gate: ObjectGate, namespace: str, name: str) -> bool:
        """Whether a key needs work in this process. A deleted object does, so that its state is dropped."""
        cached = self._watches.primary.store.get(namespace, name)
        return cached is None or gate.concerns(cached.metadata)

    async def enqueue_all(self, reason: str) -> None:
        """Enqueue every object, and yield to the event loop in between."""
        await self.enqueue_where(reason, None if self._gate is None else self._gate.concerns)

    async def enqueue_where(self, reason: str, chosen: Callable[[Metadata], bool] | None) -> None:
        """Enqueue the objects that are chosen (None: every object), and yield to the event loop in between."""
        kind, store = self._spec.kind, self._watches.primary.store
        for number, (namespace, name) in enumerate(store.keys(), start=1):
            cached = None if chosen is None else store.get(namespace, name)
            if chosen is None or (cached is not None and chosen(cached.metadata)):
                self._queue.add(Key("", kind, namespace, name), reason=reason, priority=INITIAL_PRIORITY)
            if number % _KEYS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def resync_now(self) -> None:
        """Enqueue every object in one turn of the event loop, for tests."""
        for namespace, name in self._watches.primary.store.keys():  # noqa: SIM118  # a method of the store, no dict
            self._queue.add(Key("", self._spec.kind, namespace, name), reason=Why.RESYNC, priority=INITIAL_PRIORITY)
