"""The metrics of Operations: their number of series does not depend on the objects that tenants create."""

from typing import Any, get_args

import pytest
from apps.operations import Operations, phase
from prometheus_client import CollectorRegistry

from konverge.crds.ops_v1alpha1 import EngineName, OperationType
from konverge.metrics import Metrics
from konverge.reconcilers.apps.operations.install import controller
from konverge.reconcilers.apps.operations.kinds import VIEW
from konverge.reconcilers.apps.operations.metrics import OperationMetrics, blocked_reason, phase_of
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.protocol import JobKind
from konverge_testing import Lab


def stored(spec: Any = None, **status: Any) -> Any:
    return VIEW.new("run", "web", spec={"type": "Backup", "engine": "velero", **(spec or {})}, status=status)


def blocked(reason: str, **status: Any) -> Any:
    said = {"type": "Blocked", "status": "True", "reason": reason}
    return stored(conditions=[said], **status)


@pytest.mark.parametrize(
    ("operation", "group"),
    [
        (stored(), ("Backup", "velero", "Pending")),
        (stored(phase="Running"), ("Backup", "velero", "Running")),
        (stored({"type": "Odd", "engine": ["velero"]}, phase="Odd"), ("other", "other", "other")),
    ],
)
def test_an_operation_is_counted_under_words_of_the_api_alone(operation: Any, group: tuple[str, ...]) -> None:
    assert phase_of(operation) == [group]


@pytest.mark.parametrize(
    ("operation", "reasons"),
    [
        (stored(), []),
        (blocked("AwaitingApproval"), [("AwaitingApproval",)]),
        (blocked("WrittenByATenant"), [("other",)]),
        (blocked("AwaitingApproval", phase="Cancelled"), []),
    ],
)
def test_a_blocked_operation_is_counted_under_a_declared_reason_until_it_ends(operation: Any, reasons: Any) -> None:
    assert blocked_reason(operation) == reasons


FIRST = {
    "an Operation of any type and engine that fails": (
        OperationMetrics,
        "konverge_operations_ended_total",
        [
            {"type": type_, "engine": engine, "phase": "Failed"}
            for type_ in get_args(OperationType)
            for engine in get_args(EngineName)
        ],
    ),
    "a job of any kind that fails or meets a conflict": (
        PullMetrics,
        "applied_jobs_total",
        [
            {"kind": kind, "outcome": outcome}
            for kind in (*get_args(JobKind), "unknown")
            for outcome in ("failed", "conflict")
        ],
    ),
}


@pytest.mark.parametrize("which", FIRST)
def test_first_failure_increments_a_series_that_existed_before(which: str) -> None:
    """`increase` in the alerts misses a series that begins at 1."""
    instruments, name, failures = FIRST[which]
    registry = CollectorRegistry()
    instruments(Metrics(registry))
    assert [labels for labels in failures if registry.get_sample_value(name, labels) != 0.0] == []


async def test_the_first_operation_that_no_engine_performs_is_a_rise(lab: Lab) -> None:
    ops = await Operations(lab).start()
    failed = {"type": "Upgrade", "engine": "velero", "phase": "Failed"}

    def count() -> float | None:
        return lab.metrics.registry.get_sample_value("konverge_operations_ended_total", failed)

    assert count() == 0.0
    await ops.target()
    await ops.create("run", "Upgrade", "velero", parameters={})
    await ops.until("run", phase("Failed"))
    await lab.settled()
    assert count() == 1.0


def test_no_label_names_an_object() -> None:
    instruments = (one for one in vars(OperationMetrics(Metrics())).values())
    labels = {label for one in instruments for label in one._labelnames}
    labels |= {label for grouping in controller().groupings for label in grouping.labels}
    assert labels == {"type", "engine", "phase", "reason"}
