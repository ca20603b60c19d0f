"""The time of a test run by folder, and its slowest tests. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

DEPTH = 2
"""Parts of a path that name a folder: `tests/unit`, `tests/e2e`."""
SLOWEST = 10


def folder_of(nodeid: str) -> str:
    """Return the folder of a test, at most as deep as the table goes."""
    return "/".join(PurePosixPath(nodeid.partition("::")[0]).parts[:-1][:DEPTH]) or "."


def lines(phases: Iterable[tuple[str, float]], *, slowest: int = SLOWEST) -> list[str]:
    """Return the table of folders and the slowest tests, given a test and its seconds for each set-up, call and end."""
    seconds, times, tests = defaultdict[str, float](float), defaultdict[str, float](float), Counter[str]()
    for nodeid, spent in phases:
        seconds[nodeid] += spent
    for nodeid, spent in seconds.items():
        times[folder_of(nodeid)] += spent
        tests[folder_of(nodeid)] += 1
    slow = sorted(seconds.items(), key=lambda one: -one[1])[:slowest]
    return [
        "seconds  tests  folder",
        *(
            f"{spent:7.1f}  {tests[folder]:5}  {folder}"
            for folder, spent in sorted(times.items(), key=lambda one: -one[1])
        ),
        f"{sum(times.values()):7.1f}  {len(seconds):5}  all, summed over the processes",
        "",
        f"seconds  the {len(slow)} slowest tests",
        *(f"{spent:7.1f}  {nodeid}" for nodeid, spent in slow),
    ]
