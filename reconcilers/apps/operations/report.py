"""From the stage of an Operation to its phase and conditions.

Guarantees: pure. Accepted, Running, Succeeded and Blocked are always set; Failed and Cancelled exist only while True. The report of an end
is the last report of an Operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from konverge.client import missing_rule
from konverge.clock import rfc3339
from konverge.conditions import cut_condition
from konverge.crds.ops_v1alpha1 import EngineRef, Operation, OperationStatus
from konverge.errors import Forbidden
from konverge.outcome import Done, Outcome
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked, EngineState, Observation
from konverge.reconcilers.apps.operations.words import (
    AcceptedReason,
    BlockedReason,
    FailedReason,
    OpCondition,
    RunningReason,
    SucceededReason,
)
from konverge.runtime import ConditionUpdate, Plan

__all__ = [
    "OpPlan",
    "claimed",
    "ended",
    "gives_back",
    "missing_right",
    "observed",
    "refused",
    "restated",
    "rbac_profile_missing",
    "turn_given_back",
    "turn_missing",
    "waiting",
    "without_right",
]

OpPlan = Plan[OperationStatus]
"""A plan for an Operation."""

_KEPT: Final = (
    *(OpCondition.ACCEPTED, OpCondition.SUCCEEDED, OpCondition.FAILED),
    *(OpCondition.CANCELLED, OpCondition.BLOCKED),
)
_KEEPS_TURN: Final = (
    "the Operation goes on; until then it keeps its turn on the target, because its object may be at work"
)
_EXPLAINS: Final = (OpCondition.FAILED, OpCondition.CANCELLED, OpCondition.SUCCEEDED, OpCondition.BLOCKED)
_NOT_ENDED: Final = (OpCondition.FAILED, OpCondition.CANCELLED)


def _condition(type_: str, status: bool, reason: str, message: str = "") -> ConditionUpdate:
    return ConditionUpdate(type_, status, *cut_condition(reason, message))


def _plan(
    conditions: tuple[ConditionUpdate, ...],
    draft: OperationStatus,
    *,
    remove: tuple[str, ...] = (),
    outcome: Outcome | None,
) -> OpPlan:
    draft.reason = _reason(conditions)
    return Plan(set_conditions=conditions, remove_conditions=remove, draft=draft, outcome=outcome or Done())


def _reason(conditions: tuple[ConditionUpdate, ...]) -> str:
    """Return the reason that explains the phase: of the end, of the blockade, or of Running."""
    true = {update.type: update.reason for update in conditions if update.status}
    running = next(update.reason for update in conditions if update.type == OpCondition.RUNNING)
    return next((true[type_] for type_ in _EXPLAINS if type_ in true), running)


def _pending() -> tuple[ConditionUpdate, ...]:
    return (
        _condition(OpCondition.RUNNING, False, RunningReason.ENGINE_NOT_STARTED),
        _condition(OpCondition.SUCCEEDED, False, SucceededReason.NOT_YET_SUCCEEDED),
    )


def _accepted() -> ConditionUpdate:
    return _condition(OpCondition.ACCEPTED, True, AcceptedReason.ADMISSION_PASSED)


def _unblocked() -> ConditionUpdate:
    return _condition(OpCondition.BLOCKED, False, BlockedReason.UNBLOCKED)


def waiting(blocked: EngineBlocked, *, not_accepted: str = "", outcome: Outcome | None = None) -> OpPlan:
    """Return the plan of an Operation that waits for its start; `not_accepted` is the reason of Accepted=False."""
    accepted = _condition(OpCondition.ACCEPTED, False, not_accepted, blocked.message) if not_accepted else _accepted()
    return _plan(
        (accepted, *_pending(), _condition(OpCondition.BLOCKED, True, blocked.reason, blocked.message)),
        OperationStatus(phase="Pending"),
        remove=_NOT_ENDED,
        outcome=outcome,
    )


def missing_right(error: Forbidden, then: str = "the Operation goes on") -> EngineBlocked | None:
    """Return the right that this operator lacks; None if an RBAC rule would not help (a quota, a webhook)."""
    rule = missing_rule(error)
    if rule is None or "resources" not in rule:
        return None
    return rbac_profile_missing(rule["verbs"], rule["resources"], rule["apiGroups"][0], then)


def rbac_profile_missing(verbs: Iterable[str], resources: Iterable[str], group: str, then: str) -> EngineBlocked:
    """Return the blockade of an Operation if this operator lacks a right; `then`: the effect of a grant, for the message."""
    message = (
        f"the operator lacks the right to {', '.join(verbs)} {', '.join(resources)}{f' of API group {group}' if group else ''}; "
        f"add it to its role, and {then}"
    )
    return EngineBlocked(BlockedReason.RBAC_PROFILE_MISSING, message)


def without_right(operation: Operation, error: Forbidden) -> OpPlan | None:
    """Return the plan of an Operation if this operator lacks a right; None if an RBAC rule would not help."""
    started = operation.status.started_at is not None
    missing = missing_right(error, _KEEPS_TURN) if started else missing_right(error)
    if missing is None or not started:
        return None if missing is None else waiting(missing)
    return Plan(set_conditions=(_condition(OpCondition.BLOCKED, True, missing.reason, missing.message),))


def turn_given_back(error: Forbidden, outcome: Outcome) -> OpPlan | None:
    """Return the plan of a started Operation whose object a missing RBAC rule forbids: back to Pending."""
    missing = missing_right(error)
    if missing is None:
        return None
    return _back_in_line(missing, outcome)


def turn_missing(outcome: Outcome) -> OpPlan:
    """Return the plan of an Operation whose status claims a start that no Lease records: back to Pending."""
    message = "no turn on its target is recorded, although the status claims one; it takes its place in line again"
    return _back_in_line(EngineBlocked(BlockedReason.CONFLICTING_OPERATION, message), outcome)


def _back_in_line(blocked: EngineBlocked, outcome: Outcome) -> OpPlan:
    draft = OperationStatus(phase="Pending", started_at=None, engine_ref=None, outputs={})
    return replace(waiting(blocked, outcome=outcome), draft=draft)


def gives_back(plan: OpPlan) -> bool:
    """Tell whether the plan releases the target of an Operation that has not ended."""
    draft = plan.draft
    return draft is not None and "started_at" in draft.model_fields_set and draft.started_at is None


def claimed(now: datetime, ref: EngineRef, outputs: Mapping[str, str], outcome: Outcome) -> OpPlan:
    """Return the plan of an Operation that now holds its target: its object is named before it is created."""
    draft = OperationStatus(phase="Pending", started_at=rfc3339(now), engine_ref=ref, outputs=dict(outputs))
    return _plan((_accepted(), *_pending(), _unblocked()), draft, remove=_NOT_ENDED, outcome=outcome)


def observed(
    seen: Observation,
    before: OperationStatus,
    *,
    ref: EngineRef | None = None,
    missing_since: str | None = None,
    outcome: Outcome,
) -> OpPlan:
    """Return the plan of an Operation whose object has not ended."""
    running = seen.state is EngineState.RUNNING
    blocked = (
        _unblocked()
        if seen.blocked is None
        else _condition(OpCondition.BLOCKED, True, seen.blocked.reason, seen.blocked.message)
    )
    draft = _results(seen, before)
    draft.phase = "Running" if running else "Pending"
    draft.engine_missing_since = missing_since
    if ref is not None:
        draft.engine_ref = ref
    return _plan(
        (
            _accepted(),
            _condition(OpCondition.RUNNING, running, seen.reason, seen.message),
            _condition(OpCondition.SUCCEEDED, False, SucceededReason.NOT_YET_SUCCEEDED),
            blocked,
        ),
        draft,
        outcome=outcome,
    )


def ended(
    seen: Observation,
    before: OperationStatus,
    now: datetime,
    *,
    ref: EngineRef | None = None,
    outcome: Outcome | None = None,
) -> OpPlan:
    """Return the last plan of an Operation: its object has ended, or was never created."""
    draft = _results(seen, before)
    draft.finished_at = rfc3339(now)
    draft.engine_missing_since = None
    if ref is not None:
        draft.engine_ref = ref
    conditions = [_condition(OpCondition.RUNNING, False, RunningReason.FINISHED), _unblocked()]
    if seen.state is EngineState.SUCCEEDED:
        draft.phase = "Succeeded"
        conditions += [_condition(OpCondition.SUCCEEDED, True, seen.reason, seen.message)]
    else:
        draft.phase = "Failed" if seen.state is EngineState.FAILED else "Cancelled"
        type_ = OpCondition.FAILED if seen.state is EngineState.FAILED else OpCondition.CANCELLED
        conditions += [
            _condition(OpCondition.SUCCEEDED, False, SucceededReason.NOT_YET_SUCCEEDED),
            _condition(type_, True, seen.reason, seen.message),
        ]
    return _plan((_accepted(), *conditions), draft, outcome=outcome)


def refused(reason: str, message: str, now: datetime, outcome: Outcome | None = None) -> OpPlan:
    """Return the plan of an Operation that can never work: Failed/PreconditionFailed, and not accepted."""
    return _plan(
        (
            _condition(OpCondition.ACCEPTED, False, reason, message),
            *_pending(),
            _unblocked(),
            _condition(OpCondition.FAILED, True, FailedReason.PRECONDITION_FAILED, message),
        ),
        OperationStatus(phase="Failed", finished_at=rfc3339(now)),
        outcome=outcome,
    )


def restated(operation: Operation) -> OpPlan:
    """Return the plan of an Operation that has ended: the same conditions, for the present generation."""
    running = _condition(OpCondition.RUNNING, False, RunningReason.FINISHED)
    kept = [
        ConditionUpdate(condition.type, condition.is_true, condition.reason, condition.message)
        for condition in operation.conditions
        if condition.type in _KEPT and condition.status != "Unknown"
    ]
    return Plan(set_conditions=(running, *kept))


def _results(seen: Observation, before: OperationStatus) -> OperationStatus:
    draft = OperationStatus()
    more: dict[str, Any] = {**before.outputs, **seen.outputs}
    if more != before.outputs:
        draft.outputs = more
    if seen.logs is not None and seen.logs != before.logs_ref:
        draft.logs_ref = seen.logs
    return draft
