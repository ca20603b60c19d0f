"""The asyncio shell of the queue's core: tasks that wait for work, one timer, and draining.

Guarantees: `get` is cancel-safe: it takes and returns an item in the same iteration of the loop, so a cancelled getter holds none, and its
wake-up is passed to the next getter. One timer serves all delayed entries; nothing polls, and the queue owns no task. Time is the running
loop's. `shut_down` and `drain` may be called in any order, concurrently, and repeatedly.

Caveats: waiting getters are not served in a fair order. The queue serves one loop, and is not thread-safe; another thread calls it
by `loop.call_soon_threadsafe`.

Getters of controller-runtime that hang after a shut-down: https://github.com/kubernetes-sigs/controller-runtime/issues/3538
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from konverge.workqueue.backoff import EARLY_RETRY
from konverge.workqueue.core import QueueCore
from konverge.workqueue.entry import Item
from konverge.workqueue.limiters import Limiter
from konverge.workqueue.metrics import QueueMetrics
from konverge.workqueue.report import Snapshot, Statistics, Waiting
from konverge.workqueue.schedule import Throttle

__all__ = ["ShutDown", "WorkQueue"]

K = TypeVar("K", bound=Hashable)


class ShutDown(Exception):
    """Raised by `get` if the queue is shut down and all of its entries were handed out. Not a failure."""


class WorkQueue(Generic[K]):
    """A work queue; `konverge.workqueue.core` states its rules.

    The constructor starts nothing. Every add names its reason. A worker:

    >>> async def worker(queue: WorkQueue[str]) -> None:
    ...     async for item in queue:
    ...         try:
    ...             print("working on", item.key, "because of", item.why)
    ...             queue.forget(item.key)              # after a failure: queue.add_rate_limited(item.key, reason="retry")
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
        early_retry: float = EARLY_RETRY,
        throttle: Throttle | None = None,
        oldest_every: int = 0,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._core: QueueCore[K] = QueueCore(
            limiter=limiter, early_retry=early_retry, throttle=throttle, oldest_every=oldest_every, metrics=metrics
        )
        # The waiting tasks of `get` in order; a woken getter is no longer in here.
        self._getters: deque[asyncio.Future[None]] = deque()
        self._drainers: set[asyncio.Future[None]] = set()
        # The number of getters that were woken and did not run yet. Each of them takes one ready entry, so only
        # `ready - _woken` more getters are woken.
        self._woken = 0
        # Set if and only if the core has a delayed entry, and due no later than the first of them.
        # The time is kept here: uvloop returns a handle without one for a time that has passed.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        # The latest time of a timer that has run. `_now` is not earlier: a loop may run a timer early by its clock's resolution.
        self._timer_time = 0.0

    # --- adding -------------------------------------------------------------------------------------------------------------

    def add(self, key: K, *, reason: str, priority: int = 0) -> None:
        """Add a key that changed: it runs now, or once more after its present work. Ignored after shut-down."""
        self._core.add(key, self._now(), reason=reason, priority=priority)
        self._wake_waiters()

    def add_after(self, key: K, delay: float, *, reason: str, priority: int = 0) -> None:
        """Add a key that runs after `delay` seconds, or earlier by another add. Ignored after shut-down."""
        self._core.add_after(key, delay, self._now(), reason=reason, priority=priority)
        self._wake_waiters()

    def add_rate_limited(self, key: K, *, reason: str, priority: int = 0) -> float | None:
        """Add a key that failed: it runs at its retry deadline. Returns the seconds until then; None after shut-down."""
        now = self._now()
        at = self._core.add_rate_limited(key, now, reason=reason, priority=priority)
        self._wake_waiters()
        return None if at is None else max(0.0, at - now)

    # --- working ------------------------------------------------------------------------------------------------------------

    async def get(self) -> Item[K]:
        """Wait for the next item. The caller must call `done(item.key)` once, also if the work fails.

        It always yields to the loop first, so workers that never wait for anything else cannot stall the loop. Raises ShutDown if
        the queue is shut down and has no entry left, not even a re-run of a key in work.
        """
        await asyncio.sleep(0)  # before an item is taken, so that a cancellation here loses none
        while True:
            item = self._core.get(self._now())
            if item is not None:
                self._wake_waiters()
                return item
            if self._core.ended:
                raise ShutDown
            await self._wait_for_turn()

    async def _wait_for_turn(self) -> None:
        """Wait until `_wake_waiters` wakes this getter."""
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        came = False
        try:
            await getter
            came = True
        finally:
            if getter.done() and not getter.cancelled():
                self._woken -= 1
                if not came:  # cancelled after it was woken: another getter takes its entry
                    self._wake_waiters()
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
        """End the work on a key; raises ValueError if the key is not in work."""
        self._core.done(key, self._now())
        self._wake_waiters()

    def forget(self, key: K) -> None:
        """Drop the key's failures and retry deadline. Call it after a success and after a terminal error, else memory grows."""
        self._core.forget(key)

    def failures(self, key: K) -> int:
        """Return the number of the key's failures since it was forgotten."""
        return self._core.failures(key)

    def remove(self, key: K) -> bool:
        """Drop the entry and the failures of a key whose object was deleted; returns whether it had an entry. Running work continues."""
        removed = self._core.remove(key)
        self._wake_waiters()
        return removed

    # --- ending -------------------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Refuse adds and drop delayed entries. Getters receive the other entries, and then ShutDown."""
        self._core.shut_down(self._now())
        self._wake_waiters()

    async def drain(self, timeout: float | None = None) -> bool:
        """Shut down and wait until all ready keys are worked on and done; returns whether that happened within the timeout.

        Workers must continue to call `get`; without them, a queue with entries drains only by its timeout.
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

    # --- statistics ------------------------------------------------------------------------------------------------------------

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` or `drain` was called."""
        return self._core.shutting_down

    def has(self, key: K) -> bool:
        """Report whether the key waits or is in work."""
        return self._core.has(key)

    def statistics(self) -> Statistics:
        """Return the queue's statistics; the gauges "unfinished work" and "longest running" are computed by this call."""
        return self._core.statistics(self._now(), getters=len(self._getters) + self._woken)

    def why(self, key: K) -> Waiting[K] | None:
        """Return when the key runs next, why it waits and the reasons of the run; None if it does not wait."""
        return self._core.why(key, self._now())

    def snapshot(self, *, limit: int = 1000) -> Snapshot[K]:
        """Return the next `limit` waiting keys and the keys in work. The limit keeps a long queue from stalling the loop."""
        return self._core.snapshot(self._now(), limit=limit)

    # --- the shell ----------------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return max(asyncio.get_running_loop().time(), self._timer_time)

    def _wake_waiters(self) -> None:
        """Wake getters and drainers and set the timer as the core requires; called after each change of the core."""
        core = self._core
        if self._getters:
            wanted = len(self._getters) if core.ended else core.ready - self._woken
            while self._getters and wanted > 0:
                getter = self._getters.popleft()
                if not getter.done():  # else it was cancelled, and its task has not run yet
                    getter.set_result(None)
                    self._woken += 1
                    wanted -= 1
        if self._drainers and core.drained:
            for drainer in self._drainers:
                if not drainer.done():
                    drainer.set_result(None)
        at = core.next_at()
        if at is not None or self._timer is not None:
            self._set_timer(at)

    def _set_timer(self, at: float | None) -> None:
        """Set the timer to `at` or earlier. An earlier timer is kept: it finds no due entry and is set again."""
        timer = self._timer
        if timer is not None:
            if at is not None and self._timer_at <= at:
                return
            timer.cancel()
            self._timer = None
        if at is not None:
            self._timer = asyncio.get_running_loop().call_at(at, self._on_timer, at)
            self._timer_at = at

    def _on_timer(self, at: float) -> None:
        self._timer = None
        # Otherwise a timer that a coarse clock runs early would be set again and again for the same time.
        self._timer_time = max(self._timer_time, at)
        self._core.advance(self._now())
        self._wake_waiters()
