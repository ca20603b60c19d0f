"""Delivery of changes to handlers: one queue per handler, at most one entry per key.

Guarantees, per handler
- One change at a time, in order per key; keys and handlers have no common order. States may be skipped: the waiting changes of a key are
  merged into one change from the first old to the last new object, so a slow handler costs memory per key, not per event.
- An object that was replaced by another of the same name (its uid changed) arrives as two changes: its deletion, then the addition.
- An object that was added and deleted before its addition was delivered arrives as both: a reconcile may have read it in the cache, or
  created it, and no other change reports the deletion. Of several such objects of one name, only the last object arrives.
- Each object that exists when the handler is added, or when the store is first synced, arrives exactly once with `initial` set, before
  any other change of its key, unless it was deleted before. `has_synced` holds once the store is synced and these were delivered.
- A handler that raises loses only that change; the error is counted, and logged at most once in `_LOG_EVERY` seconds.
- All handlers and reflectors of a set share one `Slice` of each iteration of the loop, so fifty informers that sync at once
  stall the loop hardly longer than a single informer.

`HandlerQueue` decides and does not await; `Registration` is the task around it.

client-go buffers every event of a slow handler, without a bound (processorListener):
https://github.com/kubernetes/client-go/blob/master/tools/cache/shared_informer.go
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from konverge.errors import stack_of
from konverge.informers.messages import Change
from konverge.informers.meters import Meters
from konverge.informers.statistics import HandlerStatistics
from konverge.informers.store import Cached, Path, Table
from konverge.logs import get_logger
from konverge.tasks import Signal, Slice
from konverge.words import LogKey

__all__ = ["Handler", "HandlerQueue", "Registration"]

_LOG = get_logger("konverge.informers")
_LOG_EVERY = 10.0


Handler: TypeAlias = Callable[[Change], None]
"""Receives a change; must return quickly and must not block."""


def _is_same(left: Cached | None, right: Cached | None) -> bool:
    return left is not None and right is not None and left.uid == right.uid


def _steps(change: Change, passed: Cached | None) -> Iterator[Change]:
    """Yield the changes that a merged change represents; `passed` is an object that was added and deleted before its delivery."""
    namespace, name, old, new = change.namespace, change.name, change.old, change.new
    if old is not None and (passed is not None or (new is not None and not _is_same(old, new))):
        yield Change(namespace, name, old, None)
        old = None
    if passed is not None:
        yield Change(namespace, name, None, passed)
        yield Change(namespace, name, passed, None)
    if old is not None or new is not None:
        yield Change(namespace, name, old, new)


class HandlerQueue:
    """The undelivered changes of one handler. Pure.

    >>> from konverge.objects import Metadata
    >>> queue = HandlerQueue()
    >>> queue.add(Change("web", "a", None, Cached(Metadata(), b"{}")), now=0.0)
    >>> [change.name for change in queue.take()]
    ['a']
    """

    def __init__(self) -> None:
        # A key is in `_initial` or in `_pending`, never in both: a change of an undelivered initial object replaces it in place.
        # The undelivered initial objects; owned by the queue.
        self._initial: Table = {}
        # The keys that `_initial` had when it was loaded, beginning with the next key.
        self._initial_keys: Iterator[Path] = iter(())
        # The merged change of each key, whose `old` is the object that the handler received last, and the arrival of its first event.
        self._pending: OrderedDict[Path, tuple[Change, float]] = OrderedDict()
        # By key: the last object that was added and deleted before its delivery.
        self._passed: dict[Path, Cached] = {}
        # Whether the initial objects of the synced store were loaded.
        self._loaded = False
        self.merged = 0
        self.since: float | None = None

    def load(self, objects: Table) -> None:
        """Load the initial objects from a snapshot of the store, which the queue owns from now on."""
        for path in tuple(self._pending):
            inner = objects.get(path[0])
            new = inner.pop(path[1], None) if inner is not None else None
            if new is not None:
                # The handler received an earlier state of this object: it gets a change, not an initial object.
                self._merge(path, new)
        self._initial = objects
        self._initial_keys = _paths(objects)
        self._loaded = True

    def unload(self) -> None:
        """Record that the store is no longer synced: the next full state is loaded as initial objects."""
        self._loaded = False

    def add(self, change: Change, now: float) -> None:
        """Add or merge one change of the store."""
        path = (change.namespace, change.name)
        if self._initial:
            inner = self._initial.get(change.namespace)
            if inner is not None and change.name in inner:
                self.merged += 1
                if _is_same(change.new, inner[change.name]):
                    assert change.new is not None
                    inner[change.name] = change.new
                else:
                    self._pending[path] = (Change(*path, None, inner.pop(change.name)), now)
                    self._merge(path, change.new)
                return
        if path in self._pending:
            self.merged += 1
            self._merge(path, change.new)
        else:
            self._pending[path] = (change, now)

    def _merge(self, path: Path, new: Cached | None) -> None:
        """Replace the undelivered object of a key by a later object, or by its deletion."""
        change, since = self._pending[path]
        undelivered = change.new
        if undelivered is not None and not _is_same(undelivered, new) and not _is_same(undelivered, change.old):
            self._passed[path] = undelivered
        self._pending[path] = (Change(*path, change.old, new), since)

    def take(self) -> tuple[Change, ...]:
        """Remove and return the changes of the next key: several if an object was replaced, or added and deleted; () if the queue is empty.

        Sets `since` to the arrival of the first merged event, None for initial objects.
        """
        if self._pending:
            path, (change, self.since) = self._pending.popitem(last=False)
            old, new = change.old, change.new
            passed = self._passed.pop(path, None) if self._passed else None
            if passed is None and (old is None or new is None or old.metadata.uid == new.metadata.uid):  # nearly always
                return (change,)
            return tuple(_steps(change, passed))
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
        share: Slice,
        meters: Meters,
        removed: Callable[[Registration], None],
    ) -> None:
        self.name = name
        self._handler = handler
        self._selection = selection
        self._share = share
        self._meters = meters
        self._leave = removed
        self._queue = HandlerQueue()
        self._arrived = Signal()
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

    def add(self, changes: Iterable[Change], now: float) -> None:
        """Queue changes of the store."""
        if self._removed:
            return
        add = self._queue.add
        for change in changes:
            add(change, now)
        self._arrived.set()

    async def run(self) -> None:
        """Deliver until the handler is removed."""
        now, share = asyncio.get_running_loop().time, self._share
        while not self._removed:
            await self._arrived.wait()
            if not share.may_begin():
                await share.wait()
            while changes := self._queue.take():
                since = self._queue.since
                for change in changes:
                    self._call_handler(change, now)
                if since is not None and (latency := self._meters.latency) is not None:
                    latency.observe(now() - since)
                if self._queue.empty:
                    break
                if not share.may_continue(now()):
                    await share.wait()
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
            self._meters.handler_failed()
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
