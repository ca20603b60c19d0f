"""The reconciler of NstanceShardGroups: the async shell around `decide`.

Guarantees: Kubernetes wins: a group that was deleted or changed on the server is sent again. An error leaves the observed generation as it
is. Only a share of a pool is sent: the shard group is in the operator's namespace, the pool controls it, and it has the settings of the
pool and the name of group and shard, which no second object can have. Only a shard group deletes its group on the shard.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from konverge.clock import rfc3339
from konverge.crds.machines_v1beta1 import NstanceShardGroup
from konverge.errors import RetryAfter
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.gates import pause_of, show_other_namespace
from konverge.reconcilers.machines.groups.decide import (
    SendGroup,
    WaitForShard,
    conditions_of_failure,
    drift,
    has_share_name,
    in_sync,
    is_named_share,
    leftover_vars,
    next_step,
    not_of_pool,
    pool_share,
    shown_config,
    static_differences,
    unreachable,
    wanted_config,
)
from konverge.reconcilers.machines.kinds import NSTANCE_MACHINE, POOL, SHARD_GROUP
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.machines.records import BY_RECORDED_ID, admitted_ids, bare_id, recorded_shard
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure, failure_of_message
from konverge.reconcilers.machines.shards.messages import Group, GroupConfig
from konverge.reconcilers.machines.shards.retries import FailureDelays
from konverge.reconcilers.machines.words import GroupReason, MachinesAnnotation, MachinesCondition, MachinesEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from konverge.kinds import Kind
    from konverge.objects import Metadata, Object
    from konverge.runtime import ConditionUpdate, Context
    from konverge.runtime.cache.readers import Reader

__all__ = ["ShardGroupReconciler", "pause_of_group"]


def pause_of_group(metadata: Metadata, cache: Callable[[Kind[Object]], Reader[Object]], *, cluster: str) -> str:
    """Return why a shard group is not to be reconciled, "" if it is: the shard group or its pool is paused."""
    owner = metadata.controller
    pool = None if owner is None else cache(POOL).metadata(metadata.namespace, owner.name)
    if pool is None or MachinesAnnotation.PAUSED in (metadata.annotations or {}):
        return pause_of(metadata, cache, cluster=cluster)
    return pause_of(pool, cache, cluster=cluster)  # its label names the Cluster


class ShardGroupReconciler:
    """Keeps one group on one shard."""

    def __init__(self, service: NstanceService, metrics: MachineMetrics) -> None:
        self._service = service
        self._metrics = metrics
        self._delays = FailureDelays(service.settings)

    async def reconcile(self, group: NstanceShardGroup, ctx: Context[NstanceShardGroup]) -> Outcome:
        """Send the group if its shard lacks it, and show the shard's group."""
        states, settings = self._service.states, self._service.settings
        if not self._service.acts_in(group.namespace):
            show_other_namespace(ctx)
            return Done()
        spec = pool_share(group, _pool_of(group, ctx))
        if spec is None:
            states.unfollow(ctx.key)
            _set((not_of_pool(group),), ctx)
            return Done()
        states.follow(ctx.key, spec.shard, spec.group)
        if error := states.take_error(spec.shard, spec.group):
            ctx.event(MachinesEvent.PROVIDER_ERROR, error, type_="Warning")
        if self._paused(group.metadata, ctx):
            ctx.status.skip_write()  # a generation without any action is not observed
            return Done()
        ready = group.find_condition(MachinesCondition.READY)
        accepted = ready is not None and ready.is_true and ready.observed_generation == group.metadata.generation
        view = states.view(spec.shard, spec.group)
        step = next_step(wanted_config(spec), view, accepted=accepted, static=bool(group.status.is_static))
        if isinstance(step, WaitForShard):
            _set(unreachable(step.problem, pending=not accepted), ctx)
            if accepted:
                return Done()
            raise RetryAfter(settings.unreachable_retry, f"shard {spec.shard}: {step.problem}")
        differing: tuple[str, ...] = ()
        if isinstance(step, SendGroup):
            try:
                shown = await self._send(spec.shard, spec.group, step.config)
            except ShardFailure as failure:
                _set(conditions_of_failure(failure, ready_reason=GroupReason.PROVIDER_ERROR), ctx)
                raise RetryAfter(self._delays.after(group.uid, failure), str(failure)) from failure
            differing = drift(step.config, shown)
        else:
            shown = step.shown
        self._delays.forget(group.uid)
        ids = admitted_ids(shown.provider_ids, group.status.provider_ids, _ids_of_others(group, shown, ctx))
        _show(group, replace(shown, provider_ids=ids.ids), ctx)
        wanted = wanted_config(spec)
        static = static_differences(wanted, shown)
        _set(in_sync(leftover_vars(wanted, shown), static=static, differing=differing), ctx)
        if not ids.foreign:
            return RequeueAfter(settings.retry) if differing else Done()
        message = f"the shard lists {len(ids.foreign)} instances that are recorded for another shard: they are left out"
        ctx.event(MachinesEvent.PROVIDER_ERROR, message, type_="Warning")
        return RequeueAfter(settings.unreachable_retry)

    async def finalize(self, group: NstanceShardGroup, ctx: Context[NstanceShardGroup]) -> Outcome:
        """Delete the group on its shard; Done if the shard confirmed the deletion, or is no longer configured."""
        spec, states, settings = group.spec, self._service.states, self._service.settings
        if not self._service.acts_in(group.namespace):
            ctx.status.skip_write()
            return Done()
        if self._paused(group.metadata, ctx):
            ctx.status.skip_write()
            return RequeueAfter(settings.retry)
        view = states.view(spec.shard, spec.group)
        if not _may_delete(group, ctx):
            message = "it was no share of a pool, so the group stays as it is on the shard"
            ctx.event(MachinesEvent.DELETE_SUCCEEDED, message)
        elif not view.known:
            message = f"shard {spec.shard} is not in the document of shards: the group may still be there"
            ctx.event(MachinesEvent.DELETE_FAILED, message, type_="Warning")
        else:
            try:
                await self._service.shard(spec.shard).delete_group(spec.group)
            except ShardFailure as failure:
                if failure.kind is not FailureKind.INVALID:  # a name that no group can have was never sent
                    _set(conditions_of_failure(failure, ready_reason=GroupReason.DELETE_FAILED), ctx)
                    return RequeueAfter(settings.unreachable_retry)
            states.deleted(spec.shard, spec.group)
            ctx.event(MachinesEvent.DELETE_SUCCEEDED, f"group {spec.group} is deleted on shard {spec.shard}")
        states.unfollow(ctx.key)
        self._delays.forget(group.uid)
        return Done()

    async def _send(self, shard: str, key: str, config: GroupConfig) -> Group:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            shown = await self._service.shard(shard).upsert_group(key, config)
        except ShardFailure:
            self._metrics.refused.labels(shard).inc()
            raise
        self._metrics.upserts.labels(shard).observe(loop.time() - began)
        if shown.key != key:
            raise failure_of_message(shard, ValueError(f"the response to group {key} is about another group"))
        self._service.states.answered(shard, shown)
        return shown

    def _paused(self, metadata: Metadata, ctx: Context[NstanceShardGroup]) -> str:
        return pause_of_group(metadata, ctx.cache, cluster=self._service.settings.cluster_name)


def _pool_of(group: NstanceShardGroup, ctx: Context[NstanceShardGroup]) -> Object | None:
    """Return the pool that a shard group names as its controller; its uid is compared by the decision."""
    owner = group.metadata.controller
    return None if owner is None else ctx.cache(POOL).find(group.namespace, owner.name)


def _may_delete(group: NstanceShardGroup, ctx: Context[NstanceShardGroup]) -> bool:
    """Tell whether a shard group had its group on the shard: as the share of a pool, or by the status, which no user writes."""
    sent = has_share_name(group) and group.status.last_sync_time is not None
    return sent or is_named_share(group, _pool_of(group, ctx))


def _ids_of_others(group: NstanceShardGroup, shown: Group, ctx: Context[NstanceShardGroup]) -> set[str]:
    """Return the bare ids, new in a listing, that are recorded for other shards. Checking each known id would decode whole shard groups."""
    found = set()
    for wanted in {bare_id(one) for one in shown.provider_ids if one not in group.status.provider_ids}:
        records = (
            one for kind in (SHARD_GROUP, NSTANCE_MACHINE) for one in ctx.cache(kind).by_index(BY_RECORDED_ID, wanted)
        )
        if any(one.namespace == group.namespace and recorded_shard(one) != group.spec.shard for one in records):
            found.add(wanted)
    return found


def _set(conditions: Iterable[ConditionUpdate], ctx: Context[NstanceShardGroup]) -> None:
    for one in conditions:
        ctx.status.set_condition(one.type, one.status, one.reason, one.message)


def _show(group: NstanceShardGroup, shown: Group, ctx: Context[NstanceShardGroup]) -> None:
    """Set the fields of the status; the time changes only with them, so that a listing without news writes nothing."""
    draft, before = ctx.status.draft, group.status
    config, ids = shown_config(shown), tuple(sorted(shown.provider_ids))
    news = (shown.actual_size, ids, shown.is_static, config) != (
        before.replicas,
        before.provider_ids,
        before.is_static,
        before.config,
    )
    draft.replicas, draft.provider_ids, draft.is_static, draft.config = shown.actual_size, ids, shown.is_static, config
    if news or before.last_sync_time is None:
        draft.last_sync_time = rfc3339(ctx.now())
