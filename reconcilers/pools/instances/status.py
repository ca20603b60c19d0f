"""The status of an instance: phase, conditions and Events as plans. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from konverge.clock import rfc3339
from konverge.crds.pools_v1alpha1 import NextcloudInstance, NextcloudInstanceStatus, Phase
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.pools.instances.render import url_of
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.words import DatabaseReason, ReleaseReason, TeardownReason
from konverge.reconcilers.pools.words import InstancePhase, PoolsAnnotation, PoolsCondition, PoolsEvent, StepReason
from konverge.runtime import ConditionUpdate, Plan, PlannedEvent
from konverge.words import EventType

__all__ = [
    "phase_of",
    "plan_claimed",
    "plan_deleted",
    "plan_deleting",
    "plan_not_listed",
    "plan_protected",
    "plan_released",
    "plan_result",
    "plan_started",
    "plan_step",
]

_STALLED: Final = frozenset({DatabaseReason.STALLED, DatabaseReason.FAILED, ReleaseReason.STALLED})


def phase_of(last: StepState, *, was_ready: bool) -> Phase:
    """Return the phase from the last step that was taken.

    >>> phase_of(StepState(ready=False, reason="DatabaseProvisioning"), was_ready=False)
    'Provisioning'
    """
    if last.ready:
        return InstancePhase.READY
    if was_ready:
        return InstancePhase.DEGRADED
    return InstancePhase.FAILED if last.lasting or last.reason in _STALLED else InstancePhase.PROVISIONING


# --- a living instance -----------------------------------------------------------------------------------------------------------


def plan_not_listed(message: str, retry: timedelta | None = None) -> Plan[NextcloudInstanceStatus]:
    """Report that the settings do not list the namespace of the instance; `retry` is the time until it is read again."""
    return Plan(
        set_conditions=(_not_ready(StepReason.NAMESPACE_NOT_LISTED, message),),
        outcome=Done() if retry is None else RequeueAfter(retry),
    )


def plan_claimed(instance: NextcloudInstance, now: datetime) -> Plan[NextcloudInstanceStatus]:
    """Copy the claim."""
    claim = instance.spec.claim_ref
    if claim is None:
        return Plan()
    assigned_at = instance.status.assigned_at or rfc3339(now)
    return Plan(draft=NextcloudInstanceStatus(claim_ref=claim, assigned_at=assigned_at))


def plan_started(instance: NextcloudInstance) -> Plan[NextcloudInstanceStatus]:
    """Show the URL, and report that the annotation run-maintenance has no effect: it would need the right to run commands in all pods."""
    draft = NextcloudInstanceStatus(url=url_of(instance.spec))
    if not instance.metadata.annotation(PoolsAnnotation.RUN_MAINTENANCE):
        return Plan(remove_conditions=(PoolsCondition.MAINTENANCE_RUN,), draft=draft)
    message = (
        f"nothing was run: run occ with kubectl exec in a pod of the release {instance.name}, "
        f"and remove the annotation {PoolsAnnotation.RUN_MAINTENANCE}"
    )
    is_new = instance.find_condition(PoolsCondition.MAINTENANCE_RUN) is None
    event = PlannedEvent(StepReason.NOT_SUPPORTED, message, EventType.WARNING)
    return Plan(
        events=(event,) if is_new else (),
        set_conditions=(ConditionUpdate(PoolsCondition.MAINTENANCE_RUN, False, StepReason.NOT_SUPPORTED, message),),
        draft=draft,
    )


def plan_step(type_: str, state: StepState) -> Plan[NextcloudInstanceStatus]:
    """Report one step."""
    return Plan(
        set_conditions=(ConditionUpdate(type_, state.ready, state.reason, state.message),),
        draft=state.draft,
    )


def plan_result(instance: NextcloudInstance, last: StepState, now: datetime) -> Plan[NextcloudInstanceStatus]:
    """Report whether the instance is ready, from the last step that was taken."""
    draft = NextcloudInstanceStatus(phase=phase_of(last, was_ready=bool(instance.status.ready_at)))
    if last.ready and not instance.status.ready_at:
        draft.ready_at = rfc3339(now)
    return Plan(
        set_conditions=(ConditionUpdate(PoolsCondition.READY, last.ready, last.reason, last.message),),
        draft=draft,
        outcome=Done() if last.again is None else RequeueAfter(last.again),
    )


# --- the end of an instance --------------------------------------------------------------------------------------------------------


def plan_released(state: StepState | None, retry: timedelta) -> Plan[NextcloudInstanceStatus]:
    """Report an instance that its Nextcloud released with Retain; `state` is the uninstall of its release, None after that."""
    message = (
        "bucket, database, volumes, Secrets and namespace are kept; delete the instance when they are not needed by it"
    )
    if state is not None:
        message = state.message
    return Plan(
        set_conditions=(_not_ready(TeardownReason.RELEASED, message),),
        draft=NextcloudInstanceStatus(phase=InstancePhase.RELEASED),
        outcome=Done() if state is None else RequeueAfter(retry),
    )


def plan_protected(instance: NextcloudInstance, message: str, retry: timedelta) -> Plan[NextcloudInstanceStatus]:
    """Report that the deletion of an assigned instance waits."""
    before = instance.find_condition(PoolsCondition.READY)
    is_new = before is None or before.reason != TeardownReason.PROTECTED
    return Plan(
        events=(PlannedEvent(TeardownReason.PROTECTED, message, EventType.WARNING),) if is_new else (),
        set_conditions=(_not_ready(TeardownReason.PROTECTED, message),),
        outcome=RequeueAfter(retry),
    )


def plan_deleting(state: StepState, retry: timedelta) -> Plan[NextcloudInstanceStatus]:
    """Report the part whose end a deletion waits for."""
    return Plan(
        set_conditions=(_not_ready(state.reason, state.message),),
        draft=NextcloudInstanceStatus(phase=InstancePhase.DELETING),
        outcome=RequeueAfter(state.again or retry),
    )


def plan_deleted(kept_cluster: str) -> Plan[NextcloudInstanceStatus]:
    """End the deletion; an Event names the database that outlives the instance."""
    if not kept_cluster:
        return Plan()
    message = f"Cluster {kept_cluster} is kept, as database.deleteOnCleanup is not true; delete it when it is not needed any more"
    return Plan(events=(PlannedEvent(PoolsEvent.DATABASE_KEPT, message),))


def _not_ready(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(PoolsCondition.READY, False, reason, message)
