"""The shell around the core: tasks that wait for work, one timer, and draining.

Promises: `get` is cancel-safe: an item is taken in the same turn of the loop in which it is returned, so a cancelled getter has
taken nothing, and a wake-up that it had been given goes on to the next one. One timer serves all delayed entries; nothing polls,
and the queue owns no task. Time is the running loop's. `shut_down` and `drain` may be called in any order, at once, and again.

Does not promise: fairness between getters; use from another thread than the loop's (`loop.call_soon_threadsafe` is the way in);
use by two loops.

Getters that hang after a shut-down, in the field: https://github.com/kubernetes-sigs/controller-runtime/issues/3538
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from konverge.workqueue.backoff import NEAR
from konverge.workqueue.core import QueueCore
from konverge.workqueue.entry import Item
from konverge.workqueue.limiters import Limiter
from konverge.workqueue.metrics import QueueMetrics
from konverge.workqueue.pace import Pace
from konverge.workqueue.report import Snapshot, Statistics, Waiting

__all__ = ["ShutDown", "WorkQueue"]

K = TypeVar("K", bound=Hashable)


class ShutDown(Exception):
    """Raised by `get` when the queue was shut down and everything that it still held was handed out. Not a failure."""


class WorkQueue(Generic[K]):
    """A work queue; `konverge.workqueue.core` states its rules.

    Constructing it starts nothing. Every add names its reason. A worker reads

    >>> async def worker(queue: WorkQueue[str]) -> None:
    ...     async for item in queue:
    ...         try:
    ...             print("working on", item.key, "because of", item.why)
    ...             queue.forget(item.key)              # where it failed: queue.add_rate_limited(item.key, reason="retry")
    ...         finally:
    ...             queue.done(item.key)
    >>> async def main() -> None:
    ...     queue = WorkQueue[str]()
    ...     queue.add("a", reason="created")
    ...     async with asyncio.TaskGroup() as tasks:
    ...         tasks.create_task(worker(queue))
    ...         await queue.drain(timeout=30)
    >>> asyncio.run(main())
    working on a because of created
    """

    def __init__(
        self,
        *,
        limiter: Limiter[K] | None = None,
        near: float = NEAR,
        pace: Pace | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._core: QueueCore[K] = QueueCore(limiter=limiter, near=near, pace=pace, metrics=metrics)
        self._getters: deque[asyncio.Future[None]] = deque()
        self._drainers: set[asyncio.Future[None]] = set()
        # Getters that were woken and did not run yet: so many ready entries have somebody coming for them.
        self._woken = 0
        self._timer: asyncio.TimerHandle | None = None
        # The latest time that the timer was set for. A loop may run it early, by as much as its clock resolves.
        self._reached = 0.0

    # --- adding -------------------------------------------------------------------------------------------------------------

    def add(self, key: K, *, reason: str, priority: int = 0) -> None:
        """Something about the key changed: run it now, or once more after its running work. Refused silently after shut-down."""
        self._core.add(key, self._now(), reason=reason, priority=priority)
        self._settle()

    def add_after(self, key: K, delay: float, *, reason: str, priority: int = 0) -> None:
        """Run the key after `delay` seconds, or earlier where something else asks for it. Refused silently after shut-down."""
        self._core.add_after(key, delay, self._now(), reason=reason, priority=priority)
        self._settle()

    def add_rate_limited(self, key: K, *, reason: str, priority: int = 0) -> float | None:
        """The key failed: run it again when the backoff says so. Returns the seconds until then; None after shut-down."""
        now = self._now()
        at = self._core.add_rate_limited(key, now, reason=reason, priority=priority)
        self._settle()
        return None if at is None else max(0.0, at - now)

    # --- working ------------------------------------------------------------------------------------------------------------

    async def get(self) -> Item[K]:
        """Wait for the next item. The caller owes one `done(item.key)`, whatever happens to the work.

        It always gives other tasks a turn first, so workers that find everything at hand and await nothing cannot stall the loop.
        Raises ShutDown when the queue was shut down and nothing is left, not even a re-run of a key that is still in work.
        """
        await asyncio.sleep(0)  # before anything is taken: a cancellation here costs nothing
        while True:
            item = self._core.get(self._now())
            if item is not None:
                self._settle()
                return item
            if self._core.ended:
                raise ShutDown
            await self._turn()

    async def _turn(self) -> None:
        """Wait until this getter's turn to look has come."""
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        came = False
        try:
            await getter
            came = True
        finally:
            if getter.done() and not getter.cancelled():
                self._woken -= 1
                if not came:  # cancelled after it was woken: somebody else must come in its place
                    self._settle()
            elif getter in self._getters:
                self._getters.remove(getter)

    def __aiter__(self) -> WorkQueue[K]:
        return self

    async def __anext__(self) -> Item[K]:
        try:
            return await self.get()
        except ShutDown:
            raise StopAsyncIteration from None

    def done(self, key: K) -> None:
        """End the work on a key; raises ValueError where nobody works on it."""
        self._core.done(key, self._now())
        self._settle()

    def forget(self, key: K) -> None:
        """Drop the key's failures and retry deadline. Call it on success and where retrying cannot help; memory depends on it."""
        self._core.forget(key)

    def failures(self, key: K) -> int:
        """Return how many failures of the key were counted since it was forgotten."""
        return self._core.failures(key)

    def remove(self, key: K) -> bool:
        """The key is gone: drop its waiting entry and its failures; running work goes on. Tells whether one waited."""
        removed = self._core.remove(key)
        self._settle()
        return removed

    # --- ending -------------------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Refuse adds and drop what is not ready. Getters still get the rest, and then ShutDown."""
        self._core.shut_down(self._now())
        self._settle()

    async def drain(self, timeout: float | None = None) -> bool:
        """Shut down and wait until all that was ready is worked on and done. Tells whether that was reached in time.

        It needs getters that go on: whoever drains without workers waits for the whole timeout.
        """
        self.shut_down()
        if self._core.drained:
            return True
        drainer = asyncio.get_running_loop().create_future()
        self._drainers.add(drainer)
        try:
            async with asyncio.timeout(timeout):
                await drainer
        except TimeoutError:
            return self._core.drained
        finally:
            self._drainers.discard(drainer)
        return True

    # --- telling ------------------------------------------------------------------------------------------------------------

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` or `drain` was called."""
        return self._core.shutting_down

    def has(self, key: K) -> bool:
        """Tell whether the key waits or is in work."""
        return self._core.has(key)

    def statistics(self) -> Statistics:
        """Return the queue in figures; those of the gauges "unfinished work" and "longest running" are computed here."""
        return self._core.statistics(self._now(), getters=len(self._getters) + self._woken)

    def why(self, key: K) -> Waiting[K] | None:
        """Return when the key runs next, what it waits for and because of what it will run; None where it does not wait."""
        return self._core.why(key, self._now())

    def snapshot(self, *, limit: int = 1000) -> Snapshot[K]:
        """Return what waits (the next `limit` keys) and what is in work. The limit keeps a long queue from stopping the loop."""
        return self._core.snapshot(self._now(), limit=limit)

    # --- the shell ----------------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return max(asyncio.get_running_loop().time(), self._reached)

    def _settle(self) -> None:
        """Bring getters, drainers and the timer in line with the core; called after everything that changed it."""
        core = self._core
        if self._getters:
            wanted = len(self._getters) if core.ended else core.ready - self._woken
            while self._getters and wanted > 0:
                getter = self._getters.popleft()
                if not getter.done():  # else it was cancelled, and its task did not run since
                    getter.set_result(None)
                    self._woken += 1
                    wanted -= 1
        if self._drainers and core.drained:
            for drainer in self._drainers:
                if not drainer.done():
                    drainer.set_result(None)
        self._set_timer(core.next_at())

    def _set_timer(self, at: float | None) -> None:
        """Have the timer go off no later than that. A timer set too early is left: it goes off, finds nothing, and is set again."""
        timer = self._timer
        if timer is not None:
            if at is not None and timer.when() <= at:
                return
            timer.cancel()
            self._timer = None
        if at is not None:
            self._timer = asyncio.get_running_loop().call_at(at, self._time_has_come, at)

    def _time_has_come(self, at: float) -> None:
        self._timer = None
        # Else a timer that a coarse clock runs early would be set again and again for the same instant.
        self._reached = max(self._reached, at)
        self._core.advance(self._now())
        self._settle()
