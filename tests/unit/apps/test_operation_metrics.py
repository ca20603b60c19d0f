"""The metrics of Operations: their number of series does not depend on the objects that tenants make."""

from __future__ import annotations

from typing import Any

import pytest

from konverge.metrics import Metrics
from konverge.reconcilers.apps.operations.install import controller
from konverge.reconcilers.apps.operations.kinds import VIEW
from konverge.reconcilers.apps.operations.metrics import OperationMetrics, blocked_reason, phase_of


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


def test_no_label_names_an_object() -> None:
    instruments = (one for one in vars(OperationMetrics(Metrics())).values())
    labels = {label for one in instruments for label in one._labelnames}
    labels |= {label for grouping in controller().groupings for label in grouping.labels}
    assert labels == {"type", "engine", "phase", "reason"}
