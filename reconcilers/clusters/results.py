"""The results of jobs that end without being carried out now: repeated or expired. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from konverge.reconcilers.clusters.jobs import Task
from konverge.reconcilers.clusters.journal import Finished, JournalEntry
from konverge.reconcilers.clusters.protocol import JobResult, Outcome
from konverge.reconcilers.clusters.words import JobReason

__all__ = ["expired", "repetition"]


def repetition(known: JournalEntry | Finished | None, job_id: str, key: str, now: datetime) -> JobResult:
    """Return the result of a job whose key is known: its own once more, or noop for another job of the same key."""
    if isinstance(known, Finished) and known.job_id == job_id:
        return JobResult(
            idempotency_key=key,
            outcome=known.outcome,
            reason=known.reason,
            finished_at=datetime.fromtimestamp(known.at, UTC),
        )
    return JobResult(
        idempotency_key=key,
        outcome=Outcome.NOOP,
        reason=JobReason.DUPLICATE,
        message="another job with this idempotency key was accepted before",
        finished_at=now,
    )


def expired(task: Task, message: str, now: datetime) -> JobResult:
    """Return the result of a job whose tries lasted until it expired; `message` is why it was not carried out."""
    return JobResult(
        idempotency_key=task.job.idempotency_key,
        outcome=Outcome.FAILED,
        reason=JobReason.EXPIRED,
        message=message,
        object=task.reference,
        finished_at=now,
    )
