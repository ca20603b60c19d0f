"""The metrics of pull mode. Their names are the original's; one set of instruments for each `Metrics`."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from konverge.metrics import Metrics

__all__ = ["PullMetrics"]


class PullMetrics:
    """The instruments, registered on first use."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self.lag = Gauge(
            "pull_job_lag_seconds",
            "Seconds from the creation of a job by the control plane to its result, of the last job",
            registry=registry,
        )
        self.connectivity = Gauge(
            "connectivity_state",
            "1 while the control plane responds, 0 while it does not, -1 while it refuses the credential",
            ("mode",),
            registry=registry,
        )
        self.jobs = Counter(
            "applied_jobs", "Jobs that ended, by kind and outcome", ("kind", "outcome"), registry=registry
        )
        self.buffered = Gauge(
            "event_buffer_occupancy",
            "Events that wait for the control plane, as a part of the buffer",
            registry=registry,
        )
        self.credential_age = Gauge(
            "credential_age_seconds",
            "Seconds since the credential was issued, at the last heartbeat",
            registry=registry,
        )

    @classmethod
    def within(cls, metrics: Metrics) -> PullMetrics:
        """Return the instruments of a `Metrics`."""
        found = metrics.shared.get(cls)
        if not isinstance(found, cls):
            found = metrics.shared[cls] = cls(metrics)
        return found
