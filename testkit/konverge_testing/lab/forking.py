"""Copies of a run that is going on: one for each plan that branches off. The shell of `branching`.

Guarantees: the original blocks until its copy has sent the outcome of the plan, and is not changed by it: the copy shares the loop's
descriptors and neither closes nor unregisters any, runs no cleanup of the original, flushes nothing that it inherited, and leaves by
`os._exit`. The death of a copy is reported as the failure of its plan's work. The original leaves as soon as the last plan has branched
off.

Caveats: a run that has threads or sockets of its own is not copied; its plans are handed back, to run without sharing.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from konverge_testing.lab.branching import SharedPrefix
from konverge_testing.lab.plans import Plan
from konverge_testing.lab.runs import Run, Scenario, run
from konverge_testing.lab.workers import Link
from konverge_testing.loop import MOST_SECONDS, VirtualTimeLoop

__all__ = ["run_shared"]


def run_shared(
    scenario: Scenario,
    plans: dict[int, Plan],
    link: Link,
    more: Callable[[], bool],
    judge: Callable[[Run], Any],
    *,
    seconds: float = MOST_SECONDS,
) -> None:
    """Run plans of one seed that share their beginning, and send what `judge` returns for each. May end the process when it is done.

    `more` is called before each plan; the rest is left if it returns False. `seconds` bounds each run, as in `run`.
    """
    forks = _Forks(link, more, seconds)
    prefix = forks.prefix = SharedPrefix(dict(plans), forks.fork)
    seed = next(iter(plans.values())).seed
    try:
        result = run(scenario, Plan(name="the common beginning", seed=seed), prefix=prefix, seconds=seconds)
        if prefix.taken is not None:
            forks.leave_copy("", judge(replace(result, plan=plans[prefix.taken])))
    except BaseException:  # a copy must never go on as if it were the original
        if prefix.taken is None:
            raise
        forks.leave_copy(traceback.format_exc(), None)
    for place, plan in tuple(prefix.waiting.items()):  # no fault of these plans struck
        if not more():
            return
        link.began(place)
        link.done(place, judge(replace(result, plan=plan, timeline=prefix.timeline(place, result.timeline))))
        del prefix.waiting[place]


class _Forks:
    def __init__(self, link: Link, more: Callable[[], bool], seconds: float) -> None:
        self.prefix: SharedPrefix
        self._link = link
        self._more = more
        self._seconds = seconds
        self._threads = threading.active_count()
        self._out = -1

    def fork(self, place: int) -> bool:
        """Copy the process; True in the copy. The original waits for the outcome of the copy and passes it on."""
        try:
            if not self._more():
                self._link.end()
            if not self._copies():
                self._link.end(tuple(self.prefix.waiting))
            self._link.began(place)
            if self._copied(place):
                return True
            if len(self.prefix.waiting) == 1:
                self._link.end()
        except BaseException:  # noqa: BLE001  # the run would take it for a finding of its own
            self._link.failed(traceback.format_exc())
        return False

    def _copies(self) -> bool:
        """Whether the process can be copied: threads do not survive a fork, and a socket would have two owners."""
        selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]  # asyncio's own: there is no public seam
        return threading.active_count() <= self._threads and len(selector.get_map()) <= 1

    def _copied(self, place: int) -> bool:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        inlet, outlet = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(inlet)
            self._link.close()
            self._out = outlet
            asyncio._set_running_loop(loop)  # asyncio ignores a running loop of another process
            if task is not None and asyncio.current_task() is None:  # from Python 3.14 on, so it takes the running task
                asyncio.tasks._enter_task(loop, task)
            assert isinstance(loop, VirtualTimeLoop)
            loop.limit(seconds=self._seconds)  # again: the CPU time of a copy begins at 0
            gc.freeze()  # never collect the original's garbage here: the collector's access would copy its pages
            return True
        os.close(outlet)
        with os.fdopen(inlet, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(process, 0)
        assert isinstance(loop, VirtualTimeLoop)
        loop.limit(seconds=self._seconds)  # again: the copy's time is not the original's
        if status or not told:
            self._link.failed(f"the process died ({_death(status)})")
        error, outcome = pickle.loads(told)  # noqa: S301  # our own copy wrote it
        if error:
            self._link.failed(error)
        self._link.done(place, outcome)
        return False

    def leave_copy(self, error: str, outcome: Any) -> NoReturn:
        """Send the outcome of the plan to the original, and end the copy."""
        code = 1
        try:
            try:
                told = pickle.dumps((error, outcome))
            except Exception:  # noqa: BLE001  # the original process reports it
                told = pickle.dumps((traceback.format_exc(), None))
            with os.fdopen(self._out, "wb") as pipe:
                pipe.write(told)
            code = 0
        finally:
            os._exit(code)


def _death(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit code {code}"
