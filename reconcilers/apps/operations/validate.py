"""Whether an Operation can ever work, as far as its own spec shows: for the reconciler and for the webhook, so that both say the same.

Guarantees: pure. The parameters are checked by the engine itself: without related objects, `render` refuses only what the parameters rule
out. Whatever depends on another object (the target, a backup, another Operation, an approval) is left to the preconditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.decide import request_for
from konverge.reconcilers.apps.operations.engines.engine import Refused, Target
from konverge.reconcilers.apps.operations.engines.registry import EngineRow, row_of
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.words import AcceptedReason, FailedReason

__all__ = ["SpecRefusal", "refusal"]


@dataclass(frozen=True, slots=True)
class SpecRefusal:
    """A reason of Accepted=False, and what to write instead."""

    reason: str
    message: str


def refusal(
    operation: Operation, settings: OperationSettings, rows: tuple[EngineRow, ...], now: datetime
) -> SpecRefusal | None:
    """Return why the Operation can never work, None if its spec does not rule that out."""
    spec = operation.spec
    row = row_of(spec.type, spec.engine, rows)
    if row is None:
        there = ", ".join(sorted(f"{one.type} by {one.engine.name}" for one in rows))
        return SpecRefusal(
            AcceptedReason.CAPABILITY_MISSING,
            f"no engine {spec.engine} performs a {spec.type} here; there are: {there}",
        )
    target = Target(operation.namespace, spec.target_ref.name, "")
    made = row.engine.render(request_for(operation, target, settings, now))
    if isinstance(made, Refused) and made.reason == FailedReason.VALIDATION_FAILED:
        return SpecRefusal(AcceptedReason.VALIDATION_FAILED, made.message)
    return None
