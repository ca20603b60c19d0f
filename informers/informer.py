"""One shared informer: a selection, the store that follows it, and its handlers.

Guarantees
- `store` equals the API server's state with a short delay. `synced` is true after the first full state. `Registration.has_synced` is true
  after that state was delivered to the handler; a controller waits for it.
- Handlers and indexes may be added at any time. A late handler first receives the existing objects; no change is lost or delivered twice.
- A failure degrades only this informer, shows in `problem`, and ends when its cause is removed.

Caveats: objects and handlers have no common order; handlers may miss intermediate states.
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
from konverge.informers.effect_handler import EffectHandler
from konverge.informers.meters import Meters, version_number
from konverge.informers.problem import Problem
from konverge.informers.reflector import Api, Reflector, WatchListDenylist
from konverge.informers.report import Reporter
from konverge.informers.settings import InformerSettings, Selection
from konverge.informers.statistics import InformerStatistics
from konverge.informers.store import IndexFunction, Store
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.tasks import Slice
from konverge.words import LogKey

__all__ = ["Informer", "Spawn"]

_LOG = get_logger("konverge.informers")
_LOG_EVERY = 10.0

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""Starts a named task of an informer."""


class Informer:
    """Keeps a store equal to a selection of objects, and delivers changes to handlers. Created by `InformerSet.acquire`.

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
        denylist: WatchListDenylist,
        share: Slice,
        random: Random,
    ) -> None:
        self.selection = selection
        self.store = Store()
        self.users = 0
        self.optional_users = 0
        """The users that can do without the kind."""
        self._share = share
        self._reporter = Reporter(selection, dispensable=lambda: self.optional_users == self.users)
        self._meters = Meters(metrics, name, selection.kind, self)
        self._effects = EffectHandler(
            self.store, reporter=self._reporter, denylist=denylist, share=share, meters=self._meters
        )
        self._decoder = Decoder(selection, managers, self._log_anomaly)
        self._anomaly_logged_at: dict[str, float] = {}
        self._reflector = Reflector(
            api=api,
            selection=selection,
            settings=settings,
            decoder=self._decoder,
            effects=self._effects,
            denylist=denylist,
            share=share,
            random=random,
        )
        self._spawn: Spawn | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    # Calls of users

    @property
    def info(self) -> ResourceInfo | None:
        """The resource of the kind; None before discovery has found it."""
        return self._effects.info

    @property
    def synced(self) -> bool:
        """Whether the store holds a full state and the kind is still served."""
        return self.store.synced

    async def wait_synced(self) -> None:
        """Wait until `synced`."""
        await self._effects.synced.wait()

    @property
    def problem(self) -> Problem | None:
        """The reason why the store is not up to date, None if it is."""
        return self._reporter.problem

    @property
    def listeners(self) -> list[Callable[[], None]]:
        """Called when a problem begins, changes its cause, or ends, and when `synced` changes."""
        return self._reporter.listeners

    def add_handler(self, name: str, handler: Handler) -> Registration:
        """Deliver the existing objects and then every change to this handler.

        `handler` is called with a `Change` on the event loop and must return quickly. `name` is for logs and statistics. Raises
        UsageError if the informer is stopped.
        """
        if self._spawn is None:
            raise UsageError(f"the informer of {self.selection} is stopped; acquire it again from its InformerSet")
        registration = Registration(
            name,
            handler,
            selection=str(self.selection),
            share=self._share,
            meters=self._meters,
            removed=self._effects.unregister,
        )
        self._effects.register(registration)
        self._start_task(registration.run(), f"deliver {self.selection} to {name}")
        return registration

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Add an index by the values that `function` returns for each object; `store.by_index(name, value)` reads it.

        The objects in the store are indexed at once, which stalls the loop if there are many: add indexes early. The same function
        may be added again under the same name; another function raises UsageError.
        """
        self._effects.add_index(name, function)

    def statistics(self) -> InformerStatistics:
        """Return the informer's present statistics."""
        effects = self._effects
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
            lists=effects.lists,
            watches=effects.watches,
            events=effects.events,
            bookmarks=effects.bookmarks,
            restarts=dict(effects.restarts),
            fallbacks=dict(effects.fallbacks),
            dropped=dict(self._decoder.anomalies),
            index_errors=self.store.index_errors,
            watch_age=age,
            silence=silence,
            handlers=tuple(registration.statistics() for registration in effects.registrations),
        )

    # Calls of the set

    def start(self, spawn: Spawn) -> None:
        """Start list and watch; `spawn` starts the tasks."""
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._meters.start()
        self._start_task(self._reflector.run(), f"reflect {self.selection}")

    def stop(self) -> None:
        """Cancel all tasks and remove the metric series; the store stays as it is."""
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

    # Metrics

    def measure(self) -> dict[str, float]:
        """Return the values of the gauges."""
        age, silence = self._times()
        return {
            "objects": len(self.store),
            "bytes": self.store.size,
            "queued": sum(registration.waiting for registration in tuple(self._effects.registrations)),
            "version": version_number(self.store.version),
            "watch_age": age or 0.0,
            "silence": silence or 0.0,
        }

    def _times(self) -> tuple[float | None, float | None]:
        if self._loop is None:
            return None, None
        now, effects = self._loop.time(), self._effects
        opened, last_event = effects.opened_at, effects.last_event_at
        return (None if opened is None else now - opened), (None if last_event is None else now - last_event)

    def _log_anomaly(self, why: str, about: str) -> None:
        now = asyncio.get_running_loop().time()
        last = self._anomaly_logged_at.get(why)
        if last is None or now - last >= _LOG_EVERY:
            self._anomaly_logged_at[why] = now
            keys = {LogKey.SELECTION: str(self.selection), LogKey.CAUSE: why, LogKey.ERROR: about}
            _LOG.warning("an object was dropped, or cached without its transform", **keys)
