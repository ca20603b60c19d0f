"""The capacity of the journal: it is one Secret, and a control plane may have any number of jobs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from konverge.reconcilers.clusters.journal import Journal, JournalEntry

__all__ = ["Room"]

MOST_WAITING: Final = 200
"""Jobs that wait for another attempt, in addition to newly accepted jobs."""
JOURNAL_BYTES: Final = 512 * 1024
"""Bytes of unfinished jobs in the journal; with the tried and the finished jobs this stays below the size limit of a Secret."""
TRIED_BYTES: Final = 88 * 1024
"""Bytes beyond these for a job that is tried while the journal is full."""


@dataclass(frozen=True, slots=True)
class Room:
    """The capacity of a journal; `most_pending` jobs are accepted at once, at most."""

    most_pending: int

    def fits(self, journal: Journal, fresh: tuple[JournalEntry, ...]) -> bool:
        """Tell whether the journal has room for these entries; jobs without room are not acknowledged, so they are delivered again."""
        whole = journal.accepted(fresh)
        # The other entries wait for another attempt, or behind an entry that does.
        return (
            len(fresh) <= self.most_pending
            and len(whole.entries) <= self.most_pending + MOST_WAITING
            and whole.size() <= JOURNAL_BYTES
        )

    def fits_for_a_try(self, journal: Journal, entry: JournalEntry) -> bool:
        """Tell whether the journal has room for a job during its try, but not for another waiting job."""
        whole = journal.accepted((entry,))
        return (
            len(whole.entries) <= 2 * self.most_pending + MOST_WAITING and whole.size() <= JOURNAL_BYTES + TRIED_BYTES
        )
