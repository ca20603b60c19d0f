"""Whether an Operation can ever work, as far as its own spec shows: the same check for the reconciler and the webhook.

Guarantees: pure. The engine itself checks the parameters: without related objects, `render` only refuses parameters that can never work.
The preconditions check everything that depends on another object (a backup, another Operation, an approval). An edit is checked with its
target, if the target exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from konverge.crds.ops_v1alpha1 import Operation
from konverge.objects import Object
from konverge.reconcilers.apps.operations.edits import edit_refusal
from konverge.reconcilers.apps.operations.engine_request import request_for, target_of
from konverge.reconcilers.apps.operations.engines.engine import Edit, ObjectRef, Refused, Related, Target
from konverge.reconcilers.apps.operations.engines.registry import EngineRow, row_of
from konverge.reconcilers.apps.operations.kinds import INSTANCE
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.words import AcceptedReason, FailedReason
from konverge.reconcilers.apps.secrets import has_more_levels
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.validate import MOST_LEVELS

__all__ = ["SpecRefusal", "refusal", "target_refusal"]


@dataclass(frozen=True, slots=True)
class SpecRefusal:
    """A reason of Accepted=False, and the remedy."""

    reason: str
    message: str


def refusal(
    operation: Operation, settings: OperationSettings, rows: tuple[EngineRow, ...], now: datetime
) -> SpecRefusal | None:
    """Return why the Operation can never work, None if its spec does not rule that out."""
    spec = operation.spec
    if has_more_levels(spec.parameters, MOST_LEVELS):
        message = f"spec.parameters has more than {MOST_LEVELS} levels; make it flatter"
        return SpecRefusal(AcceptedReason.VALIDATION_FAILED, message)
    row = row_of(spec.type, spec.engine, rows)
    if row is None:
        known = ", ".join(sorted(f"{other.type} by {other.engine.name}" for other in rows))
        return SpecRefusal(
            AcceptedReason.CAPABILITY_MISSING,
            f"no engine {spec.engine} performs a {spec.type} here; there are: {known}",
        )
    target = Target(operation.namespace, spec.target_ref.name, "")
    rendered = row.engine.render(request_for(operation, target, settings, now))
    if isinstance(rendered, Refused) and rendered.reason == FailedReason.VALIDATION_FAILED:
        return SpecRefusal(AcceptedReason.VALIDATION_FAILED, rendered.message)
    return None


def target_refusal(
    operation: Operation,
    instance: Object,
    settings: OperationSettings,
    rows: tuple[EngineRow, ...],
    instances: Settings,
    now: datetime,
) -> str:
    """Return why the Operation's edit of a target as it is now would be refused; "" for an engine that edits no target.

    A problem that the target has already may be repaired before the Operation starts, so the edit is not refused for it yet.
    """
    row = row_of(operation.spec.type, operation.spec.engine, rows)
    if row is None or INSTANCE not in row.engine.makes:
        return ""
    ref = ObjectRef(INSTANCE, instance.namespace, instance.name)
    asked = request_for(operation, target_of(instance), settings, now, Related({ref: instance.to_dict()}))
    rendered = row.engine.render(asked)
    if isinstance(rendered, Refused):
        return rendered.message
    return edit_refusal(instance, rendered, instances, new_only=True) if isinstance(rendered, Edit) else ""
