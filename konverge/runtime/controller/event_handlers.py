"""From events in the caches of a controller to keys in its queue: which keys an event enqueues, and why.

Guarantees: events of a key that is being reconciled are held back until the reconcile has ended. The event of our own status write
often precedes the response, and would run the key again, past its backoff; after the response it is recognized. The functions that
choose the keys are pure; reason and priority depend on the event only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from konverge.errors import InvalidObject, UsageError
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata
from konverge.runtime.apply.applier import Applier
from konverge.runtime.builder.builder import Controller
from konverge.runtime.builder.predicates import life_changed
from konverge.runtime.builder.watched import Watched
from konverge.runtime.cache.readers import Caches
from konverge.runtime.consistency.own_writes import OwnVersions
from konverge.runtime.controller.own_functions import Priorities
from konverge.runtime.controller.watches import ControllerWatches
from konverge.runtime.hooks.object_gate import ObjectGate
from konverge.words import LogKey, Why
from konverge.workqueue import WorkQueue

if TYPE_CHECKING:
    from konverge.runtime.controller.tracing import KeyTracing

__all__ = [
    "INITIAL_PRIORITY",
    "EventHandlers",
    "keys_of_owners",
    "mapped_keys",
    "must_enqueue",
    "priority_of",
    "reason_of",
]

INITIAL_PRIORITY = -100
"""The priority of requests from the first list and from a resync: changes go first (controller-runtime's number)."""
_KEYS_AT_ONCE = 500


def reason_of(change: Change, source: str = "", watch: Watched | None = None) -> str:
    """Return why an event enqueues a key: the kind of change, and for another object its kind and name."""
    if change.initial:
        verb = Why.INITIAL
    elif change.old is None:
        verb = Why.CREATED
    else:
        verb = Why.DELETED if change.new is None else Why.CHANGED
    if watch is None:
        return verb
    path = f"{change.namespace}/{change.name}" if change.namespace else change.name
    return f"{source} {watch.kind.kind} {path} {verb}"


def priority_of(change: Change) -> int:
    """Return the priority of the keys that an event enqueues."""
    return INITIAL_PRIORITY if change.initial else 0


def must_enqueue(spec: Controller[Any], change: Change, own_versions: Collection[str]) -> bool:
    """Return whether an event of the controller's own kind enqueues the object: not if it is our own status update.

    `own_versions` are the versions of such writes, if nothing but the status differed from the reconciled object. The predicate compares
    whole objects: it is not called if the body of only one is cached, or of none, unless the controller declared metadata only.
    """
    if change.old is not None and change.new is not None:
        if change.new.metadata.resource_version in own_versions:
            return False
        if (
            spec.predicate is not None
            and (spec.metadata_only or not (change.old.metadata_only or change.new.metadata_only))
            and not life_changed(change, spec.finalizer_name)
            and not (spec.pausable_by is not None and spec.pausable_by.changed(change))
            and not spec.predicate(change)
        ):
            return False
    return True


def keys_of_owners(
    spec: Controller[Any],
    watch: Watched,
    change: Change,
    own_versions: Collection[str] = (),
    *,
    namespaced: bool | None = None,
) -> Iterator[Key]:
    """Yield the controlling owners of a child, before and after the change, and the owner that `known_by` names.

    `known_by` is called for a child of any controller: if a foreign controller has taken the child, the owner still needs its deletion
    event. `namespaced` is the owners' scope by discovery; None: the scope that their kind declares.
    """
    if change.new is not None and change.new.metadata.resource_version in own_versions:
        return
    if watch.predicate is not None and not watch.predicate(change):
        return
    scoped = spec.kind.namespaced if namespaced is None else namespaced
    namespace = "" if scoped is False else change.namespace
    seen: set[str] = set()
    for cached in _sides(change):
        for name in _owners_of(cached.metadata, spec.kind, watch.known_by):
            if name and name not in seen:
                seen.add(name)
                yield Key("", spec.kind, namespace, name)


def _owners_of(child: Metadata, kind: Kind[Any], known_by: Callable[[Metadata], str] | None) -> Iterator[str]:
    owner = child.controller
    if owner is not None and owner.kind == kind.kind and owner.group == kind.group:
        yield owner.name
    if known_by is not None:
        yield known_by(child)


def mapped_keys(
    watch: Watched, change: Change, caches: Caches, *, undecodable: Callable[[InvalidObject], None] | None = None
) -> Iterator[Key]:
    """Yield the keys that the controller maps an object to, before and after the change.

    A side that does not decode is passed to `undecodable` and left out: it must not hide the other side.
    """
    if watch.predicate is not None and not watch.predicate(change):
        return
    assert watch.mapper is not None
    seen: set[Key] = set()
    for cached in _sides(change):
        try:
            view = cached.metadata if watch.metadata_only else cached.decode(watch.kind, watch.dropped)
        except InvalidObject as error:
            if undecodable is not None:
                undecodable(error)
            continue
        for key in watch.mapper(view, caches):
            if key not in seen:
                seen.add(key)
                yield key


def _sides(change: Change) -> tuple[Cached, ...]:
    return tuple(side for side in (change.old, change.new) if side is not None)


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
        priorities: Priorities | None = None,
        tracing: KeyTracing | None = None,
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
        self._priorities = priorities
        self._tracing = tracing
        self.held_back: dict[Key, list[Change]] = {}
        """The events of each key that is being reconciled."""
        self.standing_by = False
        """Whether this process does not lead. No worker takes keys then, so keys of deleted objects are dropped here, with all their
        state."""

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
        if must_enqueue(self._spec, change, own):
            self.enqueue(key, reason_of(change), priority_of(change))
            if self._tracing is not None:
                self._tracing.woken(key, change)
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
        keys = keys_of_owners(self._spec, watch, change, own, namespaced=self._watches.namespaced)
        self._enqueue_related(keys, change, Why.OWNED, watch)

    def on_watched(self, watch: Watched, change: Change) -> None:
        """Handle an event of a kind that is mapped to keys."""
        keys = mapped_keys(watch, change, self._caches, undecodable=self._undecodable)
        self._enqueue_related(keys, change, Why.WATCHED, watch)

    def _undecodable(self, error: InvalidObject) -> None:
        self._log.warning("a watched object does not decode; no request is made for it", **{LogKey.ERROR: str(error)})

    def release(self, key: Key) -> None:
        """Handle the events of a key that were held back during its reconcile."""
        for change in self.held_back.pop(key):
            self.on_primary(change)

    def _enqueue_related(self, keys: Iterable[Key], change: Change, source: str, watch: Watched) -> None:
        """Enqueue the keys for the event of another object.

        Behind a gate only keys of cached objects are enqueued: a gate may narrow the watch of the objects, but never the watch of
        their children. The event of an object that enters the cache later enqueues its key.
        """
        gate, store = self._gate, self._watches.primary.store
        chosen = (key for key in keys if gate is None or store.get(key.namespace, key.name) is not None)
        self._enqueue(chosen, change, source, watch)

    def _enqueue(self, keys: Iterable[Key], change: Change, source: str, watch: Watched) -> None:
        reason = ""
        for key in keys:
            if key.kind != self._spec.kind:
                raise UsageError(
                    f"a map function of controller {self._spec.name!r} gave {key}; it must give keys of "
                    f"{self._spec.kind.group_kind}, as caches({self._spec.kind.kind}).keys(...) does"
                )
            reason = reason or reason_of(change, source, watch)
            self.enqueue(key, reason, priority_of(change))
            if self._tracing is not None:
                self._tracing.woken(key, change)

    def enqueue(self, key: Key, reason: str, priority: int = 0) -> None:
        """Enqueue a key with the controller's own kind: an equal kind may decode to another model than the reconciler's."""
        own = self._spec.kind
        if key.kind is not own:
            key = Key(key.cluster, own, key.namespace, key.name)
        if self.standing_by and self._watches.primary.store.get(key.namespace, key.name) is None:
            self._queue.remove(key)
            self._forget(key)
            return
        if self._gate is None or self._concerns(self._gate, key.namespace, key.name):
            if self._priorities is not None:
                priority = self._priorities.of(key, reason, priority)
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
                self._enqueue_unchanged(Key("", kind, namespace, name), reason)
            if number % _KEYS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def resync_now(self) -> None:
        """Enqueue every object in one iteration of the event loop, for tests."""
        for namespace, name in self._watches.primary.store.keys():  # noqa: SIM118  # a method of the store, no dict
            self._enqueue_unchanged(Key("", self._spec.kind, namespace, name), Why.RESYNC)

    def _enqueue_unchanged(self, key: Key, reason: str) -> None:
        priority = INITIAL_PRIORITY
        if self._priorities is not None:
            priority = self._priorities.of(key, reason, priority)
        self._queue.add(key, reason=reason, priority=priority)
