"""The due times of Jobs, as functions of the spec and the present time (docs/tutorial/clock.md)."""

from datetime import UTC, datetime, timedelta

from tutorial.model import CronJobSpec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def last_due(spec: CronJobSpec, created: datetime, now: datetime) -> datetime | None:
    """Return the last due time, or None if it precedes the CronJob or if the deadline has passed."""
    due = now - (now - EPOCH) % timedelta(minutes=spec.every_minutes)
    deadline = spec.starting_deadline_seconds
    if due <= created or (deadline is not None and now - due > timedelta(seconds=deadline)):
        return None
    return due


def seconds_until_next(spec: CronJobSpec, now: datetime) -> float:
    """Return the seconds until the next due time."""
    period = timedelta(minutes=spec.every_minutes)
    return (period - (now - EPOCH) % period).total_seconds()
