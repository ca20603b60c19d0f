"""One shared informer: a selection, the store that follows it, and the handlers that are told.

Promises
- `store` shows what the API server has, a moment late. `synced` says that a full state was reached; per handler that all of it was
  delivered: `Registration.has_synced`, which is what a controller waits for.
- Handlers and indexes may be added at any time; a late handler is told of what exists first, with no gap and nothing twice.
- Whatever is wrong degrades this informer alone, shows in `problem`, and mends itself when its cause goes away.

Does not promise: order between objects, nor between handlers; that handlers see every state an object had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from konverge.client import ResourceInfo
from konverge.errors import UsageError
from konverge.informers.decode import Decoder
from konverge.informers.delivery import Handler, Registration
from konverge.informers.index import IndexFunction
from konverge.informers.memory import PlainMemory
from konverge.informers.meters import Meters, version_number
from konverge.informers.mirror import StoreMirror
from konverge.informers.pace import Pace
from konverge.informers.problem import Problem
from konverge.informers.reflector import Api, Reflector
from konverge.informers.report import Reporter
from konverge.informers.settings import InformerSettings, Selection
from konverge.informers.statistics import InformerStatistics
from konverge.informers.store import Store
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.words import LogKey

__all__ = ["Informer", "Spawn"]

_LOG = get_logger("konverge.informers")
_LOG_EVERY = 10.0

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""Starts a task of an informer, under a name."""


class Informer:
    """Keeps a store equal to a selection of objects, and tells handlers of changes. Made by `InformerSet.acquire`.

    >>> def on_change(change): queue.add((change.namespace, change.name))
    >>> registration = informer.add_handler("backup", on_change)      # doctest: +SKIP
    >>> await registration.synced()                                   # doctest: +SKIP
    """

    def __init__(
        self,
        selection: Selection,
        *,
        api: Api,
        name: str,
        settings: InformerSettings,
        metrics: Metrics,
        managers: frozenset[str],
        memory: PlainMemory,
        pace: Pace,
        random: Random,
    ) -> None:
        self.selection = selection
        self.store = Store()
        self.users = 0
        self._pace = pace
        self._reporter = Reporter(selection)
        self._meters = Meters(metrics, name, selection.kind, self)
        self._mirror = StoreMirror(self.store, reporter=self._reporter, memory=memory, pace=pace, meters=self._meters)
        self._decoder = Decoder(selection, managers, self._odd)
        self._odd_at: dict[str, float] = {}
        self._reflector = Reflector(
            api=api,
            selection=selection,
            settings=settings,
            decoder=self._decoder,
            mirror=self._mirror,
            memory=memory,
            pace=pace,
            random=random,
        )
        self._spawn: Spawn | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    # What users ask

    @property
    def info(self) -> ResourceInfo | None:
        """How the API server serves the kind; None before it was found to be served."""
        return self._mirror.info

    @property
    def synced(self) -> bool:
        """Whether the store holds a full state, and the kind was not lost since."""
        return self.store.synced

    async def wait_synced(self) -> None:
        """Wait until `synced`."""
        await self._mirror.synced.wait()

    @property
    def problem(self) -> Problem | None:
        """What keeps the store from being up to date, None where nothing does."""
        return self._reporter.problem

    @property
    def listeners(self) -> list[Callable[[], None]]:
        """Called when a problem begins, gets another cause, or ends, and when `synced` changes."""
        return self._reporter.listeners

    def add_handler(self, name: str, handler: Handler) -> Registration:
        """Tell this handler of every change from now on, and of what exists first.

        `handler` is called with a `Change` on the event loop and must be quick. `name` is for logs and statistics. Raises
        UsageError when the informer was stopped.
        """
        if self._spawn is None:
            raise UsageError(f"the informer of {self.selection} is stopped; acquire it anew from its InformerSet")
        registration = Registration(
            name,
            handler,
            what=str(self.selection),
            pace=self._pace,
            failed=self._meters.handler_failed,
            delivered=self._meters.delivered,
            removed=self._mirror.unregister,
        )
        self._mirror.register(registration)
        self._start_task(registration.run(), f"deliver {self.selection} to {name}")
        return registration

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Find objects by the values that `function` gives for each; `store.by_index(name, value)` reads it.

        What is in the store already is indexed at once, which takes a while for many objects: add indexes early. Adding the
        same function under the same name again does nothing; another function raises UsageError.
        """
        self._mirror.add_index(name, function)

    def statistics(self) -> InformerStatistics:
        """Return a picture of this moment."""
        mirror = self._mirror
        age, silence = self._times()
        return InformerStatistics(
            selection=str(self.selection),
            phase=self._reflector.phase.value,
            synced=self.synced,
            users=self.users,
            problem=self.problem,
            objects=len(self.store),
            bytes=self.store.size,
            version=self.store.version,
            lists=mirror.lists,
            watches=mirror.watches,
            events=mirror.events,
            bookmarks=mirror.bookmarks,
            restarts=dict(mirror.restarts),
            fallbacks=dict(mirror.fallbacks),
            dropped=dict(self._decoder.oddities),
            index_errors=self.store.index_errors,
            watch_age=age,
            silence=silence,
            handlers=tuple(registration.statistics() for registration in mirror.registrations),
        )

    # What the set does

    def start(self, spawn: Spawn) -> None:
        """Begin to follow the API server; `spawn` starts the tasks."""
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._meters.start()
        self._start_task(self._reflector.run(), f"reflect {self.selection}")

    def stop(self) -> None:
        """End every task and every series of metrics; the store stays as it is."""
        self._spawn = None
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._meters.stop()

    def _start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self._spawn is not None
        task = self._spawn(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What is measured

    def measure(self) -> dict[str, float]:
        """Return the numbers that metrics show."""
        age, silence = self._times()
        return {
            "objects": len(self.store),
            "bytes": self.store.size,
            "queued": sum(registration.waiting for registration in tuple(self._mirror.registrations)),
            "version": version_number(self.store.version),
            "watch_age": age or 0.0,
            "silence": silence or 0.0,
        }

    def _times(self) -> tuple[float | None, float | None]:
        if self._loop is None:
            return None, None
        now, mirror = self._loop.time(), self._mirror
        opened, heard = mirror.opened_at, mirror.heard_at
        return (None if opened is None else now - opened), (None if heard is None else now - heard)

    def _odd(self, why: str, about: str) -> None:
        now = asyncio.get_running_loop().time()
        last = self._odd_at.get(why)
        if last is None or now - last >= _LOG_EVERY:
            self._odd_at[why] = now
            keys = {LogKey.SELECTION: str(self.selection), LogKey.CAUSE: why, LogKey.ERROR: about}
            _LOG.warning("an object was not taken as it came", **keys)
