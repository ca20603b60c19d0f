"""The status of a pool: counts, record, conditions and Events as plans. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.clock import rfc3339
from konverge.crds.pools_v1alpha1 import NextcloudPool, NextcloudPoolStatus, ObservedProfile, RecentCreation
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.pool.decide import EXCESS, PoolCounts, PoolPlan, PoolState
from konverge.reconcilers.pools.pool.observe import ObservedNextcloudPool, adoption_request
from konverge.reconcilers.pools.pool.render import selector_of
from konverge.reconcilers.pools.words import (
    PoolReason,
    PoolsAnnotation,
    PoolsCondition,
    PoolsEvent,
    UnrecordedReason,
)
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN
from konverge.runtime import ConditionUpdate, Plan, PlannedEvent
from konverge.words import EventType

__all__ = ["MemberWrites", "plan_deleting", "plan_status"]


@dataclass(frozen=True, slots=True)
class MemberWrites:
    """The results of a reconcile's writes."""

    created: tuple[str, ...] = ()
    """The UIDs of the created instances."""
    refused: str = ""
    """The API server's refusal of a new instance, "" without a refusal."""
    changed: bool = False
    """Whether a member had changed since it was read."""
    chosen: bool = False
    """Whether names were chosen that the status has to have before the next creation."""
    recent: tuple[RecentCreation, ...] | None = None
    """The creations for the status; None leaves the recorded creations."""


def plan_status(
    observed: ObservedNextcloudPool,
    state: PoolState,
    plan: PoolPlan,
    writes: MemberWrites,
    now: datetime,
    retry: timedelta,
) -> Plan[NextcloudPoolStatus]:
    """Report numbers, members and conditions of a pool, and when the pool is reconciled again."""
    pool, record, census = observed.pool, observed.record, observed.census
    draft = _counted(pool, plan.counts)
    draft.members = (*census.uids, *writes.created)
    events: list[PlannedEvent] = []
    if writes.created:
        message = f"created {len(writes.created)} instances; {state.replicas} are wanted"
        events.append(PlannedEvent(PoolsEvent.INSTANCE_CREATED, message))
    if plan.digest is not None and observed.profile.name:
        profile = pool.status.observed_profile
        if profile is None or (profile.name, profile.digest) != (observed.profile.name, plan.digest):
            draft.observed_profile = ObservedProfile(
                name=observed.profile.name, digest=plan.digest, observed_at=rfc3339(now)
            )
    elif plan.digest == "":
        draft.observed_profile = None
    look_alikes = _look_alikes(census.look_alikes)
    if look_alikes is not None and pool.find_condition(PoolsCondition.UNRECORDED) is None:
        events.append(PlannedEvent(look_alikes.reason, look_alikes.message, EventType.WARNING))
    if record.adopts:
        draft.adopted = adoption_request(pool)
        message = (
            f"recorded {len(census.uids)} instances as members, as the annotation {PoolsAnnotation.ADOPT_MEMBERS} asks"
        )
        events.append(PlannedEvent(PoolsEvent.MEMBERS_ADOPTED, message))
    if writes.recent is not None:
        draft.recent_creations = writes.recent
    conditions = _conditions(state, plan, observed.profile.name, writes.refused)
    return Plan(
        events=tuple(events),
        remove_conditions=(PoolsCondition.UNRECORDED,) if look_alikes is None else (),
        set_conditions=conditions if look_alikes is None else (*conditions, look_alikes),
        draft=draft,
        outcome=_outcome(plan, writes, retry),
    )


def plan_deleting(pool: NextcloudPool, counts: PoolCounts, left: int, retry: timedelta) -> Plan[NextcloudPoolStatus]:
    """Report that a deleted pool waits for its unassigned instances."""
    message = f"waiting for {left} unassigned instances to be deleted"
    return Plan(
        set_conditions=(ConditionUpdate(PoolsCondition.READY, False, PoolReason.DELETING, message),),
        draft=_counted(pool, counts),
        outcome=RequeueAfter(retry),
    )


def _outcome(plan: PoolPlan, writes: MemberWrites, retry: timedelta) -> Outcome:
    if writes.refused:
        return RequeueAfter(retry)
    if writes.chosen or plan.create > len(writes.created):
        return RequeueAfter(NEXT_STEP)
    if writes.changed:
        return RequeueAfter(READ_AGAIN)
    return Done() if plan.again is None else RequeueAfter(plan.again)


def _counted(pool: NextcloudPool, counts: PoolCounts) -> NextcloudPoolStatus:
    return NextcloudPoolStatus(
        ready=counts.ready,
        assigned=counts.assigned,
        unassigned=counts.unassigned,
        provisioning=counts.provisioning,
        failed=counts.failed,
        replicas=counts.unassigned,
        selector=selector_of(pool.name),
    )


def _look_alikes(number: int) -> ConditionUpdate | None:
    """Report instances with the label of the pool outside of its record; None without such instances."""
    if not number:
        return None
    message = (
        f"{number} instances have the label of the pool and are not in its record: they are neither counted nor handed out nor deleted; "
        f"delete them, or annotate the pool with {PoolsAnnotation.ADOPT_MEMBERS} to record them"
    )
    return ConditionUpdate(PoolsCondition.UNRECORDED, True, UnrecordedReason.LOOK_ALIKES, message)


def _conditions(state: PoolState, plan: PoolPlan, profile: str, refused: str) -> tuple[ConditionUpdate, ...]:
    """Return the conditions Ready, ProfileResolved and Progressing."""
    counts, wanted = plan.counts, state.replicas
    shown = (
        f"{counts.ready} of {wanted} instances are ready, {counts.provisioning} are being made, {counts.failed} failed"
    )
    if counts.ready >= wanted:
        ready = (True, PoolReason.FULL)
    else:
        ready = (False, PoolReason.FILLING if counts.ready else PoolReason.EMPTY)
    if state.digest is None:
        resolved = (False, PoolReason.PROFILE_NOT_FOUND, f"create the NextcloudProfile {profile}, or name another one")
    elif profile:
        resolved = (True, PoolReason.RESOLVED, f"the profile is {profile}")
    else:
        resolved = (True, PoolReason.NO_PROFILE, "the pool names no profile")
    return (
        ConditionUpdate(PoolsCondition.READY, *ready, shown),
        ConditionUpdate(PoolsCondition.PROFILE_RESOLVED, *resolved),
        ConditionUpdate(PoolsCondition.PROGRESSING, *_progress(state, plan, refused)),
    )


def _progress(state: PoolState, plan: PoolPlan, refused: str) -> tuple[bool, str, str]:
    if state.refusal:
        return (False, PoolReason.NAMESPACE_NOT_LISTED, state.refusal)
    if refused:
        return (False, PoolReason.CREATE_FAILED, f"the API server refuses new instances: {refused}")
    if plan.create:
        return (True, PoolReason.CREATING, "instances are created")
    if any(removal.why != EXCESS for removal in plan.delete) or (state.recreate and plan.stale):
        return (True, PoolReason.ROLLING, "instances are replaced")
    if plan.delete:
        return (True, PoolReason.TRIMMING, "instances are deleted")
    if plan.counts.ready < state.replicas and state.digest is not None:
        return (True, PoolReason.WAITING, "instances are being made")
    return (False, PoolReason.SETTLED, "")
