"""The metrics of Operations: how many there are in each phase, why they are blocked, how they ended, and how long that took.

Guarantees: the values of labels are words of fixed sets, from the API and from `words`; any other word counts as "other". So the number of
series does not depend on the objects that tenants create.

Caveats: the process that reconciles counts `ended`, `wait` and `duration`, from its start on; an end whose status write has to be
repeated is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any, Final, get_args

from prometheus_client import Counter, Histogram

from konverge.clock import from_rfc3339
from konverge.crds.ops_v1alpha1 import EngineName, Operation, OperationStatus, OperationType, Phase
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.registry import ROWS
from konverge.reconcilers.apps.operations.waiting.conflicts import TERMINAL
from konverge.reconcilers.apps.operations.words import BlockedReason, MetricName, OpCondition

if TYPE_CHECKING:
    from datetime import datetime

    from konverge.metrics import Metrics
    from konverge.runtime import Controller

__all__ = ["OperationMetrics", "blocked_reason", "counted", "phase_of"]

_OTHER: Final = "other"
_TYPES: Final[tuple[str, ...]] = get_args(OperationType)
_ENGINES: Final[tuple[str, ...]] = get_args(EngineName)
_PHASES: Final[tuple[str, ...]] = get_args(Phase)
_REASONS: Final = tuple(
    word for name, word in vars(BlockedReason).items() if name.isupper() and word != BlockedReason.UNBLOCKED
)
_PAIRS: Final = tuple((row.type, row.engine.name) for row in ROWS)
_SECONDS: Final = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)


def _word(value: Any, words: Iterable[str]) -> str:
    return value if value in words else _OTHER


def phase_of(operation: Object) -> list[tuple[str, ...]]:
    """Return type, engine and phase; an Operation that has no phase yet is Pending."""
    spec = operation.spec
    phase = operation.status.get("phase") or "Pending"
    return [(_word(spec.get("type"), _TYPES), _word(spec.get("engine"), _ENGINES), _word(phase, _PHASES))]


def blocked_reason(operation: Object) -> list[tuple[str, ...]]:
    """Return why the Operation is blocked, nothing if it is not."""
    condition = operation.find_condition(OpCondition.BLOCKED)
    if condition is None or not condition.is_true or operation.get("status", "phase") in TERMINAL:
        return []
    return [(_word(condition.reason, _REASONS),)]


def counted(described: Controller[Operation]) -> Controller[Operation]:
    """Return the controller with the gauges of its objects."""
    return described.counts_objects(
        MetricName.OPERATIONS,
        "Operations by type, engine and phase",
        labels=("type", "engine", "phase"),
        by=phase_of,
        always=((*pair, phase) for pair, phase in product(_PAIRS, _PHASES)),
    ).counts_objects(
        MetricName.BLOCKED,
        "Operations that are blocked, by the reason of the condition Blocked",
        labels=("reason",),
        by=blocked_reason,
        always=((reason,) for reason in _REASONS),
    )


class OperationMetrics:
    """The instruments, registered on first use. Every possible end has a series from the start, so that the first end is an increase."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self.ended = Counter(
            MetricName.ENDED, "Operations that ended, by phase", ("type", "engine", "phase"), registry=registry
        )
        self.wait = Histogram(
            MetricName.WAIT,
            "Seconds from the creation of an Operation to its turn on the target",
            ("type",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.duration = Histogram(
            MetricName.DURATION,
            "Seconds from the turn of an Operation to its end",
            ("type", "engine"),
            buckets=_SECONDS,
            registry=registry,
        )
        # A pair that no engine performs ends too: it is refused.
        for type_, engine, phase in product(_TYPES, _ENGINES, sorted(TERMINAL)):
            if phase == "Failed" or (type_, engine) in _PAIRS:
                self.ended.labels(type_, engine, phase)

    @classmethod
    def within(cls, metrics: Metrics) -> OperationMetrics:
        """Return the instruments of a `Metrics`."""
        collector = metrics.shared.get(cls)
        if not isinstance(collector, cls):
            collector = metrics.shared[cls] = cls(metrics)
        return collector

    def record(self, operation: Operation, draft: OperationStatus | None, now: datetime) -> None:
        """Count the step of an Operation in a reconcile: a start, or an end."""
        if draft is None:
            return
        spec, before = operation.spec, operation.status
        if draft.finished_at is not None and not operation.finished:
            self.ended.labels(spec.type, spec.engine, draft.phase).inc()
            if before.started_at is not None:
                self.duration.labels(spec.type, spec.engine).observe(_seconds(before.started_at, now))
        elif draft.started_at is not None and before.started_at is None and operation.metadata.created is not None:
            self.wait.labels(spec.type).observe(max((now - operation.metadata.created).total_seconds(), 0.0))


def _seconds(since: str, now: datetime) -> float:
    try:
        return max((now - from_rfc3339(since)).total_seconds(), 0.0)
    except ValueError:
        return 0.0
