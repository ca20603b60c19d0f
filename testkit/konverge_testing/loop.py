"""An event loop whose time jumps when nothing is ready.

Guarantees: code that sleeps, sets timeouts or calls `loop.time()` runs unchanged, and a test that covers hours ends in
milliseconds. `loop.time()` starts at 0 and moves only when every task waits for time: then it jumps to the next timer.
`konverge.clock.wall_clock()` moves along, from 2030-01-01T00:00:00Z. Work in threads counts as busy: while a call through
`run_in_executor` (so also `asyncio.to_thread`) is open, time does not move. `limit` bounds the real time of such calls, and the CPU time of
everything that the loop runs: a program that waits for an event that never happens ends with an error that names the wait.

With a `random` the loop is a seeded scheduler: it shuffles the tasks that are ready in one iteration. Only tasks
are reordered; other callbacks keep the order that asyncio guarantees, and no task overtakes a callback of asyncio's own input and output
(transports, protocols, the loop's sockets), since asyncio relies on that order. The same seed on the same program gives the same run.

Real connections work if both ends are in this process, or the other end responds at once: while a connection is open, the loop polls for
data for some milliseconds of real time before time jumps.

Caveats: data that is in flight for longer is not seen as work, so time may jump past a deadline while bytes travel.
"""

from __future__ import annotations

import asyncio
import functools
import math
import selectors
import threading
from collections.abc import Callable, Iterator, MutableSequence, Sized
from concurrent.futures import Executor
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

from konverge.clock import cpu_time, monotonic
from konverge_testing.frames import line_of_task

__all__ = [
    "ABANDONED",
    "CLOCK_ERROR",
    "EPOCH",
    "MOST_SECONDS",
    "MOST_TURNS",
    "MOST_WAITING",
    "SUSPENDED",
    "Deadlock",
    "Livelock",
    "VirtualTimeLoop",
]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CLOCK_ERROR: ContextVar[float | Callable[[], float]] = ContextVar("konverge_clock_error", default=0.0)
"""The wall clock error of a task and of the tasks that it starts, in seconds: replicas on machines whose clocks differ.

For a clock that jumps it is a function that returns the error.
"""
SUSPENDED: ContextVar[float | Callable[[], float]] = ContextVar("konverge_suspended", default=0.0)
"""Seconds that the machine of a task, and of the tasks that it starts, was suspended; a function if the machine suspends during the run."""
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""The wall time at the start of every virtual loop."""

MOST_TURNS = 10_000
"""Iterations of the loop at one moment that count as a hang: an ordinary run has a few hundred in all."""

ABANDONED = " (never returned)"
"""Suffix of the names of non-daemon threads after a run gave up waiting for a thread: no thread can be ended from outside."""
MOST_WAITING = 30.0
"""Real seconds that a thread of the program may take to return while the process uses hardly any CPU."""
MOST_SECONDS = 300.0
"""CPU seconds of one run that count as a hang, and ten times as many real seconds: an ordinary run takes a few."""
_BUSY = 0.05
"""The least CPU share of real time that shows that threads compute and do not wait; an idle machine gives a process more."""
_LOOK_AGAIN = 256
"""Iterations of the loop between two readings of the clock."""
_IDLE_SECONDS = 1.0
_IN_FLIGHT_SECONDS = 0.002
"""Real seconds that a kernel takes to deliver bytes from one end of a local connection to the other."""
_OWN_FILES = 1
"""The descriptors that an asyncio loop registers for itself: the pipe that wakes it."""
_ROUNDING = 1e-3
"""Far above what sums of floats lose, far below what asyncio cuts a long wait to (a day)."""


class Deadlock(RuntimeError):
    """Every task waits for an event that can no longer happen: no timer, thread or socket can wake a task, or none does."""


class Livelock(RuntimeError):
    """Time does not move although nothing waits for a thread: a task repeats the same step without a pause."""


class _JumpingSelector(selectors.PollSelector):
    """Polls the real selector; if nothing is ready, lets the loop jump instead of waiting.

    It is poll on each system: the lab copies a process in the midst of a run, and the copy does not inherit the kqueue of macOS. While the
    loop has work, it polls only outside connections: results of threads are in the loop's own queue.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jump: Callable[[float], None] = lambda _seconds: None
        self.busy: Callable[[], bool] = lambda: False
        self.turn: Callable[[bool], None] = lambda _at_work: None
        self.waited: Callable[[bool], None] = lambda _in_vain: None
        self._files: Sized = self._fd_to_key  # type: ignore[attr-defined]  # selectors' own: its view counts in Python, at each turn of a loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        at_work = timeout is not None and timeout <= 0
        self.turn(at_work)
        if at_work and len(self._files) <= _OWN_FILES:
            return []
        ready = super().select(0)
        if ready or at_work:
            return ready
        if self.busy():
            ready = super().select(0.05 if timeout is None else min(timeout, 0.05))
            self.waited(not ready)
            return ready
        if self._is_connected():
            ready = super().select(_IN_FLIGHT_SECONDS if timeout is None else min(timeout, _IN_FLIGHT_SECONDS))
            if ready:
                return ready
        if timeout is None:
            ready = super().select(_IDLE_SECONDS)
            if not ready:
                raise Deadlock("every task waits and no timer is set: nothing can wake this loop again")
            return ready
        self.jump(timeout)
        return []

    def _is_connected(self) -> bool:
        """Whether a connection is open or under way; a listening socket does not count."""
        return len(self._files) > _OWN_FILES and (
            sum(not _listens(key) for key in self.get_map().values()) > _OWN_FILES
        )


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop with virtual time; see the module."""

    _clock_resolution: float

    def __init__(self, random: Random | None = None) -> None:
        selector = _JumpingSelector()
        self._random = random
        self._now = 0.0
        self._calls: dict[asyncio.Future[Any], Any] = {}
        self._waiting_since: tuple[float, float] | None = None
        self._most_waiting: float | None = None
        self._abandoned = False
        self._ends: tuple[float, float] | None = None
        self.most_turns: int | None = None
        """Iterations of the loop without progress of time, before it raises Livelock; None: any number."""
        self.explain: Callable[[], str] = str
        """Returns what keeps the loop busy, for the text of Livelock."""
        self._given_up = False
        self._looked = 0
        self._turns = 0
        self._turned_at = 0.0
        super().__init__(selector)
        selector.jump = self._jump
        selector.busy = lambda: bool(self._calls)
        selector.waited = self._waited
        selector.turn = self._turn

    def time(self) -> float:
        """Return the virtual monotonic time in seconds."""
        return self._now

    def wall_time(self) -> datetime:
        """Return the virtual wall time of the current task's clock."""
        error = CLOCK_ERROR.get()
        return EPOCH + timedelta(seconds=self._now + (error() if callable(error) else error))

    def boot_time(self) -> float:
        """Return the virtual time since boot of the current task's machine, suspended time included."""
        suspended = SUSPENDED.get()
        return self._now + (suspended() if callable(suspended) else suspended)

    def advance(self, seconds: float) -> None:
        """Move time forward; timers that became due run in the next iteration of the loop."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._move_to(self._now + seconds)

    def limit(self, *, seconds: float = MOST_SECONDS) -> None:
        """Raise Deadlock once threads kept the loop waiting for `MOST_WAITING`, and Livelock once so much CPU time was used from now on.

        Ten times as many real seconds count as well: a program that polls a silent connection uses hardly any CPU.
        """
        self._most_waiting = MOST_WAITING
        self._ends = (cpu_time() + seconds, monotonic() + 10 * seconds)

    def no_limit(self) -> None:
        """Undo `limit`."""
        self._most_waiting = self._ends = self._waiting_since = None

    def _waited(self, in_vain: bool) -> None:
        """Record a poll while threads work; raises Deadlock if polls find nothing for too long although the threads do not compute."""
        if self._most_waiting is None or not in_vain:
            self._waiting_since = None
            return
        now, used = monotonic(), cpu_time()
        if self._waiting_since is None:
            self._waiting_since = now, used
        since, before = self._waiting_since
        waited = now - since
        if waited < self._most_waiting:
            return
        self._waiting_since = None
        if used - before < _BUSY * waited:
            calls, self._calls = [_name_of(call) for call in self._calls.values()], {}  # from here on time moves again
            self._abandoned = True
            for thread in threading.enumerate():
                if thread is not threading.main_thread() and not thread.daemon:
                    thread.name += ABANDONED
            raise Deadlock(
                f"{', '.join(sorted(set(calls)))} did not return in {waited:.0f} s of real time and used no CPU; time stands still while a "
                "thread works. Give what it waits for a timeout"
            )

    def _check_end(self) -> None:
        if self._ends is not None and (cpu_time() > self._ends[0] or monotonic() > self._ends[1]):
            self._ends = None
            words = f"the run goes on and on: {self._now:.0f} virtual seconds have passed, and no end is near"
            raise Livelock("\n  ".join((words, *self._standing())))

    def _standing(self) -> Iterator[str]:
        """Yield the lines of the program's own code where tasks wait."""
        for task in sorted(asyncio.all_tasks(self), key=asyncio.Task.get_name):
            line = line_of_task(task)
            if line:
                yield f"the task {task.get_name()} waits at {line}"

    def give_up(self) -> None:
        """Raise Livelock in the next iteration: the caller has seen the program repeat the same step."""
        self._given_up = True

    def _turn(self, at_work: bool) -> None:
        if at_work:
            self._waiting_since = None
        if self.most_turns is not None:
            still = self._now == self._turned_at and not self._calls
            self._turned_at, self._turns = self._now, self._turns + 1 if still else 0
        if self._given_up or (self.most_turns is not None and self._turns > self.most_turns):
            turns = "" if self._given_up else f" for {self.most_turns} turns of the loop"
            self._turns, self._given_up = 0, False
            words = f"time has stood still at {self._now:.3f} s{turns}"
            raise Livelock("\n  ".join((words, *self.explain().splitlines(), *self._stepping())))
        self._looked += 1
        if self._looked % _LOOK_AGAIN == 0:
            self._check_end()
        if self._random is not None:
            self._shuffle()

    def _stepping(self) -> Iterator[str]:
        """Yield the lines of the program's own code where the ready tasks are suspended."""
        for handle in self._ready:  # type: ignore[attr-defined]  # asyncio's own queue of handles, as in `_shuffle`
            task: asyncio.Task[Any] | None = getattr(handle._callback, "__self__", None) if _is_step(handle) else None
            line = "" if task is None else line_of_task(task)
            if task is not None and line:
                yield f"the task {task.get_name()} steps again and again at {line}"

    def _jump(self, seconds: float) -> None:
        """Move to the next timer's exact time.

        The sum of now and the difference may fall short of the timer's own time by a rounding error; the timer would run early, and code
        that then sets it again for the same moment would do so for ever, since no time passes in between.
        """
        timers = self._scheduled  # type: ignore[attr-defined]  # asyncio's own heap of timers: there is no public seam
        due = self._now + seconds
        self._move_to(timers[0].when() if timers and abs(timers[0].when() - due) < _ROUNDING else due)

    def _move_to(self, now: float) -> None:
        """Set the time.

        asyncio runs a timer that is due before `time() + resolution`. After 2^24 seconds the resolution of the real clock, 1e-9 s, is less
        than the distance to the next float: the sum would be the time itself, and no timer would ever be due.
        """
        self._now = now
        self._clock_resolution = max(self._clock_resolution, math.ulp(now))

    def _shuffle(self) -> None:
        """Shuffle the steps of the ready tasks, within each section between two callbacks of asyncio's own."""
        ready = self._ready  # type: ignore[attr-defined]  # asyncio's own queue of handles: there is no public seam for a scheduler
        if len(ready) < 2:
            return
        places = list[int]()
        for place, handle in enumerate(ready):
            if _is_step(handle):
                places.append(place)
            elif isinstance(_owner(handle), _INPUT_AND_OUTPUT):
                self._draw(ready, places)
                places = []
        self._draw(ready, places)

    def _draw(self, ready: MutableSequence[asyncio.Handle], places: list[int]) -> None:
        """Shuffle the handles at these places."""
        if len(places) < 2:
            return
        handles = [ready[place] for place in places]
        assert self._random is not None
        self._random.shuffle(handles)
        for place, handle in zip(places, handles, strict=True):
            ready[place] = handle

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread; virtual time does not move until it returns."""
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._calls[future] = func

        def ended(done: asyncio.Future[Any]) -> None:
            self._calls.pop(done, None)

        future.add_done_callback(ended)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002  # Python 3.11 has none
        """Wait for the threads; the wait counts as work, so that time does not jump to its limit (set by Python 3.12 and newer)."""
        if self._abandoned:  # one of the threads does not return
            return
        closing: asyncio.Future[None] = self.create_future()
        self._calls[closing] = super().shutdown_default_executor
        try:
            await super().shutdown_default_executor()
        finally:
            self._calls.pop(closing, None)


_INPUT_AND_OUTPUT = (asyncio.AbstractEventLoop, asyncio.BaseTransport, asyncio.BaseProtocol)
"""The owners of callbacks that no task may overtake: otherwise a task might, for instance, give a descriptor to a transport before the loop
has released it.
"""


def _name_of(call: Any) -> str:
    """Return the name of a function that was handed to a thread; `asyncio.to_thread` wraps it."""
    while isinstance(call, functools.partial):
        call = call.args[0] if call.args and callable(call.args[0]) else call.func
    return f"{getattr(call, '__module__', '')}.{getattr(call, '__qualname__', call)}".lstrip(".")


def _is_step(handle: asyncio.Handle) -> bool:
    """Whether a handle is a task's next step; a task has at most one at a time."""
    return isinstance(_owner(handle), asyncio.Task)


def _owner(handle: asyncio.Handle) -> Any:
    """Return the object whose method a handle calls, such as a task, a transport or the loop itself."""
    callback = getattr(handle, "_callback", None)
    while isinstance(callback, functools.partial):
        callback = callback.func
    return getattr(callback, "__self__", None)


def _listens(key: selectors.SelectorKey) -> bool:
    """Whether a descriptor is registered to accept connections."""
    reader = key.data[0] if isinstance(key.data, tuple) else None
    return getattr(getattr(reader, "_callback", None), "__name__", "") == "_accept_connection"
