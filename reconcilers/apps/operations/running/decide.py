"""The plan of a started Operation, from its object or the lack of it.

Guarantees: pure. `None` in place of a plan: the next step needs a write.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from konverge.clock import rfc3339
from konverge.errors import ApiError
from konverge.objects import Object
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.child import is_of
from konverge.reconcilers.apps.operations.delays import LOOK_AGAIN
from konverge.reconcilers.apps.operations.engine_request import not_served
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked, EngineState, Observation, Refused
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.running.give_up import cancelled, missing_since
from konverge.reconcilers.apps.operations.running.observe import RunningOperation
from konverge.reconcilers.apps.operations.words import FailedReason, RunningReason
from konverge.reconcilers.shared.delays import SHORTEST_WAIT
from konverge.reconcilers.shared.helm_release.redaction import without_values

__all__ = [
    "correction",
    "plan_before_object",
    "plan_end",
    "plan_missing",
    "plan_not_created",
    "plan_not_served",
    "plan_refused",
    "plan_running",
    "stopping",
]


def correction(running: RunningOperation) -> str:
    """Return the message about a reported reference that did not name the object of the Operation, "" if it did."""
    reported, ref = running.operation.status.engine_ref, running.ref
    if reported is None or ref == reported:
        return ""
    return (
        "status.engineRef did not name the object of this Operation; the object that it named is not touched, and the Operation "
        f"goes on with {running.kind.kind} {ref.namespace}/{ref.name}"
    )


def plan_end(running: RunningOperation, seen: Observation, now: datetime) -> OpPlan:
    """Return the last plan: an object that the deadline stopped is Failed/Timeout."""
    return report.ended(running.stop.end(seen), running.operation.status, now, ref=running.corrected)


def _lost(running: RunningOperation, now: datetime, *, asked_to_cancel: bool) -> OpPlan:
    return plan_end(running, running.row.engine.lost(running.request, asked_to_cancel=asked_to_cancel), now)


def plan_not_served(running: RunningOperation, now: datetime) -> OpPlan:
    """Return the plan while the cluster does not serve the kind: then its objects do not exist either."""
    stop, status = running.stop, running.operation.status
    if stop.due:
        lost = running.row.engine.lost(running.request, asked_to_cancel=True)
        return report.ended(stop.end(lost), status, now)
    seen = Observation(EngineState.ACCEPTED, RunningReason.ENGINE_OBJECT_MISSING, blocked=not_served(running.kind))
    return report.observed(seen, status, outcome=Done() if stop.left is None else RequeueAfter(stop.left))


# --- before the object is created ------------------------------------------------------------------------------------------------


def plan_before_object(running: RunningOperation, stored: Object | None, now: datetime) -> OpPlan | None:
    """Return the plan of an Operation whose object must not be created; None if it is to be created, or was."""
    operation = running.operation
    if stored is not None and not running.edits and not is_of(stored, operation):
        message = (
            f"{running.kind.kind} {stored.metadata.path} exists and is not of this Operation; delete it and try again"
        )
        return plan_refused(running, Refused(message, FailedReason.PRECONDITION_FAILED), now)
    if running.has_begun(stored):
        return None
    if running.stop.due:
        return plan_end(running, cancelled("stopped before its engine began"), now)
    if running.edits and stored is None:
        return _lost(running, now, asked_to_cancel=False)
    return None


def plan_refused(running: RunningOperation, refused: Refused | ApiError, now: datetime) -> OpPlan:
    """Return the last plan of an Operation whose object the engine, or the API server, refuses."""
    if isinstance(refused, ApiError):
        message = f"the API server refuses the {running.kind.kind}: {without_values(str(refused))}"
        refused = Refused(message, FailedReason.VALIDATION_FAILED)
    return plan_end(running, Observation(EngineState.FAILED, refused.reason, refused.message), now)


def plan_not_created(running: RunningOperation, blocked: EngineBlocked) -> OpPlan:
    """Return the plan of an Operation whose object cannot be created yet."""
    seen = Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, blocked=blocked)
    return report.observed(seen, running.operation.status, outcome=RequeueAfter(LOOK_AGAIN))


# --- the object ------------------------------------------------------------------------------------------------------------------


def plan_missing(running: RunningOperation, grace: timedelta, now: datetime) -> OpPlan:
    """Return the plan while the object is missing."""
    if running.stop.due:
        return _lost(running, now, asked_to_cancel=True)
    status, since = running.operation.status, missing_since(running.operation.status, now)
    if since + grace <= now:
        return _lost(running, now, asked_to_cancel=False)
    state = EngineState.RUNNING if status.phase == "Running" else EngineState.ACCEPTED
    message = "the object of the engine is missing; if it stays so, the Operation fails"
    return report.observed(
        Observation(state, RunningReason.ENGINE_OBJECT_MISSING, message),
        status,
        ref=running.corrected,
        missing_since=rfc3339(since),
        outcome=RequeueAfter(since + grace - now),
    )


def stopping(seen: Observation, message: str) -> Observation:
    """Return the observation of an object that cannot be stopped now, and whose own end is awaited."""
    if seen.state.final:
        return seen
    return replace(seen, reason=RunningReason.STOPPING, message=message or seen.message)


def plan_running(running: RunningOperation, seen: Observation, blind: EngineBlocked | None) -> OpPlan:
    """Return the plan while the object has not ended; `blind` is the missing right to watch it."""
    look_again = None if blind is None else LOOK_AGAIN
    waits = [wait for wait in (seen.recheck_after, running.stop.left, look_again) if wait is not None]
    outcome = RequeueAfter(max(min(waits), SHORTEST_WAIT)) if waits else Done()
    blocked = seen.blocked or blind
    return report.observed(
        replace(seen, blocked=blocked), running.operation.status, ref=running.corrected, outcome=outcome
    )
