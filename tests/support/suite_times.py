"""The time and the CPU time of a test run by folder, and its slowest tests. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

DEPTH = 2
"""Parts of a path that name a folder: `tests/unit`, `tests/e2e`."""
SLOWEST = 10


def folder_of(nodeid: str) -> str:
    """Return the folder of a test, at most as deep as the table goes."""
    return "/".join(PurePosixPath(nodeid.partition("::")[0]).parts[:-1][:DEPTH]) or "."


def lines(phases: Iterable[tuple[str, float, float]], *, slowest: int = SLOWEST) -> list[str]:
    """Return the table of folders and the slowest tests, given a test, its seconds and its seconds of CPU for each set-up, call and end."""
    by_test, folders, tests = defaultdict[str, _Spent](_Spent), defaultdict[str, _Spent](_Spent), Counter[str]()
    for nodeid, seconds, cpu in phases:
        by_test[nodeid].add(seconds, cpu)
    whole = _Spent()
    for nodeid, spent in by_test.items():
        folders[folder_of(nodeid)].add(spent.seconds, spent.cpu)
        tests[folder_of(nodeid)] += 1
        whole.add(spent.seconds, spent.cpu)
    slow = sorted(by_test.items(), key=lambda one: -one[1].seconds)[:slowest]
    return [
        "seconds      CPU  tests  folder",
        *(
            f"{spent}  {tests[folder]:5}  {folder}"
            for folder, spent in sorted(folders.items(), key=lambda one: -one[1].seconds)
        ),
        f"{whole}  {len(by_test):5}  all, summed over the processes",
        "",
        f"seconds      CPU  the {len(slow)} slowest tests",
        *(f"{spent}  {nodeid}" for nodeid, spent in slow),
    ]


@dataclass(slots=True)
class _Spent:
    seconds: float = 0.0
    cpu: float = 0.0

    def add(self, seconds: float, cpu: float) -> None:
        self.seconds += seconds
        self.cpu += cpu

    def __str__(self) -> str:
        return f"{self.seconds:7.1f}  {self.cpu:7.1f}"
