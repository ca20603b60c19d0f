"""The metrics of the family; one set of instruments for each `Metrics`.

Guarantees: the series of a shard are removed with it. A process that does not lead shows no shard.
"""

from __future__ import annotations

from contextlib import suppress

from prometheus_client import Counter, Gauge, Histogram

from konverge.metrics import Metrics
from konverge.reconcilers.machines.words import DrainResult

__all__ = ["MachineMetrics"]

_LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class MachineMetrics:
    """The instruments, registered on first use."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self.connected = Gauge(
            "konverge_nstance_shard_connected",
            "1 while a shard answers, 0 while it does not",
            ("shard",),
            registry=registry,
        )
        self.listed = Gauge(
            "konverge_nstance_shard_last_sync_timestamp_seconds",
            "Time of the last listing of the groups of a shard",
            ("shard",),
            registry=registry,
        )
        self.failures = Counter(
            "konverge_nstance_shard_disconnects",
            "How often a shard became unreachable",
            ("shard",),
            registry=registry,
        )
        self.upserts = Histogram(
            "konverge_nstance_upsert_duration_seconds",
            "Seconds of a call that changes a group on a shard",
            ("shard",),
            registry=registry,
            buckets=_LATENCIES,
        )
        self.refused = Counter(
            "konverge_nstance_upsert_failures",
            "Changes of groups that a shard did not accept, or did not answer",
            ("shard",),
            registry=registry,
        )
        self.drains = Gauge(
            "konverge_nstance_drains_open",
            "Drains that have begun and are not acknowledged yet",
            ("shard",),
            registry=registry,
        )
        self.drained = Counter(
            "konverge_nstance_drains",
            "Drains that have ended, by result: drained, no_node, timed_out, or unacknowledged if the server took no acknowledgement",
            ("shard", "result"),
            registry=registry,
        )

    @classmethod
    def within(cls, metrics: Metrics) -> MachineMetrics:
        """Return the instruments of a `Metrics`."""
        shared = metrics.shared.get(cls)
        if not isinstance(shared, cls):
            shared = metrics.shared[cls] = cls(metrics)
        return shared

    def begin_shard(self, shard: str) -> None:
        """Show a shard that has not responded yet."""
        self.connected.labels(shard).set(0)
        for metric in (self.failures, self.upserts, self.refused):
            metric.labels(shard)
        self.drains.labels(shard).set(0)
        for result in DrainResult:
            self.drained.labels(shard, result)

    def forget_shard(self, shard: str) -> None:
        """Remove the series of a shard."""
        for metric in (self.connected, self.listed, self.failures, self.upserts, self.refused, self.drains):
            with suppress(KeyError):  # a shard that never responded has no time
                metric.remove(shard)
        for result in DrainResult:
            with suppress(KeyError):
                self.drained.remove(shard, result)
