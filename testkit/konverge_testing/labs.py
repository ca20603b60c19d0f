"""The pytest side of the lab: the fixture `lab`, the choice of its environment, and the reruns under every plan.

    pytest --lab-on=memory|control-plane|kubeconfig      where tests that use `lab` run (default: memory)
    pytest --lab=quick|full                              rerun each test that is marked `scenario` under every plan
    pytest --lab-plan FILE                               rerun them under one plan from a file

Guarantees: a coroutine test that uses `lab` needs no mark and no configuration. In memory it runs on an event loop whose time is
virtual. This file does not affect a project that has konverge installed and uses no lab: the hook that chooses loops is registered
when the first lab test is collected.

The plugin loads it only if pytest-asyncio is loaded. Importing it imports no client yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from konverge_testing.lab import Lab

__all__ = ["lab"]

CONTROL_PLANE: Final = "control-plane"
KUBECONFIG: Final = "kubeconfig"
MEMORY: Final = "memory"

_LOOPS: Final = "konverge-lab-loops"
_SHORTFALL: Final = "lab shortfall"
_QUICK_SECONDS: Final = 600.0
"""Seconds until pytest-timeout ends quick mode, which has a fixed number of plans and no budget of seconds."""
_LABS: Final = pytest.StashKey[tuple["Lab", asyncio.AbstractEventLoop]]()
_FAILED: Final = pytest.StashKey[bool]()
"""Whether a test failed in this process."""
_LAST_SECONDS: Final = 3600.0
"""Seconds that the tasks of a test that hangs have to end once they are cancelled."""
_STATUS: Final = pytest.StashKey[int]()
_SLACK: Final = 300.0
"""Seconds on top of the budget: reference runs, the plans that run when the budget ends, and the shrinking of a failed plan."""
_WALL_PER_CPU: Final = 4.0
"""Seconds of wall time for each CPU second of a budget: on a busy machine a process gets a part of one core."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lab_on(*places): the places where this lab test can run; skipped elsewhere")
    config.addinivalue_line(
        "markers", "scenario: with --lab, rerun this test under every plan of faults; its only argument is `lab`"
    )


def place_of(item: pytest.Item) -> str:
    """Return where a lab test runs."""
    if item.get_closest_marker("control_plane") is not None:
        return CONTROL_PLANE
    return str(item.config.getoption("--lab-on"))


class _Loops:
    """Chooses the loop of each test: virtual for a lab in memory, else asyncio's."""

    @pytest.hookimpl(trylast=True)
    def pytest_asyncio_loop_factories(
        self,
        config: pytest.Config,  # noqa: ARG002  # pytest passes by name
        item: pytest.Item,
    ) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
        if _uses_lab(getattr(item, "function", None), item) and place_of(item) == MEMORY:
            from konverge_testing.loop import VirtualTimeLoop

            return {"virtual": VirtualTimeLoop}
        return {"asyncio": asyncio.new_event_loop}


def _uses_lab(function: Any, item: pytest.Item | None = None) -> bool:
    """Whether a test uses the lab, itself or through a fixture."""
    names = getattr(getattr(item, "_fixtureinfo", None), "names_closure", ())
    if "lab" in names:
        return True
    return inspect.iscoroutinefunction(function) and "lab" in inspect.signature(function).parameters


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> None:
    """Mark coroutine tests that use the lab, before pytest-asyncio selects its own tests."""
    if not (inspect.iscoroutinefunction(obj) and collector.funcnamefilter(name)):
        return
    manager = collector.config.pluginmanager
    if not manager.has_plugin(_LOOPS):
        manager.register(_Loops(), _LOOPS)
    if _uses_lab(obj) and not any(mark.name == "asyncio" for mark in getattr(obj, "pytestmark", ())):
        obj.pytestmark = [*getattr(obj, "pytestmark", ()), pytest.mark.asyncio.mark]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what cannot run here, and add the reruns under every plan."""
    for item in items:
        marker = item.get_closest_marker("lab_on")
        if marker is not None and place_of(item) not in marker.args:
            item.add_marker(pytest.mark.skip(reason=f"runs on {' or '.join(marker.args)}, not on {place_of(item)}"))
    if config.getoption("--lab") == "off" and config.getoption("--lab-plan") is None:
        return
    for item in _part(config, [entry for entry in items if entry.get_closest_marker("scenario") is not None]):
        assert isinstance(item, pytest.Function)
        assert item.parent is not None
        name = f"{item.name}[every fault]"
        items.append(Explored.from_parent(item.parent, name=name, test=item, scenario=item.obj, **_options(item)))


def _part(config: pytest.Config, scenarios: list[pytest.Item]) -> list[pytest.Item]:
    """Return the scenarios of the part that `--lab-part` names; neighbours, which take about as long, are in different parts."""
    chosen: tuple[int, int] | None = config.getoption("--lab-part")
    return scenarios if chosen is None else scenarios[chosen[0] - 1 :: chosen[1]]


def _options(item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of the mark `scenario`."""
    marker = item.get_closest_marker("scenario")
    assert marker is not None
    quick = marker.kwargs.get("quick")
    known = not marker.args and marker.kwargs.keys() <= {"foreign", "quick"}
    if not known or not (quick is None or (isinstance(quick, int) and quick > 0)):
        raise pytest.UsageError(
            f"{item.nodeid}: the mark `scenario` takes nothing but foreign=False, for a test that plays other people itself, and "
            "quick=NUMBER, the number of plans of --lab=quick, for one whose plans are dear"
        )
    return {
        "foreign": bool(marker.kwargs.get("foreign", True)),
        "quick": quick,
        "position": None if quick is None else position_of(item),
    }


def position_of(item: pytest.Item) -> int:
    """Return the place of a scenario among the scenarios of its file, whichever tests are selected."""
    assert isinstance(item, pytest.Function)
    scenarios = [
        name
        for name, value in vars(item.module).items()
        if any(mark.name == "scenario" for mark in getattr(value, "pytestmark", ()))
    ]
    return scenarios.index(item.originalname) if item.originalname in scenarios else 0


def _timeout(config: pytest.Config) -> float | None:
    """Return the limit of pytest-timeout for a rerun under every plan: the configured limit, or more if the budget needs more.

    None if the project sets no limit.
    """
    plugin = config.pluginmanager.getplugin("timeout")
    configured = None if plugin is None else plugin.get_env_settings(config).timeout
    if not configured:
        return None
    from konverge_testing.lab.explore import BUDGET

    option = config.option
    budget = option.lab_budget if option.lab_budget is not None else BUDGET if option.lab == "full" else None
    wall = _QUICK_SECONDS if budget is None else _WALL_PER_CPU * budget
    return max(float(configured), wall + _SLACK)


class Explored(pytest.Item):
    """A test that is rerun under every plan; it fails if one of these runs fails."""

    def __init__(
        self,
        *,
        test: pytest.Item,
        scenario: Callable[[Lab], Any],
        foreign: bool,
        quick: int | None,
        position: int | None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._test = test
        self._scenario = scenario
        self._foreign = foreign
        self._quick = quick
        self._position = position
        limit = _timeout(self.config)
        if limit is not None:
            self.add_marker(pytest.mark.timeout(limit))

    def runtest(self) -> None:
        from konverge.errors import UsageError
        from konverge_testing.lab import Plan, explore

        if list(inspect.signature(self._scenario).parameters) != ["lab"]:
            pytest.fail(
                "a test that is marked `scenario` takes `lab` and nothing else, since it is run many times",
                pytrace=False,
            )
        if self._test.stash.get(_FAILED, False):
            pytest.fail(f"not rerun: {self._test.name} fails without a fault, see there", pytrace=False)
        options = self.config.option
        try:
            only = None if options.lab_plan is None else [Plan.from_json(options.lab_plan.read_bytes())]
        except (OSError, ValueError) as error:
            pytest.fail(f"--lab-plan {options.lab_plan}: {error}", pytrace=False)
        try:
            report = explore(
                self._scenario,
                mode="full" if options.lab == "full" else "quick",
                seed=options.lab_seed,
                budget=options.lab_budget,
                prune=not options.lab_no_prune,
                workers=options.lab_workers or ((os.cpu_count() or 1) if options.lab == "full" else 1),
                only=only,
                foreign=self._foreign,
                quick=self._quick,
                position=self._position,
            )
        except UsageError as error:
            pytest.fail(str(error), pytrace=False)
        self.add_report_section("call", "lab", report.listing())
        self.user_properties.append(("lab", report.line()))
        if report.shortfall:
            in_ci = " (with CI=true this is a failure)" * bool(report.left)
            self.user_properties.append((_SHORTFALL, f"{report.shortfall}{in_ci}"))
        if not report.passed:
            pytest.fail(report.text(), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of plans that ran, by scenario."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, line in getattr(report, "user_properties", ()):
                if getattr(report, "when", "") != "call":
                    continue
                if name == "lab":
                    terminalreporter.write_line(f"lab: {report.nodeid}: {line}")
                elif name == _SHORTFALL:
                    terminalreporter.write_sep("!", f"lab: INCOMPLETE: {report.nodeid}", yellow=True, bold=True)
                    terminalreporter.write_line(f"lab: {line}", yellow=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the status for `pytest_unconfigure`."""
    session.config.stash[_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process without waiting for a thread that never returned: the interpreter would wait for ever.

    A pytest that runs within a test of an outer pytest does not end the outer process.
    """
    loaded = "konverge_testing.loop" in sys.modules
    if not loaded or "PYTEST_CURRENT_TEST" in os.environ or _STATUS not in config.stash:
        return
    from konverge_testing.loop import ABANDONED

    if any(thread.name.endswith(ABANDONED) for thread in threading.enumerate()):
        config.get_terminal_writer().flush()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[_STATUS])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep the failure of a scenario, so that its rerun under every plan does not print it again."""
    if call.excinfo is not None and item.get_closest_marker("scenario") is not None:
        item.stash[_FAILED] = True


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a finished test if the program under test made mistakes, and a hanging test with only the reason."""
    manifest = pyfuncitem.stash.get(_LABS, None)
    if manifest is None:
        return (yield)
    from konverge_testing.lab.findings import Mistakes
    from konverge_testing.loop import Deadlock, Livelock

    lab, loop = manifest
    try:
        result = yield
        loop.run_until_complete(lab.verify())
        return result
    except Mistakes as error:
        why = str(error)
    except (Deadlock, Livelock) as error:
        _cancel_everything(loop)
        why = f"the test hangs: {error}"
    except BaseException:
        lab.dismiss()
        raise
    lab.dismiss()
    pytest.fail(why, pytrace=False)


def _cancel_everything(loop: asyncio.AbstractEventLoop) -> None:
    """End the tasks of a test that hangs, so that its fixtures can be torn down."""
    from konverge_testing.loop import Deadlock, Livelock

    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(Deadlock, Livelock):
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_SECONDS))


@pytest.fixture
def _lab_place(request: pytest.FixtureRequest) -> tuple[str, Path | None, str]:
    """Where this test's lab runs; starts the control plane if the lab runs there."""
    place = place_of(request.node)
    if place == CONTROL_PLANE:
        return place, request.getfixturevalue("admin_kubeconfig"), request.getfixturevalue("namespace")
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:30].strip("-")
    return place, None, slug


@pytest_asyncio.fixture
async def lab(request: pytest.FixtureRequest, _lab_place: tuple[str, Path | None, str]) -> AsyncIterator[Lab]:
    """A `Lab` in a namespace of the test's own; its managers are stopped at the end."""
    from konverge_testing.lab import environments

    place, kubeconfig, namespace = _lab_place
    seed = request.config.getoption("--lab-seed")
    if place == MEMORY:
        around = environments.memory_lab(seed=seed)
    elif place == CONTROL_PLANE:
        assert kubeconfig is not None
        around = environments.control_plane_lab(kubeconfig, namespace)
    else:
        install = bool(request.config.getoption("--lab-install-crds"))
        around = environments.cluster_lab(namespace, random=Random(), install=install)  # noqa: S311  # a name, no secret
    async with around as manifest:
        request.node.stash[_LABS] = (manifest, asyncio.get_running_loop())
        yield manifest
