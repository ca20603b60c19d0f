"""What the effects of the state machine do: to the store, to the handlers, to what is reported.

Promises: a full state replaces the store's content in one step; handlers hear of the difference afterwards, deletions first, while
the event loop gets its turns. A handler that is added meanwhile is told of the new content as initial objects, and of nothing of
the difference: no gap, nothing twice. Only the reflector's task calls `perform`, so no event overtakes a difference.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from konverge.client import ResourceInfo
from konverge.informers.delivery import Registration
from konverge.informers.index import IndexFunction
from konverge.informers.memory import PlainMemory
from konverge.informers.messages import (
    Advance,
    Apply,
    Commit,
    Discard,
    Effect,
    Empty,
    FellBack,
    Forget,
    Healthy,
    Restarted,
    Stage,
    Troubled,
)
from konverge.informers.meters import Meters
from konverge.informers.pace import Pace
from konverge.informers.report import Reporter
from konverge.informers.store import Difference, Staging, Store, Writer, difference

__all__ = ["StoreMirror"]

_DIFFERENCES = 256
"""Differences told between two looks at the clock."""


class StoreMirror:
    """Carries effects out for one informer."""

    def __init__(self, store: Store, *, reporter: Reporter, memory: PlainMemory, pace: Pace, meters: Meters) -> None:
        self.store = store
        self.info: ResourceInfo | None = None
        self.registrations: list[Registration] = []
        self.synced = asyncio.Event()
        self.lists = self.watches = self.events = self.bookmarks = 0
        self.restarts: Counter[str] = Counter()
        self.fallbacks: Counter[str] = Counter()
        self.opened_at: float | None = None
        self.heard_at: float | None = None
        self._writer = Writer(store)
        self._staging: Staging | None = None
        self._reporter = reporter
        self._memory = memory
        self._pace = pace
        self._meters = meters

    # What the reflector tells

    def discovered(self, info: ResourceInfo) -> None:
        """Take note of how the kind is served."""
        self.info = info
        self._reporter.discovered(info)
        self._meters.discovered(info)

    def listed(self) -> None:
        """Count a page asked for."""
        self.lists += 1

    def watched(self) -> None:
        """Count a watch asked for."""
        self.watches += 1

    async def perform(self, effect: Effect) -> None:
        """Carry an effect out."""
        match effect:
            case Apply():
                self._apply(effect)
            case Stage():
                self._stage(effect)
            case Advance():
                self.bookmarks += 1
                self.heard_at = self._now()
                self._writer.advance(effect.version)
            case Commit():
                await self._commit(effect.version)
            case Discard():
                self._staging = None
            case Empty():
                await self._empty()
            case Forget():
                raise LookupError("Forget is the reflector's own")
            case _:
                self._report(effect)

    def _report(self, effect: FellBack | Restarted | Troubled | Healthy) -> None:
        match effect:
            case Healthy():
                self.opened_at = self.heard_at = self._now()
                self._reporter.healthy()
            case Restarted():
                self.opened_at = None
                self.restarts[effect.cause] += 1
                self._meters.restarted(effect.cause)
            case FellBack():
                self.fallbacks[effect.cause] += 1
                self._meters.fell_back(effect.cause)
                if effect.remember and self.info is not None:
                    self._memory.remember(self.info, self._now())
            case Troubled():
                self.opened_at = None
                self._reporter.troubled(effect.cause, effect.error)

    # Store and handlers

    def _apply(self, effect: Apply) -> None:
        self.heard_at = now = self._now()
        self.events += len(effect.deltas)
        changed = self._writer.apply(effect.deltas, effect.version)
        if changed:
            for registration in self.registrations:
                registration.add(changed, now)

    def _stage(self, effect: Stage) -> None:
        self.heard_at = self._now()
        if self._staging is None:
            self._staging = Staging(self.store)
        self._staging.take(effect.deltas)

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
            await self._tell(difference(before, staging.table))

    async def _empty(self) -> None:
        self.synced.clear()
        before = self._writer.clear()
        for registration in self.registrations:
            registration.unload()
        self._reporter.notify()
        await self._tell(difference(before, {}))

    async def _tell(self, differences: Iterable[Difference]) -> None:
        listening = tuple(self.registrations)
        rest = iter(differences)
        while batch := list(islice(rest, _DIFFERENCES)):
            now = self._now()
            for registration in listening:
                registration.add(batch, now)
            if self._pace.spent():
                await self._pace.rest()

    def register(self, registration: Registration) -> None:
        """Begin to tell a handler; what exists comes first."""
        self.registrations.append(registration)
        if self.store.synced:
            registration.load(self.store.snapshot())

    def unregister(self, registration: Registration) -> None:
        """End to tell a handler."""
        if registration in self.registrations:
            self.registrations.remove(registration)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Add an index to the store."""
        self._writer.add_index(name, function)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
