"""The caches of one controller: acquired, awaited, checked for obstacles, released.

Guarantees: a controller waits for every needed kind. It waits for an optional kind until discovery shows whether the cluster serves
the kind, or until the right to list it turns out to be missing (if it runs without that right). A missing kind stops only the
controllers that need it. After `close` no handler and no informer is left.

Kinds that appear and disappear, in controller-runtime: https://github.com/kubernetes-sigs/controller-runtime/issues/2983
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace
from prometheus_client import Counter

from konverge.client import Client
from konverge.informers import Change, Informer, InformerSet, Registration, RestartCause, Selection
from konverge.kinds import Kind
from konverge.metrics import Metrics
from konverge.runtime.builder.builder import Controller
from konverge.runtime.builder.pause import namespace_watch
from konverge.runtime.builder.watched import Watched
from konverge.runtime.cache.narrowed import Narrowed
from konverge.runtime.consistency.catch_up import catch_up
from konverge.runtime.observability.readiness import Obstacle, why_not
from konverge.selectors import LabelSelector
from konverge.tasks import Broadcast

__all__ = ["ControllerWatches"]

_DEBOUNCE = 0.2
"""Seconds that an optional kind must have stayed before every object is enqueued for it."""


class _Feed(msgspec.Struct):
    kind: Kind[Any]
    watch: Watched | None
    informer: Informer
    registration: Registration
    state: str = ""
    """The state of an optional kind at the last enqueuing of every object."""

    @property
    def optional(self) -> bool:
        return self.watch is not None and self.watch.optional

    @property
    def known_absent(self) -> bool:
        problem = self.informer.problem
        return problem is not None and problem.cause == RestartCause.NOT_SERVED

    @property
    def denied(self) -> bool:
        """Whether the right to list or watch is missing, and the controller runs without it."""
        problem = self.informer.problem
        unlisted = self.watch is not None and self.watch.unlisted
        return unlisted and problem is not None and problem.cause == RestartCause.FORBIDDEN

    @property
    def dispensable(self) -> bool:
        """Whether the controller runs without this cache as it is now."""
        return self.denied or (self.optional and self.known_absent)


class ControllerWatches:
    """The caches of one controller. Constructing it acquires nothing."""

    primary: Informer
    """The cache of the primary kind, limited to the controller's selection; set by `open`."""

    def __init__(
        self,
        spec: Controller[Any],
        informers: InformerSet,
        namespace: str | None,
        changed: Callable[[], None],
    ) -> None:
        self._spec = spec
        self._changed = changed
        self._changes = Broadcast()
        self._set = informers
        self._namespace = namespace
        self._feeds: list[_Feed] = []
        self.informers: dict[Kind[Any], Informer | Narrowed] = {}
        """The caches that the reconciler reads, by kind."""
        self._paused_namespaces: Informer | None = None

    def open(
        self,
        primary: Callable[[Change], None],
        owned: Callable[[Watched, Change], None],
        watched: Callable[[Watched, Change], None],
        *,
        select: Callable[[Selection], Selection] | None = None,
    ) -> None:
        """Acquire every cache, and register these event handlers; `select` narrows the cache of the primary kind."""
        spec, where = self._spec, self._namespace
        chosen = Selection(
            spec.kind,
            where,
            labels=spec.labels,
            fields=spec.fields,
            metadata_only=spec.metadata_only,
            dropped=spec.dropped,
        )
        self.primary = self._feed(spec.kind, None, chosen if select is None else select(chosen), primary)
        for source in spec.owned:
            self._feed(source.kind, source, source.selection(where), partial(owned, source))
        for source in spec.watched:
            self._watch(source, partial(watched, source))
        if (paused := namespace_watch(spec.kind, spec.pausable_by)) is not None:
            selection = Selection(paused.kind, labels=paused.labels, metadata_only=True)
            self._paused_namespaces = self._feed(paused.kind, paused, selection, partial(watched, paused), read=False)
        for index in spec.indexed:
            self.informers[index.kind].add_index(index.name, index)

    def _watch(self, watch: Watched, handler: Callable[[Change], None]) -> None:
        for owned in self._spec.owned:
            if owned.kind == watch.kind:
                # The cache of the children has every object, so this declaration needs no cache of its own.
                selected_handler = partial(_handle_selected, watch, handler)
                self._feed(watch.kind, watch, owned.selection(self._namespace), selected_handler)
                return
        chosen = watch.selection(self._namespace)
        if not watch.namespaces and [other.kind for other in self._spec.watched].count(watch.kind) == 1:
            self._feed(watch.kind, watch, chosen, handler)
            return
        narrowed = self.informers.setdefault(watch.kind, Narrowed(chosen))
        for namespace in watch.namespaces or (self._namespace,):
            if namespace is None or self._namespace in (None, namespace):
                informer = self._feed(watch.kind, watch, replace(chosen, namespace=namespace), handler)
                if isinstance(narrowed, Narrowed):  # reads of the controller's own kind use its own cache
                    narrowed.add(namespace, informer)

    def _feed(
        self,
        kind: Kind[Any],
        watch: Watched | None,
        selection: Selection,
        handler: Callable[[Change], None],
        *,
        read: bool = True,
    ) -> Informer:
        """Acquire a cache; the reconciler reads it, unless it is only for the runtime."""
        informer = self._set.acquire(selection, optional=watch is not None and watch.optional)
        registration = informer.add_handler(self._spec.name, handler)
        registration.on_synced = self._notify
        informer.listeners.append(self._notify)
        self._feeds.append(_Feed(kind, watch, informer, registration))
        # A controller may watch its own kind for the sake of other keys; the reconciler still reads whole objects.
        if read and (kind not in self.informers or (watch is not None and watch.mapper is None)):
            self.informers[kind] = informer
        return informer

    def close(self) -> None:
        """Release every cache; no handler is called any more."""
        for feed in self._feeds:
            feed.registration.on_synced = None
            feed.informer.listeners.remove(self._notify)
            feed.registration.remove()
            self._set.release(feed.informer, optional=feed.optional)
        self._feeds.clear()

    def _notify(self) -> None:
        self._changes.notify()
        self._changed()

    async def synced(self) -> None:
        """Wait until every cache is complete, except the caches that the controller can run without."""
        for feed in self._feeds:
            while not feed.registration.has_synced and not feed.dispensable:
                await self._changes.wait()
            feed.state = self._state(feed)

    @property
    def absent(self) -> tuple[str, ...]:
        """The optional kinds that the cluster does not serve."""
        return tuple(sorted({feed.kind.group_kind for feed in self._feeds if feed.optional and feed.known_absent}))

    def count_catch_ups(self, metrics: Metrics) -> None:
        """Create the series of `caught_up` at 0: a rate shows no first event of a series that begins with it."""
        for feed in self._feeds:
            _catch_ups(metrics, feed.informer, shown=True)
            _catch_ups(metrics, feed.informer, shown=False)

    async def caught_up(self, client: Client, metrics: Metrics) -> None:
        """Wait until every cache shows all writes from before this call, so also the former leader's writes."""

        async def wait(informer: Informer) -> None:
            _catch_ups(metrics, informer, shown=await catch_up(client, informer)).inc()

        async with asyncio.TaskGroup() as tasks:
            for informer in {id(feed.informer): feed.informer for feed in self._feeds}.values():
                tasks.create_task(wait(informer), name=f"konverge catch up {informer.selection}")

    async def watch_optional(self, enqueue_all: Callable[[str], Awaitable[None]]) -> None:
        """Enqueue every object when an optional kind, or the right to watch it, appears or disappears: no other event need follow from
        that.
        """
        optional = [feed for feed in self._feeds if feed.optional]
        while optional:
            await asyncio.sleep(_DEBOUNCE)
            changed = [feed for feed in optional if self._state(feed) != feed.state]
            if not changed:
                await self._changes.wait()
            for feed in changed:
                feed.state = self._state(feed)
                await enqueue_all(f"{feed.kind.group_kind} {feed.state}")

    def _state(self, feed: _Feed) -> str:
        if feed.denied:
            return "may not be watched"
        return "is served" if self.serves(feed.kind) else "is no longer served"

    def serves(self, kind: Kind[Any]) -> bool:
        """Return whether a declared kind is served and its cache complete."""
        feeds = [feed for feed in self._feeds if feed.kind == kind]
        return bool(feeds) and all(feed.registration.has_synced and not feed.known_absent for feed in feeds)

    @property
    def namespaced(self) -> bool | None:
        """Whether the primary kind is namespaced in the API server; None until discovery has succeeded."""
        info = self.primary.info
        return None if info is None else info.namespaced

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace that has the label of a pause, {} for any other namespace."""
        cached = None if self._paused_namespaces is None else self._paused_namespaces.store.get("", namespace)
        return {} if cached is None else cached.metadata.labels or {}

    def problems(self) -> tuple[Obstacle, ...]:
        """Return the obstacles that keep these caches from being complete, with their remedies."""
        problems = (
            why_not(
                feed.kind,
                feed.informer,
                optional=feed.watch is not None and feed.watch.optional,
                synced=feed.registration.has_synced,
            )
            for feed in self._feeds
        )
        return tuple(problem for problem in problems if problem is not None)


def _handle_selected(watch: Watched, handler: Callable[[Change], None], change: Change) -> None:
    """Handle a change of a shared cache if the declaration selects the object."""
    selection = selected(watch, change)
    if selection is not None:
        handler(selection)


def _catch_ups(metrics: Metrics, informer: Informer, *, shown: bool) -> Counter:
    group, _, version = informer.selection.kind.api_version.rpartition("/")
    return metrics.caught_up.labels(group, version, informer.selection.kind.kind, "shown" if shown else "timeout")


def selected(watch: Watched, change: Change) -> Change | None:
    """Return the change as a cache of the declaration's own labels and namespaces would show it, None if it would show nothing."""
    if watch.namespaces and change.namespace not in watch.namespaces:
        return None
    if not watch.labels:
        return change
    selector = LabelSelector.given(watch.labels, f".watches({watch.kind.kind})")
    old, new = (
        side if side is not None and selector.matches(side.metadata.labels or {}) else None
        for side in (change.old, change.new)
    )
    return None if old is None and new is None else Change(change.namespace, change.name, old, new, change.initial)
