"""Which jobs are given up: if the journal is full, the oldest jobs that have waited too long for another attempt. Pure.

The oldest job is given up first, so of two jobs of one object the younger stays.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from konverge.reconcilers.clusters.attempts import Attempts
from konverge.reconcilers.clusters.journal import Journal, JournalEntry
from konverge.reconcilers.clusters.protocol import JobResult, Outcome
from konverge.reconcilers.clusters.words import JobReason

__all__ = ["given_up", "job_to_give_up"]


def job_to_give_up(journal: Journal, attempts: Attempts, patience: timedelta, now: float) -> JournalEntry | None:
    """Return the oldest job of the journal that got its place at least `patience` ago, or None; `now` is in seconds of the loop."""
    return attempts.first_placed_by(now - patience.total_seconds(), journal.entries)


def given_up(entry: JournalEntry, now: datetime) -> JobResult:
    """Return the result of a job that waited so long for another attempt that other jobs get its place."""
    return JobResult(
        idempotency_key=entry.key,
        outcome=Outcome.FAILED,
        reason=JobReason.GIVEN_UP,
        message="the API server did not carry it out, and other jobs need its place in the journal",
        finished_at=now,
    )
