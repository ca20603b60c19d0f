"""How `make test` shares the tests among its two processes (pytest-xdist), and a table of times after a long run. No test knows of it."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from suite_times import lines

if not os.environ.get("CI"):  # with CI set, Hypothesis loads a profile of its own that has no deadlines either
    settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy machine")

_LONG = 60.0
"""Seconds of tests from which on a run prints its table of times."""
_TOGETHER = ("tests/conformance/",)
"""Folders whose tests share what is dear to set up: the cases and their two servers."""


def _unit_of(nodeid: str) -> str:
    """Return the name of what goes to one process as a whole: a folder, or else a file."""
    return next((folder for folder in _TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files in the order of their names: those on a control plane, which wait most of the time, come first.

    Each process has one control plane for all of its tests. The many short files of unit tests fill up the end.
    """
    config.option.loadscopereorder = False
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # annotated, but without a marker

    class ByPlane(LoadScopeScheduling):  # type: ignore[misc]  # for the same reason
        def _split_scope(self, nodeid: str) -> str:
            return _unit_of(nodeid)

    return ByPlane(config, log)


_phases: list[tuple[str, float]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the time of each phase; under xdist the reports of all processes come here."""
    _phases.append((report.nodeid, report.duration))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if sum(seconds for _, seconds in _phases) >= _LONG:
        terminalreporter.section("where the time went")
        for line in lines(_phases):
            terminalreporter.write_line(line)
