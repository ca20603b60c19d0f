"""The time and the CPU time of a test run by folder and by family, its slowest tests, and the tests with the most CPU time. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

DEPTH = 2
"""Parts of a path that name a folder: `tests/unit`, `tests/e2e`."""
FAMILIES = ("apps", "operations", "clusters", "quota", "pools", "machines", "workspaces")
"""A folder or a file of tests is a family's if it has its name: `pools/`, `test_pools.py`, `test_pools_crds.py`."""
SLOWEST = 10


def folder_of(nodeid: str) -> str:
    """Return the folder of a test, at most as deep as the table."""
    return "/".join(PurePosixPath(nodeid.partition("::")[0]).parts[:-1][:DEPTH]) or "."


def family_of(nodeid: str) -> str:
    """Return the family of a test, "" if it has none: it is then the library's, or of the daemon that hosts all families.

    >>> family_of("tests/e2e/test_pools_crds.py::test_one"), family_of("tests/unit/test_poolside.py::test_pools")
    ('pools', '')
    """
    *folders, file = PurePosixPath(nodeid.partition("::")[0]).parts
    words = file.removeprefix("test_").removesuffix(".py")
    return next((name for name in FAMILIES if name in folders or f"{words}_".startswith(f"{name}_")), "")


def lines(phases: Iterable[tuple[str, float, float]], *, slowest: int = SLOWEST) -> list[str]:
    """Return the tables of folders, families and tests that take longest, given a test, its seconds and its CPU seconds for each set-up, call and end."""
    by_test = _by_test(phases)
    whole = _Spent()
    for spent in by_test.values():
        whole.add(spent.seconds, spent.cpu)
    slow = sorted(by_test.items(), key=lambda one: -one[1].seconds)[:slowest]
    busy = sorted(by_test.items(), key=lambda one: -one[1].cpu)[:slowest]
    return [
        "seconds      CPU  tests  folder",
        *_table(by_test, folder_of),
        f"{whole}  {len(by_test):5}  all, summed over the processes",
        "",
        "seconds      CPU  tests  family",
        *_table(by_test, lambda nodeid: family_of(nodeid) or "none: the library, the daemon"),
        "",
        f"seconds      CPU  the {len(slow)} slowest tests",
        *(f"{spent}  {nodeid}" for nodeid, spent in slow),
        "",
        f"seconds      CPU  the {len(busy)} tests that take most CPU time",
        *(f"{spent}  {nodeid}" for nodeid, spent in busy),
    ]


def totals(phases: Iterable[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """Return the seconds and the CPU seconds of each test, as the sum of its set-up, call and teardown.

    >>> totals([("a", 1.0, 0.5), ("b", 1.0, 1.0), ("a", 2.0, 0.5)])
    [('a', 3.0, 1.0), ('b', 1.0, 1.0)]
    """
    return [(nodeid, spent.seconds, spent.cpu) for nodeid, spent in _by_test(phases).items()]


def _by_test(phases: Iterable[tuple[str, float, float]]) -> dict[str, _Spent]:
    by_test = defaultdict[str, _Spent](_Spent)
    for nodeid, seconds, cpu in phases:
        by_test[nodeid].add(seconds, cpu)
    return by_test


def _table(by_test: Mapping[str, _Spent], group_of: Callable[[str], str]) -> list[str]:
    groups, tests = defaultdict[str, _Spent](_Spent), Counter[str]()
    for nodeid, spent in by_test.items():
        groups[group_of(nodeid)].add(spent.seconds, spent.cpu)
        tests[group_of(nodeid)] += 1
    order = sorted(groups.items(), key=lambda one: -one[1].seconds)
    return [f"{spent}  {tests[group]:5}  {group}" for group, spent in order]


@dataclass(slots=True)
class _Spent:
    seconds: float = 0.0
    cpu: float = 0.0

    def add(self, seconds: float, cpu: float) -> None:
        self.seconds += seconds
        self.cpu += cpu

    def __str__(self) -> str:
        return f"{self.seconds:7.1f}  {self.cpu:7.1f}"
