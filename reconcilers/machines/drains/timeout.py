"""The end of a drain whose pods do not leave in time. Pure.

The drain gives up shortly before the server deletes the instance. It then cordons the Node if no check has cordoned it, reports the pods
that are left, and is acknowledged like any other drain. The server deletes the instance with these pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from konverge.reconcilers.machines.drains.decide import NodeReport
from konverge.reconcilers.machines.words import MachinesEvent

__all__ = ["CORDON_SECONDS", "DrainTimes", "drain_times", "timeout_report"]

CORDON_SECONDS = 5.0
"""The limit of the cordon of a Node whose drain has no time left."""


@dataclass(frozen=True, slots=True)
class DrainTimes:
    """The times of a drain, in seconds from now; a negative time is past."""

    give_up: float
    """The drain waits for pods until this time."""
    delete: float
    """The server deletes the instance at this time."""


def drain_times(delete_at: datetime | None, now: datetime, *, timeout: float, margin: float) -> DrainTimes:
    """Return the times of a drain. `timeout` holds if the server names no time of the deletion; `margin` is at most a quarter of the drain.

    >>> from konverge.clock import from_rfc3339
    >>> now, then = from_rfc3339("2026-01-01T00:00:00Z"), from_rfc3339("2026-01-01T00:00:20Z")
    >>> drain_times(then, now, timeout=300, margin=15), drain_times(None, now, timeout=300, margin=15)
    (DrainTimes(give_up=15.0, delete=20.0), DrainTimes(give_up=285, delete=300))
    """
    left = timeout if delete_at is None else (delete_at - now).total_seconds()
    return DrainTimes(left - min(margin, max(left, 0.0) / 4), left)


def timeout_report(pods_left: int) -> NodeReport:
    """Return the Event of a drain that timed out; `pods_left` is the number of pods at the last check."""
    message = f"{pods_left} pods are left, and the instance is about to be deleted"
    return NodeReport(MachinesEvent.DRAIN_TIMED_OUT, message, warning=True)
