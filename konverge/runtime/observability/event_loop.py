"""The watch over the event loop: the task that blocks it, and the line.

    thread                                   loop
      ping (call_soon_threadsafe)  ------->  responds in its next iteration: the lag
      no response for `threshold`:
        the stack of the loop's thread, the reconcile     ->  one warning, one count

Guarantees: a reconcile that blocks the loop for longer than 1.5 times the threshold is named, with controller, key and the stack of
that moment. So is a reconcile whose child task blocks. While reconciles begin the loop runs, and is not pinged at each check. While
none runs the loop is pinged once a second, for the histogram of its lag. Leaving ends the thread. A loop whose time is virtual gets no
thread, because its jumps are not lag. With `lease_seconds`, the time limit for a lease's renewal on this loop, a stall of a third of
that is logged as an error, with its stack.

Caveats: code that holds the interpreter's lock for its whole stall (a C extension) stops this thread too; such a stall appears only in
the histogram. On a loop that does not run its callbacks through `asyncio.Handle` (uvloop), stalls are attributed by task: stalls of
a reconcile's child tasks from Python 3.12 on, stalls of its callbacks never.

Invariant: nothing here waits for the loop while the loop waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NamedTuple, Self

from konverge.clock import monotonic
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.words import LogKey

__all__ = ["EventLoopMonitor", "should_watch", "trimmed"]

IDLE_PING: Final = 1.0
"""Seconds between pings while no reconcile runs: enough for a histogram, at almost no cost."""
LOG_EVERY: Final = 10.0
"""Seconds between two warnings about one controller; all its stalls are counted."""
_LEASE_PART: Final = 3
"""A stall of this part of the time limit for a lease's renewal is reported."""
_FRAMES: Final = 20
_LOOKS: Final = 4
"""Checks within the threshold. One check in so many is a ping; so is a check without a new reconcile since the last check."""

_LIBRARIES = (f"{Path(asyncio.__file__).parent}/", f"{Path(__file__).parent}/")
_HANDLE: CodeType = asyncio.Handle._run.__code__  # a callback's own frames begin below this frame
_RUNNER: CodeType = asyncio.Runner.run.__code__  # or below this frame on a loop that calls callbacks from C


def should_watch(loop: asyncio.AbstractEventLoop, threshold: float) -> bool:
    """Return whether a loop can be watched: the time of the loop is real, and the threshold is not 0 (which switches the watch off)."""
    return threshold > 0 and not hasattr(loop, "wall_time")


class RunningReconcile(NamedTuple):
    """The reconcile that a task belongs to."""

    controller: str
    key: object


_RECONCILE: ContextVar[RunningReconcile | None] = ContextVar("konverge_pass", default=None)


class EventLoopMonitor:
    """Watches one loop. Constructing it starts nothing; `with` runs its thread.

    with EventLoopMonitor(loop, metrics) as watch:
        with watch.note(task, "backup", "Backup web/nightly"):
            ...  # the pass
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
        *,
        threshold: float = 0.1,
        lease_seconds: float = 0.0,
    ) -> None:
        self.enabled = should_watch(loop, threshold)
        self._loop = loop
        self._threshold = threshold
        self._lease_seconds = lease_seconds
        self._lag = metrics.loop_lag
        self._calls = metrics.blocking_calls
        self._log = get_logger("konverge.runtime")
        self._running: dict[asyncio.Task[Any], RunningReconcile] = {}
        self._begun = 0
        self._logged: dict[str, float] = {}
        self._loop_thread = 0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        # Set when a reconcile begins, so that the first reconcile after a quiet time is watched from its start.
        self._busy = threading.Event()
        self._pinged = threading.Event()
        self._answered_at = 0.0

    # --- what runs ----------------------------------------------------------------------------------------------------------

    def note(self, task: asyncio.Task[Any], controller: str, key: object) -> contextlib.AbstractContextManager[None]:
        """Note that `task`, the running task, works on a key of a controller until the block ends; `str` names the key."""
        return _Noted(self, task, RunningReconcile(controller, key)) if self.enabled else _NOTHING

    # --- life ---------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start the thread; call it on the loop's own thread."""
        if self.enabled and self._thread is None:
            self._loop_thread = threading.get_ident()
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="konverge stall watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread; it never waits for the loop, so it ends in a moment."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            self._pinged.set()
            self._busy.set()
            thread.join()

    # --- the thread ---------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = self._threshold / _LOOKS
        while self._ping():
            # The pause precedes the check of the reconciles: many short reconciles must not cause as many pings.
            for _ in range(_LOOKS):
                begun = self._begun
                self._stopping.wait(pause)
                if begun == self._begun or self._stopping.is_set():
                    break
            if not self._running:
                self._busy.clear()
                if not self._running:  # a reconcile that began before the clearing did not wake this thread
                    self._busy.wait(IDLE_PING)

    def _ping(self) -> bool:
        """Ping the loop, report it if it does not respond, observe its lag; False if the watch or the loop has ended."""
        self._pinged.clear()
        # `__exit__` sets `_stopping` first and `_pinged` then: a ping that clears `_pinged` too late sees `_stopping`.
        if self._stopping.is_set():
            return False
        asked = monotonic()
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            return False
        if not self._pinged.wait(self._threshold):
            self._catch(monotonic() - asked)
            alarm = self._lease_seconds / _LEASE_PART
            if alarm and not self._pinged.wait(max(0.0, alarm - self._threshold)):
                self._warn_of_lease(monotonic() - asked)
            self._pinged.wait()
        if self._stopping.is_set():
            return False
        self._lag.observe(max(0.0, self._answered_at - asked))
        return True

    def _answer(self) -> None:
        self._answered_at = monotonic()
        self._pinged.set()

    def _catch(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # the documented way to another thread's stack
        if frame is None or self._pinged.is_set():
            return
        task = asyncio.current_task(self._loop)
        reconcile = (self._running.get(task) if task is not None else None) or _inherited(frame) or _inherited_by(task)
        if reconcile is None:
            return
        self._calls.labels(controller=reconcile.controller).inc()
        now = monotonic()
        if now - self._logged.get(reconcile.controller, -LOG_EVERY) < LOG_EVERY:
            return
        self._logged[reconcile.controller] = now
        self._log.warning(
            "a reconcile blocks the event loop: everything else in this process waits; await, or use asyncio.to_thread, or make "
            "reconcile a plain function, which gets a thread",
            **{
                LogKey.CONTROLLER: reconcile.controller,
                LogKey.KEY: str(reconcile.key),
                LogKey.DURATION: round(seconds, 3),
                LogKey.STACK: trimmed(frame),
            },
        )

    def _warn_of_lease(self, seconds: float) -> None:
        """Log that the loop is blocked for so long that the lease is in danger, by a reconcile or not."""
        frame = sys._current_frames().get(self._loop_thread)
        if frame is None or self._pinged.is_set():
            return
        self._log.error(
            "the event loop is blocked: the lease is not renewed, and lost if this lasts for as long as it may take to renew it",
            **{
                LogKey.DURATION: round(seconds, 3),
                LogKey.LIMIT: self._lease_seconds,
                LogKey.STACK: trimmed(frame),
            },
        )


_NOTHING: Final = contextlib.nullcontext()


class _Noted:
    """A reconcile, noted for as long as its block runs. A class of its own: as a generator it would cost several times as much."""

    __slots__ = ("_before", "_noted", "_task", "_token", "_watch")

    def __init__(self, watch: EventLoopMonitor, task: asyncio.Task[Any], noted: RunningReconcile) -> None:
        self._watch = watch
        self._task = task
        self._noted = noted

    def __enter__(self) -> None:
        running = self._watch._running
        self._before = running.get(self._task)
        running[self._task] = self._noted
        self._watch._begun += 1
        # Tasks that the reconcile starts inherit the context.
        self._token = _RECONCILE.set(self._noted)
        if not self._watch._busy.is_set():
            self._watch._busy.set()

    def __exit__(self, *_: object) -> None:
        _RECONCILE.reset(self._token)
        if self._before is None:
            del self._watch._running[self._task]
        else:
            self._watch._running[self._task] = self._before


def _inherited(frame: FrameType | None) -> RunningReconcile | None:
    """Return the reconcile in whose context the loop's present callback runs: a task that the reconcile has started."""
    while frame is not None:
        if frame.f_code is _HANDLE:
            context = getattr(frame.f_locals.get("self"), "_context", None)
            return None if context is None else context.get(_RECONCILE)
        frame = frame.f_back
    return None


def _inherited_by(task: asyncio.Task[Any] | None) -> RunningReconcile | None:
    """Return the reconcile that has started a task, from Python 3.12 on."""
    context = getattr(task, "get_context", lambda: None)()
    return None if context is None else context.get(_RECONCILE)


def trimmed(frame: FrameType, limit: int = _FRAMES) -> str:
    """Return a thread's stack as text without the frames of the event loop and of the runtime, outermost call first.

    If nothing else is left, the stack is whole.
    """
    frames: list[FrameType] = []
    current: FrameType | None = frame
    while current is not None and current.f_code is not _HANDLE and current.f_code is not _RUNNER:
        frames.append(current)
        current = current.f_back
    frames.reverse()
    users = list(frames)
    while users and users[0].f_code.co_filename.startswith(_LIBRARIES):
        del users[0]
    shown = users or frames
    left_out = len(shown) - limit
    summary = traceback.StackSummary.extract(
        ((shown_frame, shown_frame.f_lineno) for shown_frame in shown[-limit:]), lookup_lines=True
    )
    head = f"  ... {left_out} more\n" if left_out > 0 else ""
    return (head + "".join(summary.format())).rstrip("\n")
