"""The metrics of the family; one set of instruments for each `Metrics`.

Guarantees: the series of a pool are removed with it, and all series when the process stops leading: a standby's values would be stale, and
the next leader shows them. Counters of a pool begin at 0 with its first reconcile, so that a rate shows the first event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from konverge.metrics import Metrics

if TYPE_CHECKING:
    from konverge.reconcilers.pools.pool.decide import PoolCounts

__all__ = ["PoolMetrics"]

_STATES: Final = ("ready", "provisioning", "failed", "assigned")
_WAITS: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)


class PoolMetrics:
    """The instruments, registered on first use."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self.instances = Gauge(
            "konverge_nextcloud_pool_instances", "Instances of a pool by state", ("pool", "state"), registry=registry
        )
        self.wanted = Gauge(
            "konverge_nextcloud_pool_replicas",
            "Unassigned instances that a pool is to have",
            ("pool",),
            registry=registry,
        )
        self.refused = Counter(
            "konverge_nextcloud_pool_create_failures",
            "Creations of instances that the API server refused",
            ("pool",),
            registry=registry,
        )
        self.creates = Counter(
            "konverge_nextcloud_pool_creates", "Instances created to refill a pool", ("pool",), registry=registry
        )
        self.wait = Histogram(
            "konverge_nextcloud_claim_wait_seconds",
            "Seconds from the creation of a Nextcloud to the assignment of its instance",
            registry=registry,
            buckets=_WAITS,
        )
        self.conflicts = Counter(
            "konverge_nextcloud_assignment_conflicts",
            "Instances that changed between the read and the write that would have taken them",
            registry=registry,
        )
        self.drift = Counter(
            "konverge_nextcloud_drift_corrections",
            "Corrections of an assigned instance that another manager had edited",
            registry=registry,
        )

    @classmethod
    def within(cls, metrics: Metrics) -> PoolMetrics:
        """Return the instruments of a `Metrics`."""
        instruments = metrics.shared.get(cls)
        if not isinstance(instruments, cls):
            instruments = metrics.shared[cls] = cls(metrics)
        return instruments

    def set_pool(self, pool: str, wanted: int, counts: PoolCounts) -> None:
        """Show the numbers of a pool."""
        self.wanted.labels(pool).set(wanted)
        for state in _STATES:
            self.instances.labels(pool, state).set(getattr(counts, state))
        for counter in (self.creates, self.refused):
            counter.labels(pool)

    def forget_pool(self, pool: str) -> None:
        """Remove the series of a deleted pool."""
        for state in _STATES:
            self.instances.remove(pool, state)
        for series in (self.wanted, self.creates, self.refused):
            series.remove(pool)

    def clear(self) -> None:
        """Remove the series of all pools: the process does not lead any more."""
        for series in (self.instances, self.wanted, self.creates, self.refused):
            series.clear()
