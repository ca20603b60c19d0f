"""The next step of a shard group, and its plans. Pure.

A static group is sent without template and subnet pool, which the server refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from konverge.clock import rfc3339
from konverge.crds.machines_v1beta1 import NstanceShardGroup, NstanceShardGroupSpec, NstanceShardGroupStatus
from konverge.objects import Object
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.machines.groups.conditions import conditions_of_failure, in_sync, not_of_pool, unreachable
from konverge.reconcilers.machines.groups.config import (
    drift,
    leftover_vars,
    shown_config,
    static_differences,
    wanted_config,
)
from konverge.reconcilers.machines.groups.shares import was_sent
from konverge.reconcilers.machines.records import AdmittedIds
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.failures import ShardFailure
from konverge.reconcilers.machines.shards.messages import Group, GroupConfig
from konverge.reconcilers.machines.shards.states import GroupView
from konverge.reconcilers.machines.words import GroupReason, MachinesCondition, MachinesEvent
from konverge.runtime import Plan, PlannedEvent
from konverge.words import EventType

__all__ = [
    "GroupStep",
    "InSync",
    "SendGroup",
    "WaitForShard",
    "deletion_obstacle",
    "is_accepted",
    "next_step",
    "plan_deletion_failure",
    "plan_failure",
    "plan_not_of_pool",
    "plan_synced",
    "plan_unreachable",
]

GroupPlan = Plan[NstanceShardGroupStatus]


@dataclass(frozen=True, slots=True)
class SendGroup:
    """Send these settings."""

    config: GroupConfig


@dataclass(frozen=True, slots=True)
class InSync:
    """The server has the settings already."""

    shown: Group


@dataclass(frozen=True, slots=True)
class WaitForShard:
    """The shard is unreachable."""

    problem: str


GroupStep: TypeAlias = SendGroup | InSync | WaitForShard


def is_accepted(group: NstanceShardGroup) -> bool:
    """Tell whether the shard accepted the present generation."""
    ready = group.find_condition(MachinesCondition.READY)
    return ready is not None and ready.is_true and ready.observed_generation == group.metadata.generation


def next_step(wanted: GroupConfig, view: GroupView, *, accepted: bool, static: bool) -> GroupStep:
    """Return the next step: `accepted` if the shard accepted this generation, `static` as in the status."""
    if not view.known or view.problem:
        return WaitForShard(view.problem)
    shown = view.listed
    if shown.is_static if shown is not None else static:
        wanted = replace(wanted, template="", subnet_pool="")
    if accepted and shown is not None and not drift(wanted, shown):
        return InSync(shown)
    return SendGroup(wanted)


def plan_not_of_pool(group: NstanceShardGroup) -> GroupPlan:
    """Return the status of a shard group without a pool that has such a share."""
    return Plan(set_conditions=(not_of_pool(group),))


def plan_unreachable(step: WaitForShard, *, accepted: bool) -> GroupPlan:
    """Return the status of a shard group whose shard is unreachable."""
    return Plan(set_conditions=unreachable(step.problem, pending=not accepted))


def plan_failure(failure: ShardFailure) -> GroupPlan:
    """Return the status of a shard group that its shard did not accept."""
    return Plan(set_conditions=conditions_of_failure(failure, ready_reason=GroupReason.PROVIDER_ERROR))


def plan_synced(
    group: NstanceShardGroup,
    spec: NstanceShardGroupSpec,
    shown: Group,
    ids: AdmittedIds,
    step: SendGroup | InSync,
    settings: MachineSettings,
    now: datetime,
) -> GroupPlan:
    """Return the status of a shard group as its shard has it; `ids` are the admitted ids of the shard's listing."""
    wanted = wanted_config(spec)
    differing = drift(step.config, shown) if isinstance(step, SendGroup) else ()
    outcome: Done | RequeueAfter = RequeueAfter(settings.retry) if differing else Done()
    events: tuple[PlannedEvent, ...] = ()
    if ids.foreign:
        message = f"the shard lists {len(ids.foreign)} instances that are recorded for another shard: they are left out"
        events = (PlannedEvent(MachinesEvent.PROVIDER_ERROR, message, EventType.WARNING),)
        outcome = RequeueAfter(settings.unreachable_retry)
    return Plan(
        events=events,
        set_conditions=in_sync(
            leftover_vars(wanted, shown), static=static_differences(wanted, shown), differing=differing
        ),
        draft=_status(group.status, replace(shown, provider_ids=ids.ids), now),
        outcome=outcome,
    )


def _status(before: NstanceShardGroupStatus, shown: Group, now: datetime) -> NstanceShardGroupStatus:
    """Return the fields of the status; the time changes only with them, so that a listing without news writes nothing."""
    config, ids = shown_config(shown), tuple(sorted(shown.provider_ids))
    news = (shown.actual_size, ids, shown.is_static, config) != (
        before.replicas,
        before.provider_ids,
        before.is_static,
        before.config,
    )
    synced = rfc3339(now) if news or before.last_sync_time is None else before.last_sync_time
    return NstanceShardGroupStatus(
        replicas=shown.actual_size, provider_ids=ids, is_static=shown.is_static, config=config, last_sync_time=synced
    )


def deletion_obstacle(group: NstanceShardGroup, pool: Object | None, view: GroupView) -> PlannedEvent | None:
    """Return the Event of a deleted shard group whose group stays on the shard, None if the group is deleted there."""
    if not was_sent(group, pool):
        message = "it was no share of a pool, so the group stays as it is on the shard"
        return PlannedEvent(MachinesEvent.DELETE_SUCCEEDED, message)
    if not view.known:
        message = f"shard {group.spec.shard} is not in the document of shards: the group may still be there"
        return PlannedEvent(MachinesEvent.DELETE_FAILED, message, EventType.WARNING)
    return None


def plan_deletion_failure(failure: ShardFailure, settings: MachineSettings) -> GroupPlan:
    """Return the plan of a deleted shard group whose group the shard has not deleted."""
    return Plan(
        set_conditions=conditions_of_failure(failure, ready_reason=GroupReason.DELETE_FAILED),
        outcome=RequeueAfter(settings.unreachable_retry),
    )
