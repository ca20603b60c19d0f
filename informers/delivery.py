"""Delivery of changes to handlers: one queue per handler, at most one entry per key.

Promises, per handler
- Strictly one change at a time, in order per key; between keys and between handlers no order. States may be skipped: what waits for
  a key is merged into one change with the first old and the last new object, so a slow handler costs memory for keys, not for events.
- An object that was replaced by another of the same name (its uid changed) arrives as two changes: its deletion, then the addition.
- Every handler is told of each object exactly once before anything else about it: those that exist when it is added, or when the
  store is first synced, come as changes with `initial` set. `has_synced` holds once the store is synced and these were delivered.
- A handler that raises loses that change only; it is logged (at most once in `_LOG_EVERY` seconds) and counted.
- Delivery gives the event loop its turn (`konverge.informers.pace`).

`HandlerQueue` decides and awaits nothing; `Registration` is the task around it.

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
from konverge.informers.pace import Pace
from konverge.informers.statistics import HandlerStatistics
from konverge.informers.store import Difference, Table
from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["Change", "Handler", "HandlerQueue", "Registration"]

_LOG = get_logger("konverge.informers")
_LOG_EVERY = 10.0


class Change(msgspec.Struct, frozen=True, gc=False):
    """What a handler is told about one key: added (`old` None), changed, or deleted (`new` None).

    `old` is what this handler was told last. `initial` marks objects that existed when the handler began to listen.
    """

    namespace: str
    name: str
    old: Cached | None
    new: Cached | None
    initial: bool = False


Handler: TypeAlias = Callable[[Change], None]
"""Takes a change; quick, and without waiting for anything."""


class _Pending:
    __slots__ = ("new", "old", "since")

    def __init__(self, old: Cached | None, new: Cached | None, since: float) -> None:
        self.old = old
        self.new = new
        self.since = since


class HandlerQueue:
    """What one handler has not been told yet. Pure.

    >>> from konverge.objects import Metadata
    >>> queue = HandlerQueue()
    >>> queue.add(Difference("web", "a", None, Cached(Metadata(), b"{}")), now=0.0)
    >>> [change.name for change in queue.take()]
    ['a']
    """

    def __init__(self) -> None:
        # A key is in one of the two at most: an object not yet told of as initial takes later states in place.
        self._initial: Table = {}
        self._initial_keys: Iterator[Path] = iter(())
        self._pending: OrderedDict[Path, _Pending] = OrderedDict()
        self._loaded = False
        self.merged = 0
        self.since: float | None = None

    def load(self, objects: Table) -> None:
        """Take in what exists: the store's snapshot. The queue owns the table from now on."""
        for path, pending in self._pending.items():
            inner = objects.get(path[0])
            new = inner.pop(path[1], None) if inner is not None else None
            if new is not None:
                # The handler has not been told yet of what happened before to this key.
                pending.new = new
        self._initial = objects
        self._initial_keys = _paths(objects)
        self._loaded = True

    def unload(self) -> None:
        """The store is no longer synced: what will exist when it is again comes as initial again."""
        self._loaded = False

    def add(self, difference: Difference, now: float) -> None:
        """Take in one change of the store."""
        namespace, name, old, new = difference
        if self._initial:
            inner = self._initial.get(namespace)
            if inner is not None and name in inner:
                self.merged += 1
                if new is None:
                    del inner[name]
                else:
                    inner[name] = new
                return
        path = (namespace, name)
        held = self._pending.get(path)
        if held is None:
            self._pending[path] = _Pending(old, new, now)
            return
        self.merged += 1
        held.new = new
        if new is None if held.old is None else new is not None and held.old.same(new):
            del self._pending[path]  # where the handler is told nothing, it knows what is

    def take(self) -> tuple[Change, ...]:
        """Return what to tell next: one change, two where an object was replaced, none where nothing waits.

        `since` is then when the first event behind it came, None for initial objects.
        """
        if self._pending:
            (namespace, name), held = self._pending.popitem(last=False)
            self.since = held.since
            old, new = held.old, held.new
            if old is not None and new is not None and old.uid != new.uid:
                return Change(namespace, name, old, None), Change(namespace, name, None, new)
            return (Change(namespace, name, old, new),)
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
        """Whether nothing waits."""
        return not self._pending and not self._initial

    def __len__(self) -> int:
        return len(self._pending) + sum(len(inner) for inner in self._initial.values())


def _paths(objects: Table) -> Iterator[Path]:
    """Give the paths of a table that loses entries meanwhile."""
    for namespace in list(objects):
        for name in list(objects[namespace]):
            yield namespace, name


class Registration:
    """One handler of an informer; made by `Informer.add_handler`.

    `has_synced` tells whether the handler was told of all objects that existed; `await synced()` waits for that; `remove()` ends
    the delivery at once.
    """

    def __init__(
        self,
        name: str,
        handler: Handler,
        *,
        what: str,
        pace: Pace,
        failed: Callable[[], None],
        delivered: Callable[[float], None],
        removed: Callable[[Registration], None],
    ) -> None:
        self.name = name
        self._handler = handler
        self._what = what
        self._pace = pace
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
        """Whether the store is synced and this handler was told of every object that existed."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until `has_synced`."""
        await self._synced.wait()

    def remove(self) -> None:
        """Tell the handler nothing more."""
        if not self._removed:
            self._removed = True
            self._queue = HandlerQueue()
            self._arrived.set()
            self._leave(self)

    @property
    def waiting(self) -> int:
        """Keys that this handler was not told about yet."""
        return len(self._queue)

    def load(self, objects: Table) -> None:
        """Take in what exists; the table becomes the registration's own."""
        if not self._removed:
            self._queue.load(objects)
            self._arrived.set()

    def unload(self) -> None:
        """The kind is gone: not synced until it is back and its objects were told."""
        self._queue.unload()
        self._synced.clear()
        if self.on_synced is not None:
            self.on_synced()

    def add(self, differences: Iterable[Difference], now: float) -> None:
        """Take in changes of the store."""
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
                    self._tell(change, now)
                if since is not None:
                    self._observe(now() - since)
                if self._pace.spent():
                    await self._pace.rest()
            if self._queue.caught_up and not self._synced.is_set():
                self._synced.set()
                if self.on_synced is not None:
                    self.on_synced()

    def _tell(self, change: Change, now: Callable[[], float]) -> None:
        if self._removed:
            return
        try:
            self._handler(change)
        except Exception:  # noqa: BLE001  # foreign code: it loses this change, the others go on
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
            LogKey.KIND: self._what,
            LogKey.NAMESPACE: change.namespace,
            LogKey.NAME: change.name,
            LogKey.HANDLER: self.name,
            LogKey.COUNT: self._unlogged + 1,
        }
        _LOG.error("a handler raised; it is not told of this change again", stack=stack_of(), **keys)
        self._logged_at, self._unlogged = now, 0

    def statistics(self) -> HandlerStatistics:
        """Return what happened so far."""
        return HandlerStatistics(
            name=self.name,
            synced=self.has_synced,
            waiting=self.waiting,
            delivered=self._count,
            merged=self._queue.merged,
            errors=self._errors,
        )
