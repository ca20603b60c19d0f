"""The Jobs of a CronJob: how a Job is created, and what a stored Job reports (docs/tutorial/reconcile.md)."""

from datetime import datetime

import konverge as kv
from konverge.clock import rfc3339
from tutorial.model import CronJob

JOB = kv.kind("batch/v1", "Job")
DUE = "tutorial.example.com/scheduled-at"


def job_of(cron: CronJob, due: datetime) -> kv.Object:
    """Return the Job of a due time. Its name depends only on that time, so no reconcile creates a second Job."""
    name = f"{cron.name}-{int(due.timestamp())}"
    return JOB.new(name, cron.namespace, annotations={DUE: rfc3339(due)}, spec=cron.spec.job_template.spec)


def due_of(job: kv.Object) -> str:
    """Return the due time of a Job."""
    return (job.metadata.annotations or {})[DUE]


def result_of(job: kv.Object) -> str | None:
    """Return "Complete" or "Failed", or None if the Job still runs."""
    return next((c.type for c in job.conditions if c.type in ("Complete", "Failed") and c.is_true), None)
