"""How long reconciles may begin in one iteration of the event loop.

A worker begins at most one reconcile in an iteration, because `WorkQueue.get` yields first. But a manager with fifty controllers of ten
workers each would begin 500 reconciles before the loop reads its sockets. Health checks, webhooks and the renewal of a lease would wait.

Guarantees: once reconciles have begun for `SLICE` seconds of an iteration, no further reconcile begins in this iteration. The other workers
begin in the following iterations, in the order of their arrival. So no controller starves another controller. No worker waits while
all reconciles of an iteration fit into the slice.

Caveats: a reconcile is never interrupted, and only its part before its first wait is counted. If reconciles suddenly take longer, one
iteration takes longer than the slice.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Final

__all__ = ["SLICE", "ReconcileTurns"]

SLICE: Final = 0.005
"""Seconds of an iteration, as long as the slice of the informers."""


class ReconcileTurns:
    """Limits how long the workers of a manager begin reconciles within one iteration of a loop.

    A worker calls `may_begin` before a reconcile, and awaits `wait` if it returns false.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float = SLICE) -> None:
        self._loop = loop
        self._seconds = seconds
        self._waiting: deque[asyncio.Future[None]] = deque()
        # The end of this iteration's slice; None before the first reconcile of an iteration.
        self._until: float | None = None
        self._begun = 0
        # Whether woken workers are about to begin: then each further worker waits behind them, until the queue is empty.
        self._queued = False
        self._woken_at = 0.0

    def may_begin(self) -> bool:
        """Report whether a reconcile may begin now; if not, await `wait` first."""
        if self._queued:
            return False
        now = self._loop.time()
        if self._until is None:
            self._until, self._begun = now + self._seconds, 0
            self._loop.call_soon(self._next_iteration)
        elif now >= self._until:
            return False
        self._begun += 1
        return True

    async def wait(self) -> None:
        """Wait until this worker may begin."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next_iteration(self) -> None:
        """Begin without a slice, or, if workers wait, let as many of them begin as began in the last slice."""
        self._until = None
        if self._waiting:
            self._queued = True
            self._wake(self._begun)

    def _wake(self, most: int) -> None:
        """Let the workers that wait longest begin in the next iteration."""
        loop = self._loop
        loop.call_soon(self._begin_slice)
        self._begun = 0
        while self._waiting and self._begun < most:
            turn = self._waiting.popleft()
            if not turn.done():  # else its worker was cancelled
                turn.set_result(None)
                self._begun += 1
        loop.call_soon(self._end_slice)

    def _begin_slice(self) -> None:
        self._woken_at = self._loop.time()

    def _end_slice(self) -> None:
        """Wake the next workers: as many as fit into a slice, by the time that the last workers took."""
        if not self._waiting:
            self._queued = False
            return
        took = self._loop.time() - self._woken_at
        fit = self._begun * self._seconds / took if took > 0 else math.inf
        self._wake(max(1, int(min(fit, 2 * self._begun))))
