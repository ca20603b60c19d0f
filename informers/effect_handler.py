"""Applies the effects of the state machine to the store, the handlers and the reports.

Guarantees: a full state replaces the store's content in one step. The handlers receive the difference afterwards, deletions first, and the
delivery yields to the event loop. A handler that is added during the delivery receives the new content as initial objects and none of the
difference, so no change is lost or delivered twice. Only the reflector's task calls `apply`, so no event overtakes a difference. An event
with the version that the store already holds changes nothing and is not delivered. A full state is built aside and swapped in (`Staging`,
`StoreWriter.swap`). Unchanged objects keep their identity, so a relist does not copy them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from konverge.client import ResourceInfo
from konverge.errors import UsageError
from konverge.informers.delivery import Registration
from konverge.informers.messages import (
    Advance,
    Change,
    Clear,
    Commit,
    Discard,
    Effect,
    FellBack,
    ForgetDiscovery,
    Healthy,
    Items,
    Restarted,
    Stage,
    Unhealthy,
)
from konverge.informers.meters import Meters
from konverge.informers.reflector import WatchListDenylist
from konverge.informers.report import Reporter
from konverge.informers.store import EMPTY, Contents, Index, IndexFunction, Store, Table
from konverge.tasks import Slice

__all__ = ["EffectHandler", "Staging", "StoreWriter", "difference"]


class Staging:
    """A full state that is being received; it shares unchanged objects with the store."""

    def __init__(self, store: Store) -> None:
        self._known = store._contents.table
        self.contents = Contents({name: index.empty() for name, index in store._contents.indexes.items()})

    @property
    def table(self) -> Table:
        """The objects so far."""
        return self.contents.table

    def take(self, changes: Iterable[Change]) -> None:
        """Add the objects of a page or of a part of a streaming list."""
        contents = self.contents
        for change in changes:
            namespace, name, new = change.namespace, change.name, change.new
            if new is None:
                contents.drop(namespace, name)
                continue
            known = self._known.get(namespace, EMPTY).get(name)
            contents.put(namespace, name, known if known is not None and known.same(new) else new)


class StoreWriter:
    """The write side of a store, held only by the informer's effect handler."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def apply(self, changes: Iterable[Change], version: str) -> list[Change]:
        """Apply a batch of events, after which the store is at `version`; return the changes of the store in order."""
        store = self.store
        contents = store._contents
        effective = []
        for change in changes:
            namespace, name, new = change.namespace, change.name, change.new
            if new is None:
                old = contents.drop(namespace, name)
                if old is not None:
                    effective.append(Change(namespace, name, old, None))
                continue
            held = contents.table.get(namespace, EMPTY).get(name)
            if held is None:
                contents.put(namespace, name, new)
                effective.append(change)
            elif not held.same(new):
                contents.put(namespace, name, new)
                effective.append(Change(namespace, name, held, new))
        self.advance(version)
        return effective

    def advance(self, version: str) -> None:
        """Set the version, of a bookmark for example, and wake the tasks that wait for one."""
        store = self.store
        store._version = version
        if store._advanced is not None:
            store._advanced.set()
            store._advanced = None

    def swap(self, staging: Staging, version: str) -> Table:
        """Replace the content by a staged state at `version`; return the old content, for `difference`."""
        store = self.store
        before = store._contents.table
        # The staged state lacks an index that was added after its first page.
        for name, index in store._contents.indexes.items():
            if name not in staging.contents.indexes:
                staging.contents.indexes[name] = _filled(index.empty(), staging.contents.table)
        store._contents = staging.contents
        store._synced = True
        self.advance(version)
        return before

    def clear(self) -> Table:
        """Remove all objects, because the kind is not served; return the old content, for `difference`."""
        before = self.swap(Staging(self.store), "")
        self.store._synced = False
        return before

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Add an index, and fill it with the objects of the store.

        The same function may be added again under the same name. Raises UsageError for another function under a known name.
        """
        indexes = self.store._contents.indexes
        known = indexes.get(name)
        if known is None:
            indexes[name] = _filled(Index(name, function), self.store._contents.table)
        elif known.function != function:
            raise UsageError(
                f"there is another index {name!r} on this informer, which others share; choose another name"
            )


def _filled(index: Index, table: Table) -> Index:
    for namespace, inner in table.items():
        for name, cached in inner.items():
            index.put(namespace, name, cached)
    return index


def difference(before: Table, after: Table) -> Iterator[Change]:
    """Yield the changes from one table to another, deletions first. Neither may change during the iteration."""
    for namespace, inner in before.items():
        now = after.get(namespace, EMPTY)
        for name, old in inner.items():
            if name not in now:
                yield Change(namespace, name, old, None)
    for namespace, inner in after.items():
        past = before.get(namespace, EMPTY)
        for name, new in inner.items():
            old_or_none = past.get(name)
            if old_or_none is not new:
                yield Change(namespace, name, old_or_none, new)


_CHANGES = 256
"""Changes queued between two checks of the time."""


class EffectHandler:
    """Applies the effects of one informer."""

    def __init__(
        self, store: Store, *, reporter: Reporter, denylist: WatchListDenylist, share: Slice, meters: Meters
    ) -> None:
        self.store = store
        self.info: ResourceInfo | None = None
        self.registrations: list[Registration] = []
        # Set if and only if `store.synced`.
        self.synced = asyncio.Event()
        self.lists = self.watches = self.events = self.bookmarks = 0
        self.restarts: Counter[str] = Counter()
        self.fallbacks: Counter[str] = Counter()
        # Since when the present watch is healthy; None without one.
        self.opened_at: float | None = None
        # The time of the last event, bookmark or opened watch.
        self.last_event_at: float | None = None
        self._writer = StoreWriter(store)
        # The full state that is being received; None between lists.
        self._staging: Staging | None = None
        self._reporter = reporter
        self._denylist = denylist
        self._share = share
        self._meters = meters

    # Calls of the reflector

    def discovered(self, info: ResourceInfo) -> None:
        """Record the resource of the kind."""
        self.info = info
        self._reporter.discovered(info)
        self._meters.discovered(info)

    def listed(self) -> None:
        """Count a requested page."""
        self.lists += 1

    def watched(self) -> None:
        """Count a requested watch."""
        self.watches += 1

    async def apply(self, effect: Effect) -> None:
        """Apply an effect."""
        match effect:
            case Items():
                self._apply(effect)
            case Stage():
                self._stage(effect)
            case Advance():
                self.bookmarks += 1
                self.last_event_at = self._now()
                self._writer.advance(effect.version)
            case Commit():
                await self._commit(effect.version)
            case Discard():
                self._staging = None
            case Clear():
                await self._empty()
            case ForgetDiscovery():
                raise LookupError("ForgetDiscovery is applied by the reflector")
            case _:
                self._report(effect)

    def _report(self, effect: FellBack | Restarted | Unhealthy | Healthy) -> None:
        match effect:
            case Healthy():
                self.opened_at = self.last_event_at = self._now()
                self._reporter.healthy()
            case Restarted():
                self.opened_at = None
                self.restarts[effect.cause] += 1
                self._meters.restarted(effect.cause)
            case FellBack():
                self.fallbacks[effect.cause] += 1
                self._meters.fell_back(effect.cause)
                if effect.deny and self.info is not None:
                    self._denylist.add(self.info, self._now())
            case Unhealthy():
                self.opened_at = None
                self._reporter.unhealthy(effect.cause, effect.error)

    # Store and handlers

    def _apply(self, effect: Items) -> None:
        self.last_event_at = now = self._now()
        self.events += len(effect.changes)
        changed = self._writer.apply(effect.changes, effect.version)
        if changed:
            for registration in self.registrations:
                registration.add(changed, now)

    def _stage(self, effect: Stage) -> None:
        self.last_event_at = self._now()
        if self._staging is None:
            self._staging = Staging(self.store)
        self._staging.take(effect.changes)

    async def _commit(self, version: str) -> None:
        staging = self._staging if self._staging is not None else Staging(self.store)
        self._staging = None
        first = not self.store.synced
        before = self._writer.swap(staging, version)
        if first:
            for registration in self.registrations:
                registration.load(self.store.snapshot())
            self.synced.set()
            self._reporter.notify()
        else:
            await self._notify_handlers(difference(before, staging.table))

    async def _empty(self) -> None:
        if not self.store.synced:  # at each poll of a kind that is not served, which changes nothing
            return
        self.synced.clear()
        before = self._writer.clear()
        for registration in self.registrations:
            registration.unload()
        self._reporter.notify()
        await self._notify_handlers(difference(before, {}))

    async def _notify_handlers(self, changes: Iterable[Change]) -> None:
        listening = tuple(self.registrations)
        rest = iter(changes)
        while batch := list(islice(rest, _CHANGES)):
            now = self._now()
            for registration in listening:
                registration.add(batch, now)
            if not self._share.may_continue(self._now()):
                await self._share.wait()

    def register(self, registration: Registration) -> None:
        """Add a handler; it receives the existing objects first."""
        self.registrations.append(registration)
        if self.store.synced:
            registration.load(self.store.snapshot())

    def unregister(self, registration: Registration) -> None:
        """Remove a handler."""
        if registration in self.registrations:
            self.registrations.remove(registration)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Add an index to the store."""
        self._writer.add_index(name, function)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
