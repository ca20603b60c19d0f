"""The metrics of pull mode. Their names are the original's; one set of instruments for each `Metrics`.

Guarantees: the values of labels are words of fixed sets. Every kind and outcome of a job has a series from the start, so that the first
failed job is an increase. A process whose agent has ended shows no state of the connection, and no events that wait.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import get_args

from prometheus_client import Counter, Gauge

from konverge.metrics import Metrics
from konverge.reconcilers.clusters.protocol import JobKind, Outcome
from konverge.reconcilers.clusters.words import UNKNOWN_KIND, Mode

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
        for kind, outcome in product((*get_args(JobKind), UNKNOWN_KIND), Outcome):
            self.jobs.labels(kind=kind, outcome=str(outcome))
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

    def agent_ended(self) -> None:
        """Remove the state of an agent that this process does not run any more: another replica may run it now."""
        with suppress(KeyError):  # another agent of this process may have ended before
            self.connectivity.remove(Mode.PULL)
        self.buffered.set(0)
        self.credential_age.set(0)

    @classmethod
    def within(cls, metrics: Metrics) -> PullMetrics:
        """Return the instruments of a `Metrics`."""
        shared = metrics.shared.get(cls)
        if not isinstance(shared, cls):
            shared = metrics.shared[cls] = cls(metrics)
        return shared
