"""`CpuBudget`: the CPU time that the processes of an exploration may use, summed over all of them.

A budget of real time would let a busy machine decide how many plans run. The sum is kept in memory that forked processes share: each batch
of plans has a slot, and only one process at a time works on a batch (an original waits for its copy), so no lock is needed, and the death
of a process leaves none locked.

Caveats: a plan that runs when the budget ends is finished.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

from konverge.clock import cpu_time

__all__ = ["CpuBudget"]

_WORD: Final = 8


class CpuBudget:
    """CPU seconds for `workers` processes, `seconds` for each. The creating process has used part of its own already."""

    def __init__(self, seconds: float, *, workers: int = 1, slots: int = 0, used: float = 0.0) -> None:
        self._allowed = seconds * max(workers, 1)
        self._memory = mmap.mmap(-1, _WORD * (slots + 1))
        self._sums = memoryview(self._memory).cast("d")
        self._sums[slots] = used
        self._slot = slots
        self._process, self._counted = os.getpid(), cpu_time()

    def work_on(self, slot: int) -> None:
        """Count the time of this process, and of the copies of it, to a slot from here on."""
        self._count()
        self._slot = slot

    def used(self) -> float:
        """Return the seconds that all processes have used."""
        self._count()
        return sum(self._sums)

    def left(self) -> bool:
        """Return whether another plan may begin."""
        return self.used() <= self._allowed

    def _count(self) -> None:
        now, process = cpu_time(), os.getpid()
        if process != self._process:  # the clock of a copy begins at 0
            self._process, self._counted = process, 0.0
        self._sums[self._slot] += now - self._counted
        self._counted = now
