"""The reconciler of NstanceShardGroups: the async shell around `decide`.

Guarantees: Kubernetes has the last word: a group that is gone or was changed on the server is sent again. An error leaves the observed
generation as it is. Of several shard groups of one group on one shard the oldest has it; the others send nothing. A group is deleted on
its shard by its shard group alone, and only if no other shard group has it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from konverge.clock import rfc3339
from konverge.crds.machines_v1beta1 import NstanceShardGroup
from konverge.errors import RetryAfter
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.groups.decide import (
    SendGroup,
    WaitForShard,
    conditions_of_failure,
    duplicate,
    first_of_place,
    in_sync,
    leftover_vars,
    next_step,
    shown_config,
    unreachable,
    wanted_config,
)
from konverge.reconcilers.machines.kinds import POOL
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.machines.pausing import pause_of
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import Group, GroupConfig
from konverge.reconcilers.machines.shards.retries import FailureDelays
from konverge.reconcilers.machines.words import GroupReason, MachinesAnnotation, MachinesCondition, MachinesEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from konverge.informers import Cached, Change
    from konverge.kinds import Kind
    from konverge.objects import Metadata, Object
    from konverge.runtime import Caches, ConditionUpdate, Context
    from konverge.runtime.cache.readers import Reader

__all__ = ["BY_PLACE", "ShardGroupReconciler", "by_place", "comes_or_goes", "others_of_place", "pause_of_group"]

BY_PLACE = "place"


def by_place(group: NstanceShardGroup) -> tuple[str, ...]:
    """Return the values of the index BY_PLACE."""
    return (f"{group.spec.shard}/{group.spec.group}",)


def others_of_place(group: NstanceShardGroup, caches: Caches) -> Iterable[Key]:
    """Map a shard group to the others of its group on its shard."""
    (place,) = by_place(group)
    others = caches(NstanceShardGroup).metadata_by_index(BY_PLACE, place)
    kind = kind_of(NstanceShardGroup)
    return [Key("", kind, one.namespace, one.name) for one in others if one.uid != group.uid]


def comes_or_goes(change: Change) -> bool:
    """Accept the changes of a shard group that others of its group look at."""

    def place(cached: Cached | None) -> tuple[str, ...]:
        return () if cached is None else (cached.metadata.uid, *by_place(cached.decode(kind_of(NstanceShardGroup))))

    return place(change.old) != place(change.new)


def pause_of_group(metadata: Metadata, cache: Callable[[Kind[Object]], Reader[Object]], *, cluster: str) -> str:
    """Return why a shard group is not to be reconciled, "" if it is: it is paused by itself or with its pool."""
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

    async def reconcile(self, group: NstanceShardGroup, ctx: Context[Any]) -> Outcome:
        """Send the group if its shard lacks it, and show what the shard has."""
        spec, states, settings = group.spec, self._service.states, self._service.settings
        states.follow(ctx.key, spec.shard, spec.group)
        first = first_of_place(group.metadata, self._others(group, ctx))
        if first.uid != group.uid:
            _set((duplicate(first.path),), ctx)
            return Done()
        if error := states.take_error(spec.shard, spec.group):
            ctx.event(MachinesEvent.PROVIDER_ERROR, error, type_="Warning")
        if self._paused(group.metadata, ctx):
            ctx.status.skip_write()  # a generation that nothing was done about is not observed
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
        if isinstance(step, SendGroup):
            try:
                shown = await self._send(spec.shard, spec.group, step.config)
            except ShardFailure as failure:
                _set(conditions_of_failure(failure, ready_reason=GroupReason.PROVIDER_ERROR), ctx)
                raise RetryAfter(self._delays.after(group.uid, failure), str(failure)) from failure
        else:
            shown = step.shown
        self._delays.forget(group.uid)
        _show(group, shown, ctx)
        _set(in_sync(leftover_vars(wanted_config(spec), shown)), ctx)
        return Done()

    async def finalize(self, group: NstanceShardGroup, ctx: Context[Any]) -> Outcome:
        """Delete the group on its shard; Done when the shard confirmed it, or is not configured any more."""
        spec, states, settings = group.spec, self._service.states, self._service.settings
        if self._paused(group.metadata, ctx):
            ctx.status.skip_write()
            return RequeueAfter(settings.retry)
        view = states.view(spec.shard, spec.group)
        if self._others(group, ctx):
            ctx.event(MachinesEvent.DELETE_SUCCEEDED, "another shard group has the group, so it stays on the shard")
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

    def _others(self, group: NstanceShardGroup, ctx: Context[Any]) -> list[Metadata]:
        (place,) = by_place(group)
        found = ctx.cache(NstanceShardGroup).metadata_by_index(BY_PLACE, place)
        return [one for one in found if one.uid != group.uid]

    async def _send(self, shard: str, key: str, config: GroupConfig) -> Group:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            shown = await self._service.shard(shard).upsert_group(key, config)
        except ShardFailure:
            self._metrics.refused.labels(shard).inc()
            raise
        self._metrics.upserts.labels(shard).observe(loop.time() - began)
        self._service.states.answered(shard, shown)
        return shown

    def _paused(self, metadata: Metadata, ctx: Context[Any]) -> str:
        return pause_of_group(metadata, ctx.cache, cluster=self._service.settings.cluster_name)


def _set(conditions: Iterable[ConditionUpdate], ctx: Context[Any]) -> None:
    for one in conditions:
        ctx.status.set_condition(one.type, one.status, one.reason, one.message)


def _show(group: NstanceShardGroup, shown: Group, ctx: Context[Any]) -> None:
    """Set the fields of the status; the time moves with them alone, so that a listing without news writes nothing."""
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
