"""The decision: which Jobs to delete, and which Job to start (docs/tutorial/reconcile.md)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import konverge as kv
from konverge.clock import from_rfc3339, rfc3339
from tutorial.clock import last_due
from tutorial.jobs import due_of, result_of
from tutorial.model import CronJob


@dataclass(frozen=True, slots=True)
class Decision:
    deletes: tuple[kv.Object, ...]
    due: datetime | None
    """The due time of the Job to start, if any."""
    active: tuple[str, ...]
    last: str
    """The due time of the last Job that was started; empty if no Job was started yet."""


def decide(cron: CronJob, stored: Iterable[kv.Object], now: datetime) -> Decision:
    """Return what to do, from the CronJob, its stored Jobs and the time: no event loop and no server is needed to test it."""
    jobs = sorted(stored, key=due_of)
    active = [job for job in jobs if result_of(job) is None]
    deletes = [
        *surplus(jobs, "Complete", cron.spec.successful_jobs_history_limit),
        *surplus(jobs, "Failed", cron.spec.failed_jobs_history_limit),
    ]
    last = max([cron.status.last_schedule_time or "", *map(due_of, jobs)])
    due = last_due(cron.spec, from_rfc3339(cron.metadata.creation_timestamp or ""), now)
    if due is None or cron.spec.suspend or rfc3339(due) <= last:
        due = None
    elif active and cron.spec.concurrency_policy == "Forbid":
        due = None  # the end of the active Job enqueues the CronJob
    elif cron.spec.concurrency_policy == "Replace":
        deletes += active
    return Decision(tuple(deletes), due, tuple(job.name for job in active), rfc3339(due) if due else last)


def surplus(jobs: list[kv.Object], result: str, limit: int) -> list[kv.Object]:
    """Return the oldest Jobs with a result, beyond the newest Jobs up to a limit."""
    finished = [job for job in jobs if result_of(job) == result]
    return finished[: max(0, len(finished) - limit)]
