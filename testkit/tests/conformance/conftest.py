"""Runs the selected conformance cases on both servers, all at once, and prints the matrix if CONFORMANCE_REPORT is set."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from conformance.cases import Case, load_cases
from conformance.matrix import report
from conformance.running import run_case
from conformance.setup import prepare
from conformance.targets import Target, memory_target, real_target
from conformance.webhook import conversion_webhook

from konverge_testing.config import ControlPlaneConfig
from konverge_testing.control_plane import ControlPlane

_AT_ONCE = 6
_CASES = load_cases()

Records = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", _CASES, ids=[f"{case.area}: {case.name}" for case in _CASES])


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane of this suite's own: its cases leave objects of the whole cluster behind."""
    with ControlPlane(ControlPlaneConfig(controllers=True)) as plane:
        yield plane


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest, control_plane: ControlPlane) -> dict[str, tuple[str, Records]]:
    """The responses of both servers by the name of the case: its namespace, the real server's records, the in-memory server's records."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    drawn = [spec.params.get("case") for spec in specs if spec is not None]
    wanted = [case for case in drawn if isinstance(case, Case)]
    return asyncio.run(_run_all(control_plane, wanted))


async def _run_all(plane: ControlPlane, cases: list[Case]) -> dict[str, tuple[str, Records]]:
    found: dict[str, tuple[str, Records]] = {}
    turn = asyncio.Semaphore(_AT_ONCE)
    async with AsyncExitStack() as stack:
        real: Target = await stack.enter_async_context(real_target(plane))
        memory: Target = await stack.enter_async_context(memory_target())
        variables = await stack.enter_async_context(conversion_webhook())
        await asyncio.gather(prepare(real), prepare(memory))

        async def one(case: Case) -> None:
            async with turn:
                namespace = f"c-{_CASES.index(case):04}"
                both = await asyncio.gather(*(run_case(one, case, namespace, variables) for one in (real, memory)))
                found[f"{case.area}: {case.name}"] = (namespace, (both[0], both[1]))

        await asyncio.gather(*(one(case) for case in cases if not case.alone))
        for case in cases:
            if case.alone:
                await one(case)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get("CONFORMANCE_REPORT"):
        failed = {one.nodeid for one in terminalreporter.stats.get("failed", [])}
        terminalreporter.section("conformance")
        terminalreporter.write_line(report(_CASES, failed))
