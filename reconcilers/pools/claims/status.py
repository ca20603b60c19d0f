"""The status of a Nextcloud: conditions, Events and fields as plans. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator
from datetime import datetime, timedelta
from typing import Final

from konverge.clock import rfc3339
from konverge.crds.pools_v1alpha1 import BoundInstance, Nextcloud, NextcloudStatus, NominatedInstance, ReleaseRef
from konverge.objects import Object
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.pools.claims.act import FollowedInstance
from konverge.reconcilers.pools.claims.decide import BlockedClaim, assignment_reason
from konverge.reconcilers.pools.claims.observe import pool_of
from konverge.reconcilers.pools.instances.words import TeardownReason
from konverge.reconcilers.pools.words import (
    DriftReason,
    InstancePhase,
    InstanceReason,
    PoolsCondition,
    StepReason,
)
from konverge.reconcilers.shared.delays import NEXT_STEP
from konverge.runtime import ConditionUpdate, Plan, PlannedEvent
from konverge.words import EventType

__all__ = ["plan_assigned", "plan_blocked", "plan_lost", "plan_recorded", "plan_releasing"]

_KEEPS_RECORD: Final = (InstanceReason.INVALID, InstanceReason.FIELDS_REFUSED)
"""Reasons of a refused instance: its record stays for the next try."""
_COPIED: Final = (
    *(PoolsCondition.READY, PoolsCondition.SECRETS_READY, PoolsCondition.DATABASE_READY),
    *(PoolsCondition.BUCKET_READY, PoolsCondition.BACKUPS_READY, PoolsCondition.RELEASE_READY),
)
"""The conditions of an instance that its Nextcloud shows."""


def plan_recorded(nominated: NominatedInstance) -> Plan[NextcloudStatus]:
    """Record the instance that the next reconcile takes or creates."""
    return Plan(draft=NextcloudStatus(nominated_instance=nominated), outcome=RequeueAfter(NEXT_STEP))


def plan_blocked(nextcloud: Nextcloud, blocked: BlockedClaim, retry: timedelta) -> Plan[NextcloudStatus]:
    """Report why the Nextcloud has no instance."""
    draft = NextcloudStatus(phase=InstancePhase.PENDING)
    if blocked.reason not in _KEEPS_RECORD:
        draft.nominated_instance = None
    return Plan(
        events=_events_of(nextcloud, PoolsCondition.INSTANCE_ASSIGNED, blocked.reason, blocked.message),
        set_conditions=(_not_assigned(blocked),),
        draft=draft,
        outcome=RequeueAfter(retry),
    )


def plan_lost(nextcloud: Nextcloud, ref: BoundInstance, retry: timedelta) -> Plan[NextcloudStatus]:
    """Report that the instance in the status does not exist, or does not have the claim of the Nextcloud."""
    path = f"{ref.namespace}/{ref.name}"
    if ref.uid is None:
        lost = BlockedClaim(
            InstanceReason.INSTANCE_NOT_FOUND,
            f"NextcloudInstance {path} does not exist, or has no claim of this Nextcloud: have an administrator write spec.claimRef of "
            "the instance, or delete this Nextcloud and create it again",
        )
    else:
        message = f"NextcloudInstance {path} was deleted; delete this Nextcloud and create it again"
        lost = BlockedClaim(InstanceReason.INSTANCE_LOST, message)
    return Plan(
        events=_events_of(nextcloud, PoolsCondition.INSTANCE_ASSIGNED, lost.reason, lost.message),
        set_conditions=(
            _not_assigned(lost),
            *_unreported(nextcloud, exclude=(PoolsCondition.READY,)),
            ConditionUpdate(PoolsCondition.READY, False, lost.reason, lost.message),
        ),
        draft=NextcloudStatus(phase=InstancePhase.FAILED, url=None),
        outcome=RequeueAfter(retry) if ref.uid is None else Done(),
    )


def plan_assigned(nextcloud: Nextcloud, followed: FollowedInstance, now: datetime) -> Plan[NextcloudStatus]:
    """Show the instance and copy its status; with a refused spec the Nextcloud is not ready."""
    instance, drift = followed.instance, followed.drift
    reported = {condition.type: condition for condition in instance.conditions}
    copied = [reported[type_] for type_ in _COPIED if type_ in reported]
    conditions = [
        ConditionUpdate(
            PoolsCondition.INSTANCE_ASSIGNED,
            True,
            assignment_reason(nextcloud),
            f"the instance is {instance.metadata.path}",
        ),
        *_unreported(nextcloud, exclude=reported),
        *(
            ConditionUpdate(
                condition.type,
                None if condition.status == "Unknown" else condition.is_true,
                condition.reason,
                condition.message,
            )
            for condition in copied
        ),
    ]
    if drift:
        message = f"another manager edits fields of the tenant again and again; stop it. Last: {drift}"
        conditions.insert(0, ConditionUpdate(PoolsCondition.DRIFT_FIGHT, True, DriftReason.FIGHTING, message))
    if followed.refused is not None:
        refused = followed.refused
        conditions.append(ConditionUpdate(PoolsCondition.READY, False, refused.reason, refused.message))
    return Plan(
        events=tuple(
            event
            for condition in copied
            if condition.reason == TeardownReason.PROTECTED
            for event in _events_of(nextcloud, condition.type, condition.reason, condition.message)
        ),
        remove_conditions=(PoolsCondition.DRIFT_FIGHT,) if drift == "" else (),
        set_conditions=tuple(conditions),
        draft=_copied_status(nextcloud, instance, now),
        outcome=Done() if followed.wait is None else RequeueAfter(followed.wait),
    )


def plan_releasing(instance: Object, retry: timedelta) -> Plan[NextcloudStatus]:
    """Report the present step of an instance that is being deleted."""
    reason, message = InstanceReason.RELEASING, f"NextcloudInstance {instance.metadata.path} is being deleted"
    step = instance.find_condition(PoolsCondition.READY)
    if step is not None and step.is_false and instance.metadata.deleting:
        reason, message = step.reason, step.message
    return Plan(
        set_conditions=(ConditionUpdate(PoolsCondition.READY, False, reason, message),),
        draft=NextcloudStatus(phase=InstancePhase.DELETING),
        outcome=RequeueAfter(retry),
    )


def _not_assigned(blocked: BlockedClaim) -> ConditionUpdate:
    return ConditionUpdate(PoolsCondition.INSTANCE_ASSIGNED, False, blocked.reason, blocked.message)


def _events_of(nextcloud: Nextcloud, type_: str, reason: str, message: str) -> tuple[PlannedEvent, ...]:
    """Return the Event of a condition with a new reason.

    The runtime reports a change of the status. It reports neither a new reason with the same status, nor a first condition that is False.
    """
    before = nextcloud.find_condition(type_)
    if before is not None and before.reason == reason:
        return ()
    return (PlannedEvent(reason, message, EventType.WARNING),)


def _unreported(nextcloud: Nextcloud, *, exclude: Container[str]) -> Iterator[ConditionUpdate]:
    """Set the conditions that were copied from an instance to Unknown: a removed condition would read as never reported."""
    for type_ in _COPIED:
        if type_ not in exclude and nextcloud.find_condition(type_) is not None:
            yield ConditionUpdate(type_, None, StepReason.NOT_REPORTED, "the instance does not report it")


def _copied_status(nextcloud: Nextcloud, instance: Object, now: datetime) -> NextcloudStatus:
    metadata, status = instance.metadata, instance.status
    release = status.get("helmRelease")
    draft = NextcloudStatus(
        instance_ref=BoundInstance(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid),
        pool=pool_of(nextcloud),
        nominated_instance=None,
        applied_profile=nextcloud.status.applied_profile or nextcloud.spec.profile,
        assigned_at=nextcloud.status.assigned_at or rfc3339(now),
        helm_release=ReleaseRef.model_validate(release) if isinstance(release, dict) else None,
    )
    # Assigned without validation: a stored instance may not fit its model.
    draft.phase = InstancePhase.DELETING if metadata.deleting else status.get("phase") or InstancePhase.PENDING
    draft.url, draft.version = status.get("url"), status.get("version")
    return draft
