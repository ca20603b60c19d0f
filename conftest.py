"""How `make test` shares the tests among its processes (pytest-xdist), and a table and a record of times after a long run.

No test knows of it. `tools/flakes.py` reads the record.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import pytest
import structlog
import suite_planes
import unchanged_tests
from event_loops import LOOPS
from hypothesis import HealthCheck, settings
from suite_order import FILLER_NICENESS, chosen, is_filler, unit_of
from suite_times import lines, totals

from konverge_testing.loop import VirtualTimeLoop

if not os.environ.get("CI"):  # with CI set, Hypothesis loads a profile of its own that has no deadlines either
    settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy machine")

_VIRTUAL: Final = frozenset({"unit", "property"})
"""The folders of tests that run on virtual time."""
_LONG = 60.0
"""Seconds of tests from which on a run prints its table of times."""


def pytest_configure(config: pytest.Config) -> None:
    """Let the process that fills the time in which the others wait give way to them, and end the control planes that are idle."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts a background command with SIGINT ignored, and the programs under test inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(unchanged_tests)
    config.pluginmanager.register(suite_planes)  # hooks of a conftest.py are not called for fixtures of the session
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None and is_filler(worker["workerid"], worker["workercount"]):
        os.nice(FILLER_NICENESS)


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]] | None:
    """Run unit and property tests on virtual time: nothing sleeps for real. Tests with the mark `both_loops` run on each real loop."""
    if item.get_closest_marker("both_loops") is not None:
        return LOOPS
    return {"virtual": VirtualTimeLoop} if _VIRTUAL & set(item.path.parts) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from traversing the modules and the tests again and again: while they are made, and for the lab before each
    scenario, which takes what is frozen for all that is worth it. With the interpreter's 700 new objects between two collections, these took a
    sixth of the CPU of the unit tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files as `suite_order` chooses them. Each process has one control plane for all of its tests."""
    config.option.loadscopereorder = False
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # annotated, but without a marker

    class ByPlane(LoadScopeScheduling):  # type: ignore[misc]  # for the same reason
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            unit = chosen(self.workqueue, filler=is_filler(node.gateway.id, self.numnodes))
            self.workqueue.move_to_end(unit, last=False)
            super()._assign_work_unit(node)

        def _reschedule(self, node: Any) -> None:
            # A process needs to know the test after the one that it runs, and no more: one that has a long unit ahead keeps it from others.
            if node.shutting_down or not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
                super()._reschedule(node)

    return ByPlane(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if sys.platform != "linux" and item.get_closest_marker("linux"):
        pytest.skip("needs a program, a file or an address that only Linux has")


@pytest.fixture(autouse=True)
def _logs_go_where_they_went_before() -> Iterator[None]:
    """Undo what a test configured of structlog: what others read from the standard library's loggers would be empty."""
    before = structlog.is_configured()
    yield
    if not before:
        structlog.reset_defaults()


_phases: list[tuple[str, float, float]] = []
_CPU_BEFORE = pytest.StashKey[float]()
_CPU: Final = "seconds of CPU"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    item.stash[_CPU_BEFORE] = _cpu()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note in the report what its phase took of CPU, in the process that runs the test and in those that it started and waited for."""
    report = yield
    before, item.stash[_CPU_BEFORE] = item.stash[_CPU_BEFORE], _cpu()
    report.user_properties.append((_CPU, item.stash[_CPU_BEFORE] - before))
    return report


def _cpu() -> float:
    return sum(os.times()[:4])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the time of each phase; under xdist the reports of all processes come here, with what the processes noted in them."""
    cpu = [value for name, value in report.user_properties if name == _CPU]
    _phases.append((report.nodeid, report.duration, sum(float(str(value)) for value in cpu)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if sum(seconds for _, seconds, _ in _phases) >= _LONG:
        record = terminalreporter.config.rootpath / "build" / "test-times.json"
        record.parent.mkdir(exist_ok=True)
        record.write_text(json.dumps(totals(_phases)))
        terminalreporter.section("where the time went")
        for line in lines(_phases):
            terminalreporter.write_line(line)
