"""The pytest plugin: fixtures on a real control plane, and what happens if there is none.

Guarantees
- Nothing happens in a test run that uses none of it: importing this file imports pytest only.
- `control_plane` is one plane for the whole session (one per worker under xdist), started for the first test that uses it,
  usable from any event loop. It runs kube-controller-manager too if that program is on the machine, so that owners'
  children are collected and namespaces are removed. A test that needs another configuration, or breaks the plane, enters a
  `ControlPlane` of its own.
- Tests that are marked `control_plane`, or use a fixture of the plane, are skipped with one line of reason if etcd
  and kube-apiserver are not on the machine; the end of the run reports how many. With `KONVERGE_REQUIRE_CONTROL_PLANE=1` they
  fail instead.
- `KONVERGE_NO_CONTROL_PLANE=1`: the run ignores the programs, as if they were not installed.

Fixtures: `control_plane`, `admin_kubeconfig`, `namespace`; where pytest-asyncio is loaded, also `admin` and `client_for`
(`konverge_testing.clients`), and `lab` (`konverge_testing.labs`). Without pytest-asyncio `lab` fails with what is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from konverge_testing.binaries import Binaries
    from konverge_testing.control_plane import ControlPlane

__all__ = ["DECLINE_VARIABLE", "REQUIRE_VARIABLE", "admin_kubeconfig", "control_plane", "namespace"]

REQUIRE_VARIABLE = "KONVERGE_REQUIRE_CONTROL_PLANE"
DECLINE_VARIABLE = "KONVERGE_NO_CONTROL_PLANE"
_LOOP_SCOPE = "asyncio_default_fixture_loop_scope"
_MARKER = "control_plane"
_MISSING = pytest.StashKey[str]()
_FOUND = pytest.StashKey[str]()
_SUMMARY = "no control plane: "


def _part_of(text: str) -> tuple[int, int]:
    """Return the two numbers of PART/PARTS."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not PART/PARTS with PART from 1 to PARTS, such as 1/4")
    return int(match[1]), int(match[2])


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("konverge lab")
    group.addoption(
        "--lab-on",
        choices=("memory", "control-plane", "kubeconfig"),
        default="memory",
        help="where tests that ask for `lab` run (default: memory)",
    )
    group.addoption(
        "--lab",
        choices=("off", "quick", "full"),
        default="off",
        help="rerun tests marked `scenario` under plans of faults",
    )
    group.addoption("--lab-seed", type=int, default=0, help="the seed of the order of plans, and of random ones")
    group.addoption(
        "--lab-plan", type=Path, default=None, help="rerun tests marked `scenario` under the plan in this file alone"
    )
    group.addoption(
        "--lab-part",
        type=_part_of,
        default=None,
        metavar="PART/PARTS",
        help="rerun only this part of the scenarios, 1/4 for the first of four; a scenario is in one part",
    )
    group.addoption(
        "--lab-budget",
        type=float,
        default=None,
        help="seconds of CPU for the plans of one scenario (quick: 60 plans instead, full: 900)",
    )
    group.addoption(
        "--lab-workers",
        type=int,
        default=0,
        help="processes for the plans of one scenario (0: as many as cores for full, else one)",
    )
    group.addoption("--lab-no-prune", action="store_true", help="run the plans that cannot matter, too")
    group.addoption(
        "--lab-install-crds", action="store_true", help="on a kubeconfig's cluster: install the CRDs of what is tested"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # konverge[testing] installs pytest-asyncio, so a project may not configure it; pytest-asyncio warns about that in each run.
    # The filter ends with the configuration of pytest, inside which this runs; the loops of fixtures stay as they are.
    warnings.filterwarnings("ignore", message=f'The configuration option "{_LOOP_SCOPE}" is unset')
    config.addinivalue_line(
        "markers", "control_plane: needs a real kube-apiserver and etcd; skipped where there are none"
    )
    if config.pluginmanager.hasplugin("asyncio"):
        from konverge_testing import clients, labs

        config.pluginmanager.register(clients, "konverge-clients")
        config.pluginmanager.register(labs, "konverge-lab")
    else:
        from konverge_testing import without_asyncio

        config.pluginmanager.register(without_asyncio, "konverge-without-asyncio")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Find the programs once, and only if a collected test needs them."""
    needing = [item for item in items if _needs_control_plane(item)]
    if not needing:
        return
    programs = _find_programs()
    if not isinstance(programs, str):
        config.stash[_FOUND] = programs.describe()
        return
    config.stash[_MISSING] = programs
    if not _required():
        skip = pytest.mark.skip(reason=programs)
        for item in needing:
            item.add_marker(skip)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Print once which control plane the tests run on."""
    result = config.stash.get(_FOUND, "")
    return [result] if result else []


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail, in a run that requires a control plane, what would be skipped elsewhere."""
    missing = item.config.stash.get(_MISSING, "")
    if missing and _required() and _needs_control_plane(item):
        _give_up(missing)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the number of tests that were skipped without a control plane."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)]
    ours = [reason for reason in reasons if _SUMMARY in reason]
    if ours:
        line = f"{len(ours)} skipped for want of a control plane: {ours[0].partition(_SUMMARY)[2]}"
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane for the whole session, with controllers if kube-controller-manager is on the machine."""
    from konverge_testing.config import ControlPlaneConfig
    from konverge_testing.control_plane import ControlPlane

    programs = _find_programs()
    if isinstance(programs, str):
        _give_up(programs)
    controllers = programs.kube_controller_manager is not None
    with ControlPlane(ControlPlaneConfig(controllers=controllers, binaries=programs)) as plane:
        yield plane


@pytest.fixture(scope="session")
def admin_kubeconfig(control_plane: ControlPlane) -> Path:
    """The administrator's kubeconfig of the session's control plane."""
    return control_plane.kubeconfig


@pytest.fixture(scope="session")
def _namespace_numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture(scope="module")
def _namespaces_left(control_plane: ControlPlane) -> Iterator[set[str]]:
    left: set[str] = set()
    yield left
    control_plane.blocking.api.let_go(left)


@pytest.fixture
def namespace(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    _namespace_numbers: Iterator[int],
    _namespaces_left: set[str],
) -> Iterator[str]:
    """The name of a fresh namespace; its removal is requested at the end of the test and not waited for.

    At the end of the module, the finalizers of its remaining objects are removed, so that the namespace can be deleted.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{slug}-{next(_namespace_numbers)}"
    control_plane.blocking.api.create_namespace(name)
    yield name
    control_plane.blocking.api.delete_namespace(name)
    _namespaces_left.add(name)


def _needs_control_plane(item: pytest.Item) -> bool:
    return item.get_closest_marker(_MARKER) is not None


def _required() -> bool:
    return os.environ.get(REQUIRE_VARIABLE, "") not in ("", "0")


def _give_up(missing: str) -> NoReturn:
    """End a test that has no control plane: a failure if one is required, else a skip."""
    if _required():
        pytest.fail(f"{missing} ({REQUIRE_VARIABLE} is set)", pytrace=False)
    pytest.skip(missing)


def _find_programs() -> Binaries | str:
    """Return the programs, or one line with the reason for their absence."""
    if os.environ.get(DECLINE_VARIABLE, "") not in ("", "0"):
        return f"{_SUMMARY}{DECLINE_VARIABLE} is set"
    from konverge_testing.binaries import find_binaries
    from konverge_testing.failures import BinariesMissing

    try:
        return find_binaries(os.environ)
    except BinariesMissing as error:
        return str(error)
