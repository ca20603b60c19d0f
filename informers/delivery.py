"""Delivery of changes to handlers: one queue per handler, at most one entry per key.

Guarantees, per handler
- One change at a time, in order per key; keys and handlers have no common order. States may be skipped: the waiting changes of a key are
  merged into one with the first old and the last new object, so a slow handler costs memory per key, not per event.
- An object that was replaced by another of the same name (its uid changed) arrives as two changes: its deletion, then the addition.
- An object that was added and deleted before its addition was delivered arrives as both: a reconcile may have read it in the cache, or
  created it, and no other change reports the deletion. Of several such objects of one name, only the last object arrives.
- Each object that exists when the handler is added, or when the store is first synced, arrives exactly once with `initial` set, before
  any other change of its key, unless it was deleted before. `has_synced` holds once the store is synced and these were delivered.
- A handler that raises loses only that change; the error is counted, and logged at most once in `_LOG_EVERY` seconds.
- Delivery yields to the event loop (`konverge.informers.yield_budget`).

`HandlerQueue` decides and does not await; `Registration` is the task around it.

client-go buffers every event of a slow handler, without a bound (processorListener):
https://github.com/kubernetes/client-go/blob/master/tools/cache/shared_informer.go
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from konverge.errors import stack_of
from konverge.informers.cached import Cached
from konverge.informers.index import Path
from konverge.informers.statistics import HandlerStatistics
from konverge.informers.store import Difference, Table
from konverge.informers.yield_budget import YieldBudget
from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["Change", "Handler", "HandlerQueue", "Registration"]

_LOG = get_logger("konverge.informers")
_LOG_EVERY = 10.0


class Change(msgspec.Struct, frozen=True, gc=False):
    """A change of one key: added (`old` None), updated, or deleted (`new` None).

    `old` is the object that this handler received last. `initial` marks objects that existed when the handler was added.
    """

    namespace: str
    name: str
    old: Cached | None
    new: Cached | None
    initial: bool = False


Handler: TypeAlias = Callable[[Change], None]
"""Receives a change; must return quickly and must not block."""


class _Pending:
    __slots__ = ("new", "old", "passed", "since")

    def __init__(self, old: Cached | None, new: Cached | None, since: float) -> None:
        self.old = old
        self.new = new
        self.passed: Cached | None = None
        """The last object that was added and deleted before its delivery."""
        self.since = since

    def merge(self, new: Cached | None) -> None:
        """Replace the undelivered object by a later object, or by its deletion."""
        was = self.new
        if was is not None and not _same_object(was, new) and not _same_object(was, self.old):
            self.passed = was
        self.new = new

    def steps(self) -> Iterator[tuple[Cached | None, Cached | None]]:
        """Yield the old and the new object of each change."""
        old, new = self.old, self.new
        if self.passed is not None:
            if old is not None:
                yield old, None
            yield None, self.passed
            yield self.passed, None
            old = None
        if old is not None and new is not None and not _same_object(old, new):
            yield old, None
            yield None, new
        elif old is not None or new is not None:
            yield old, new


def _same_object(one: Cached, other: Cached | None) -> bool:
    return other is not None and one.uid == other.uid


class HandlerQueue:
    """The undelivered changes of one handler. Pure.

    >>> from konverge.objects import Metadata
    >>> queue = HandlerQueue()
    >>> queue.add(Difference("web", "a", None, Cached(Metadata(), b"{}")), now=0.0)
    >>> [change.name for change in queue.take()]
    ['a']
    """

    def __init__(self) -> None:
        # A key is in `_initial` or in `_pending`, never in both: a change of an undelivered initial object replaces it in place.
        # The undelivered initial objects; owned by the queue.
        self._initial: Table = {}
        # The keys that `_initial` had when it was loaded, beginning with the next key.
        self._initial_keys: Iterator[Path] = iter(())
        # The changes that wait, by the arrival of the first event of their key. `old` is the object that the handler received last.
        self._pending: OrderedDict[Path, _Pending] = OrderedDict()
        # Whether the initial objects of the synced store were loaded.
        self._loaded = False
        self.merged = 0
        self.since: float | None = None

    def load(self, objects: Table) -> None:
        """Load the initial objects from a snapshot of the store, which the queue owns from now on."""
        for path, pending in self._pending.items():
            inner = objects.get(path[0])
            new = inner.pop(path[1], None) if inner is not None else None
            if new is not None:
                # The handler received an earlier state of this object: it gets a change, not an initial object.
                pending.merge(new)
        self._initial = objects
        self._initial_keys = _paths(objects)
        self._loaded = True

    def unload(self) -> None:
        """Record that the store is no longer synced: the next full state is loaded as initial objects."""
        self._loaded = False

    def add(self, difference: Difference, now: float) -> None:
        """Add or merge one change of the store."""
        namespace, name, old, new = difference
        path = (namespace, name)
        if self._initial:
            inner = self._initial.get(namespace)
            if inner is not None and name in inner:
                self.merged += 1
                if new is not None and _same_object(new, inner[name]):
                    inner[name] = new
                else:
                    self._pending[path] = _Pending(None, inner.pop(name), now)
                    self._pending[path].merge(new)
                return
        held = self._pending.get(path)
        if held is None:
            self._pending[path] = _Pending(old, new, now)
            return
        self.merged += 1
        held.merge(new)

    def take(self) -> tuple[Change, ...]:
        """Remove and return the changes of the next key: several if an object was replaced, or added and deleted; () if the queue is empty.

        Sets `since` to the arrival of the first merged event, None for initial objects.
        """
        if self._pending:
            (namespace, name), held = self._pending.popitem(last=False)
            self.since = held.since
            old, new = held.old, held.new
            if held.passed is None and (old is None or new is None or old.uid == new.uid):  # nearly always
                return (Change(namespace, name, old, new),)
            return tuple(Change(namespace, name, old, new) for old, new in held.steps())
        self.since = None
        for namespace, name in self._initial_keys:
            inner = self._initial[namespace]
            cached = inner.pop(name, None)
            if cached is not None:
                return (Change(namespace, name, None, cached, True),)
        self._initial = {}
        return ()

    @property
    def caught_up(self) -> bool:
        """Whether the initial objects were loaded and taken."""
        return self._loaded and not self._initial

    @property
    def empty(self) -> bool:
        """Whether the queue is empty."""
        return not self._pending and not self._initial

    def __len__(self) -> int:
        return len(self._pending) + sum(len(inner) for inner in self._initial.values())


def _paths(objects: Table) -> Iterator[Path]:
    """Yield the paths of a table; entries may be removed during the iteration."""
    for namespace in list(objects):
        for name in list(objects[namespace]):
            yield namespace, name


class Registration:
    """One handler of an informer, from `Informer.add_handler`.

    `has_synced` is true after the handler received all initial objects; `await synced()` waits for that; `remove()` ends the delivery
    at once.
    """

    def __init__(
        self,
        name: str,
        handler: Handler,
        *,
        selection: str,
        budget: YieldBudget,
        failed: Callable[[], None],
        delivered: Callable[[float], None],
        removed: Callable[[Registration], None],
    ) -> None:
        self.name = name
        self._handler = handler
        self._selection = selection
        self._budget = budget
        self._failed = failed
        self._observe = delivered
        self._leave = removed
        self._queue = HandlerQueue()
        self._arrived = asyncio.Event()
        self._synced = asyncio.Event()
        self._removed = False
        self._count = 0
        self._errors = 0
        self._unlogged = 0
        self._logged_at: float | None = None
        self.on_synced: Callable[[], None] | None = None
        """Called when `has_synced` changes."""

    @property
    def has_synced(self) -> bool:
        """Whether the store is synced and this handler received all initial objects."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until `has_synced`."""
        await self._synced.wait()

    def remove(self) -> None:
        """End the delivery and drop the waiting changes."""
        if not self._removed:
            self._removed = True
            self._queue = HandlerQueue()
            self._arrived.set()
            self._leave(self)

    @property
    def waiting(self) -> int:
        """The number of keys with an undelivered change."""
        return len(self._queue)

    def load(self, objects: Table) -> None:
        """Deliver these objects as initial objects; the registration owns the table from now on."""
        if not self._removed:
            self._queue.load(objects)
            self._arrived.set()

    def unload(self) -> None:
        """Reset `has_synced`, because the kind is not served."""
        self._queue.unload()
        self._synced.clear()
        if self.on_synced is not None:
            self.on_synced()

    def add(self, differences: Iterable[Difference], now: float) -> None:
        """Queue changes of the store."""
        if self._removed:
            return
        add = self._queue.add
        for difference in differences:
            add(difference, now)
        self._arrived.set()

    async def run(self) -> None:
        """Deliver until the handler is removed."""
        now = asyncio.get_running_loop().time
        while not self._removed:
            await self._arrived.wait()
            self._arrived.clear()
            while changes := self._queue.take():
                since = self._queue.since
                for change in changes:
                    self._call_handler(change, now)
                if since is not None:
                    self._observe(now() - since)
                if self._budget.spent():
                    await self._budget.yield_turn()
            if self._queue.caught_up and not self._synced.is_set():
                self._synced.set()
                if self.on_synced is not None:
                    self.on_synced()

    def _call_handler(self, change: Change, now: Callable[[], float]) -> None:
        if self._removed:
            return
        try:
            self._handler(change)
        except Exception:  # noqa: BLE001  # the user's code: it loses this change, the others go on
            self._errors += 1
            self._failed()
            self._log(change, now())
        else:
            self._count += 1

    def _log(self, change: Change, now: float) -> None:
        if self._logged_at is not None and now - self._logged_at < _LOG_EVERY:
            self._unlogged += 1
            return
        keys = {
            LogKey.KIND: self._selection,
            LogKey.NAMESPACE: change.namespace,
            LogKey.NAME: change.name,
            LogKey.HANDLER: self.name,
            LogKey.COUNT: self._unlogged + 1,
        }
        _LOG.error("a handler raised; it does not receive this change again", stack=stack_of(), **keys)
        self._logged_at, self._unlogged = now, 0

    def statistics(self) -> HandlerStatistics:
        """Return the handler's statistics."""
        return HandlerStatistics(
            name=self.name,
            synced=self.has_synced,
            waiting=self.waiting,
            delivered=self._count,
            merged=self._queue.merged,
            errors=self._errors,
        )
