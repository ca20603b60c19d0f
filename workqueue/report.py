"""Statistics of the queue, and for each key why it waits, as frozen data.

Times are the loop's; `in_seconds` and `seconds` are relative to the time of the report, so they can be read without the loop.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

import msgspec

from konverge.workqueue.entry import WaitReason, join_reasons

__all__ = ["Snapshot", "Statistics", "Waiting", "Working"]

K = TypeVar("K", bound=Hashable)


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The queue in figures.

    `ready` entries wait for a worker, `held` entries for the end of their key's running work, `delayed` entries for their time; `depth`
    counts ready and held entries by priority. `working` keys are in work, `getters` tasks wait in `get`. `failing` keys failed and
    were not forgotten since. `adds` and `retries` count as the metrics do. `refused` counts adds after shut-down, `dropped` the
    entries that were delayed at shut-down. `unfinished_work_seconds` is the sum of the ages of all work, `longest_running_seconds`
    the greatest of them.
    """

    ready: int
    held: int
    delayed: int
    working: int
    getters: int
    depth: Mapping[int, int]
    failing: int
    adds: int
    retries: int
    refused: int
    dropped: int
    unfinished_work_seconds: float
    longest_running_seconds: float
    shutting_down: bool


class Waiting(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """A waiting key: the time of its next run, why it waits, and the reasons of the run.

    `next_at` is the earliest time of the next run, `in_seconds` the time until then (0 if the key is ready). `in_work` means that the key
    is in work, so that the next run also waits for `done`.

    >>> print(Waiting(key="a", next_at=9.0, in_seconds=4.0, wait=WaitReason.BACKOFF, priority=0, reasons=("retry",), more=0,
    ...               added_at=1.0, failures=2, in_work=False))
    a runs in 4 s (waits for its retry after a failure; failures: 2) because of: retry
    """

    key: K
    next_at: float
    in_seconds: float
    wait: WaitReason
    priority: int
    reasons: tuple[str, ...]
    more: int
    added_at: float
    failures: int
    in_work: bool

    @property
    def why(self) -> str:
        """The reasons as one phrase."""
        return join_reasons(self.reasons, self.more)

    def __str__(self) -> str:
        failures = f"; failures: {self.failures}" if self.failures else ""
        return f"{self.key} runs in {self.in_seconds:.3g} s (waits for {self.wait}{failures}) because of: {self.why}"


class Working(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """A key in work: its start, its reasons, and whether it will run again."""

    key: K
    since: float
    seconds: float
    priority: int
    reasons: tuple[str, ...]
    more: int
    again: bool

    @property
    def why(self) -> str:
        """The reasons as one phrase."""
        return join_reasons(self.reasons, self.more)


class Snapshot(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """The queue at one moment: the waiting keys in the expected order of their runs, and the keys in work.

    `left_out` counts the waiting keys beyond the limit of the call.
    """

    now: float
    waiting: tuple[Waiting[K], ...]
    working: tuple[Working[K], ...]
    left_out: int
