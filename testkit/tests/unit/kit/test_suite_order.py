"""The processes of a test run share the tests so that no process waits at the end for a long test."""

from pathlib import Path

import pytest
from suite_order import LONG, chosen, is_filler, unit_of

ROOT = Path(__file__).parents[4]
TRUTH = "tests/scenarios/apps/test_truth.py"
UNITS = [
    "tests/e2e/test_events.py",
    "tests/e2e/test_daemon.py",
    "tests/unit/test_logs.py",
    TRUTH,
    f"{TRUTH}::test_a[every fault]",
    "testkit/tests/unit/kit/test_plugin.py",
]


def order(*, filler: bool) -> list[str]:
    left, found = list(UNITS), []
    while left:
        found.append(chosen(left, filler=filler))
        left.remove(found[-1])
    return found


def test_a_process_that_waits_begins_with_control_planes_and_the_longest() -> None:
    assert order(filler=False) == [UNITS[1], UNITS[0], UNITS[4], UNITS[3], UNITS[5], UNITS[2]]


def test_filler_starts_with_cpu_bound_tests_and_ends_with_the_rest() -> None:
    assert order(filler=True) == [UNITS[4], UNITS[3], UNITS[5], UNITS[2], UNITS[1], UNITS[0]]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("testkit/tests/conformance/test_cases.py::test_a[pods: one]", "testkit/tests/conformance/"),
        ("tests/e2e/test_daemon.py::test_a[x::y]", "tests/e2e/test_daemon.py"),
        (f"{TRUTH}::test_a", TRUTH),
        (f"{TRUTH}::test_a[every fault]", f"{TRUTH}::test_a[every fault]"),
        (f"{TRUTH}::test_b[one]", TRUTH),
    ],
)
def test_file_runs_in_one_process_and_scenario_reruns_in_any(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


@pytest.mark.parametrize(
    ("worker", "workers", "filler"), [("gw0", 1, False), ("gw0", 2, False), ("gw1", 2, True), ("gw3", 4, True)]
)
def test_the_last_of_several_processes_is_the_filler(worker: str, workers: int, filler: bool) -> None:
    assert is_filler(worker, workers) == filler


def test_each_name_of_what_takes_long_is_a_file_or_a_folder() -> None:
    assert [name for name in LONG if not (ROOT / name.removesuffix("::")).exists()] == []
