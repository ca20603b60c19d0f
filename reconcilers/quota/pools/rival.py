"""The status that this process wrote last: if another process overwrites it, the pool pauses, so that two daemons with unlike caches do not
spin.

Guarantees: no I/O, and a hint only: a restart forgets the status, and the first reconcile does not pause.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from konverge.crds.quota_v1beta2 import ResourcePoolStatus
from konverge.reconcilers.quota.views import PoolRecord
from konverge.reconcilers.shared.delays import SHORTEST_WAIT

__all__ = ["WrittenStatuses", "outline"]

Outline: TypeAlias = tuple[object, ...]

_PAUSE: Final = 0.25
"""Seconds between two reconciles of a pool whose status another process writes."""


def outline(status: ResourcePoolStatus, record: PoolRecord) -> Outline:
    """Return the part of a pool's status that is compared."""
    return (
        status.namespaces,
        status.allocation,
        dict(status.exhaustions),
        dict(status.releasing),
        dict(record.claims),
    )


class WrittenStatuses:
    """The outline of the last written status of each pool, with the time of the write."""

    def __init__(self) -> None:
        self._by_pool: dict[str, tuple[Outline, float]] = {}

    def pause(self, pool: str, present: Outline, now: float) -> float:
        """Return how long to wait if another writer has just changed the status that this process wrote, 0 if none has."""
        written, since = self._by_pool.get(pool, ((), 0.0))
        if not written or written == present:
            return 0.0
        rest = since + _PAUSE - now
        return rest if rest > SHORTEST_WAIT.total_seconds() else 0.0

    def remember(self, pool: str, written: Outline, now: float) -> None:
        """Remember the status that this process is about to write."""
        self._by_pool[pool] = (written, now)

    def forget(self, pool: str) -> None:
        """Drop the status of a deleted pool."""
        self._by_pool.pop(pool, None)
