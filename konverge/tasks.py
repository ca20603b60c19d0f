"""Waiting for several things at once, for changes without polling, until a deadline, and for a share of each iteration of the loop. The
ground floor; knows nothing of Kubernetes.

Deadlines share one timer of the loop. `asyncio.timeout` sets and cancels a timer of its own for each operation, which costs about forty
calls, and a comparison in Python for each level of the loop's heap. Nearly every request and reconcile ends long before its deadline. So
here an operation only notes its deadline in a heap of plain tuples, and the timer of the loop is set for the earliest note. A note whose
operation has ended is dropped when the timer reaches it, or when such notes are the majority.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Coroutine
from heapq import heapify, heappop, heappush
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

__all__ = ["SLICE", "Broadcast", "Deadline", "Deadlines", "Signal", "Slice", "Wait", "cancel_and_wait", "wait_first"]

Wait: TypeAlias = Coroutine[Any, Any, Any] | asyncio.Future[Any]
"""A coroutine, which `wait_first` owns, or a task or future, which belongs to the caller."""


async def wait_first(*waits: Wait) -> None:
    """Return once one of these waits has ended, and raise its error if it failed.

    Guarantees: coroutines that have not ended are cancelled and awaited, also if the caller is cancelled; tasks and futures of the caller
    go on. If several have ended at that moment, the first failure in the order of the arguments is raised, and the failures of other
    coroutines are dropped. If the caller is cancelled, all failures are dropped.

    >>> async def example() -> None:
    ...     stop = asyncio.Event()
    ...     stop.set()
    ...     await wait_first(asyncio.sleep(3600), stop.wait())
    >>> asyncio.run(example())
    """
    own: dict[asyncio.Future[Any], bool] = {}
    for wait in waits:
        own[asyncio.ensure_future(wait)] = not isinstance(wait, asyncio.Future)
    cancelled: set[asyncio.Future[Any]] = set()
    try:
        await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
    finally:
        cancelled = {task for task, ours in own.items() if ours and not task.done()}
        for task, ours in own.items():
            if ours:
                task.add_done_callback(_drop_error)
        for task in cancelled:
            task.cancel()
        if cancelled:
            await asyncio.wait(cancelled)
    for task in own:
        if task.done() and not (task in cancelled and task.cancelled()):
            task.result()


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel these tasks, and wait for their end; their errors are dropped, also after a cancellation of the caller."""
    for task in tasks:
        task.add_done_callback(_drop_error)
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _drop_error(task: asyncio.Future[Any]) -> None:
    """Read the exception of a task, so that asyncio does not report it as never retrieved."""
    if not task.cancelled():
        task.exception()


class Signal:
    """Wakes the task that waits for the signal; a `set` before the `wait` is kept, several are one.

    An `asyncio.Event` that its only waiter clears, at a third of the calls: each change of a cache passes through one.
    """

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiting task, or the next that waits; never blocks."""
        self._is_set = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self) -> None:
        """Return once `set` was called since the last return."""
        if not self._is_set:
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            await waiter
        self._is_set = False


class Broadcast:
    """Wakes every task that waits at the moment of `notify`; a later `wait` waits for the next `notify`.

    A task that checks a condition and calls `wait` without an `await` in between misses no change.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wake all that wait; never blocks."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Return at the next `notify`."""
        await self._next.wait()


SLICE: Final = 0.005
"""The seconds of each iteration of the loop that informers have, and that reconciles have."""


class Slice:
    """One slice of time in each iteration of the running loop, shared by the tasks of one kind of work.

    Fifty informers that receive events at once, or 500 workers with a reconcile each, would run one after the other before the loop reads
    its sockets again. Health checks, webhooks and the renewal of a lease would wait.

    A task calls `may_begin` before its first piece of work and `may_continue` before each further piece, and awaits `wait` if the call
    returned false.

    Guarantees: once the tasks have worked for `seconds` in one iteration, no further piece of work begins in this iteration. The other
    tasks continue in the following iterations, in the order of their arrival, so no task starves. No task waits while all work of an
    iteration fits into the slice. A single working task uses the whole slice.

    Caveats: a piece of work is never interrupted, and only its part before its first wait is counted.
    """

    def __init__(self, seconds: float = SLICE) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        # The end of this iteration's slice; None before the first piece of work of an iteration.
        self._until: float | None = None
        # The tasks that began in this iteration.
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Tasks that were woken too late in an iteration; they precede `_waiting`.
        self._late: deque[asyncio.Future[None]] = deque()
        # Whether woken tasks are about to begin: then each further task waits behind the waiting tasks.
        self._queued = False

    def may_begin(self) -> bool:
        """Report whether a task that was not working may begin now; if not, it awaits `wait` first."""
        if self._queued:
            return False
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        now = loop.time()
        if self._until is None:
            self._until, self._begun = now + self._seconds, 0
            loop.call_soon(self._next_iteration)
        elif now >= self._until:
            return False
        self._begun += 1
        return True

    def may_continue(self, now: float) -> bool:
        """Report whether a task that has begun may go on with its next piece of work; `now` is the loop's time."""
        # Without a slice the task has waited for something else since its last piece, so it begins again.
        return self.may_begin() if self._until is None else now < self._until

    async def wait(self) -> None:
        """Wait until this task may work."""
        loop = self._loop = asyncio.get_running_loop()
        waiting = self._waiting
        while True:
            woken: asyncio.Future[None] = loop.create_future()
            waiting.append(woken)
            await woken
            # The first woken task always works: a suspended process may wake with its slice spent.
            if self._until is None or not self._begun or loop.time() < self._until:
                self._begun += 1
                return
            waiting = self._late

    def _next_iteration(self) -> None:
        """Begin without a slice, or, if tasks wait, let as many of them work as began in the last slice."""
        self._until = None
        if self._waiting or self._late:
            self._queued = True
            self._wake(self._begun)

    def _wake(self, most: int) -> None:
        """Let the tasks that wait longest work in the next iteration."""
        assert self._loop is not None
        self._loop.call_soon(self._begin_slice)
        woken = 0
        while woken < most and (self._late or self._waiting):
            task = (self._late or self._waiting).popleft()
            if not task.done():  # else the task was cancelled
                task.set_result(None)
                woken += 1
        self._loop.call_soon(self._end_slice)

    def _begin_slice(self) -> None:
        assert self._loop is not None
        self._until, self._begun = self._loop.time() + self._seconds, 0

    def _end_slice(self) -> None:
        """Wake the next tasks: as many as fit into a slice, by the time that the last tasks took."""
        assert self._loop is not None
        assert self._until is not None
        began, self._until = self._until - self._seconds, None
        if not (self._waiting or self._late):
            self._queued = False
            return
        took = self._loop.time() - began
        fit = self._begun * self._seconds / took if took > 0 else math.inf
        self._wake(max(1, int(min(fit, 2 * self._begun))))


_OFTEN: Final = 64
"""After so many notes it is counted how many of all notes have ended."""


class Deadlines:
    """The deadlines of the operations of one client, controller or stream; for one loop.

    As with `asyncio.timeout_at`, an operation that is running at its deadline is cancelled, and the block raises TimeoutError; a
    cancellation from elsewhere stays a CancelledError. A deadline holds for the task that entered it. The timer is never late: it is set
    for the earliest running deadline, or earlier.

    >>> async def example() -> None:
    ...     deadlines = Deadlines()
    ...     with Deadline(deadlines, asyncio.get_running_loop().time() + 5):
    ...         await asyncio.sleep(0)
    >>> asyncio.run(example())
    """

    def __init__(self) -> None:
        # Times and their deadlines; the number in between keeps the order of equal times. A note is valid while its deadline has the
        # same time.
        self._notes: list[tuple[float, int, Deadline]] = []
        self._number = 0
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def _note(self, when: float, deadline: Deadline) -> None:
        notes = self._notes
        self._number += 1
        if not self._number % _OFTEN and len(notes) > 2 * self._running:
            notes[:] = [note for note in notes if note[0] == note[2].when]
            heapify(notes)
        heappush(notes, (when, self._number, deadline))
        if self._timer is None or when < self._timer_at:
            self._set_timer(when)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = asyncio.get_running_loop().call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        notes = self._notes
        # A loop may run a timer early by the resolution of its clock.
        now = max(self._timer_at, asyncio.get_running_loop().time())
        self._timer = None
        while notes:
            when, _, deadline = notes[0]
            if when == deadline.when:
                if when > now:
                    self._set_timer(when)
                    return
                deadline._expire()
            heappop(notes)


class Deadline:
    """The deadline of one operation, entered once with `with`. `when` is a time of the loop, or None without a deadline."""

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_task", "when")

    def __init__(self, deadlines: Deadlines, when: float | None) -> None:
        self._deadlines = deadlines
        self.when = when
        """The time of the loop that cancels the operation; None without a deadline, and after the end."""
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._expired = False

    def __enter__(self) -> Self:
        task = self._task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task")
        self._cancelling = task.cancelling()
        self._deadlines._running += 1
        if self.when is not None:
            self._deadlines._note(self.when, self)
        return self

    def reschedule(self, when: float) -> None:
        """Replace the time of a deadline that was entered and has not expired."""
        if not self._expired:
            self.when = when
            self._deadlines._note(when, self)

    def expired(self) -> bool:
        """Return whether the operation was cancelled by the deadline."""
        return self._expired

    def _expire(self) -> None:
        assert self._task is not None
        self.when, self._expired = None, True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        self.when = None
        self._deadlines._running -= 1
        if not self._expired:
            return
        assert task is not None
        # A cancellation from elsewhere has to reach the task.
        if task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error
