"""When an Operation that has ended is deleted. Guarantees: pure; the objects of engines do not matter."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.moments import moment
from konverge.reconcilers.apps.operations.waiting.conflicts import Contestant

__all__ = ["beyond_limit", "expiry"]


def expiry(operation: Operation, now: datetime) -> datetime | None:
    """Return when its ttl ends, None without a ttl."""
    ttl, end = operation.spec.ttl_seconds_after_finished, operation.status.finished_at
    if ttl is None or end is None or operation.deleting:
        return None
    return moment(end, now, otherwise=operation.metadata.created or now) + timedelta(seconds=ttl)


def beyond_limit(operation: Operation, ended: Iterable[Contestant], limit: int | None) -> bool:
    """Tell whether at least `limit` Operations of the target ended after this Operation."""
    if limit is None or operation.deleting:
        return False
    ends = sorted(((other.finished, other.uid) for other in ended if other.finished is not None), reverse=True)
    return operation.metadata.uid in {uid for _, uid in ends[limit:]}
