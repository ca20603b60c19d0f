"""The reconciler of NstanceShardGroups: it observes, decides and executes, and calls the shard in between (`act`).

Guarantees: Kubernetes wins: a group that was deleted or changed on the server is sent again. An error leaves the observed generation as it
is. Only a share of a pool is sent: the shard group is in the operator's namespace, the pool controls it, and it has the settings of the
pool and the name of group and shard, which no second object can have. Only a shard group deletes its group on the shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceShardGroup, NstanceShardGroupSpec
from konverge.errors import RetryAfter
from konverge.outcome import Done, Outcome
from konverge.reconcilers.machines.gates import finalize_gate, reconcile_gate
from konverge.reconcilers.machines.groups.act import delete_group, send_group
from konverge.reconcilers.machines.groups.config import wanted_config
from konverge.reconcilers.machines.groups.decide import (
    SendGroup,
    WaitForShard,
    deletion_obstacle,
    is_accepted,
    next_step,
    plan_deletion_failure,
    plan_failure,
    plan_not_of_pool,
    plan_synced,
    plan_unreachable,
)
from konverge.reconcilers.machines.groups.observe import observe, observe_ids
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.shards.failures import ShardFailure
from konverge.reconcilers.machines.shards.messages import Group, GroupConfig
from konverge.reconcilers.machines.shards.retries import FailureDelays
from konverge.reconcilers.machines.words import MachinesEvent
from konverge.runtime import Plan
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ShardGroupReconciler"]


class ShardGroupReconciler:
    """Keeps one group on one shard."""

    def __init__(self, service: NstanceService, metrics: MachineMetrics) -> None:
        self._service = service
        self._metrics = metrics
        self._delays = FailureDelays(service.settings)

    async def reconcile(self, group: NstanceShardGroup, ctx: Context[NstanceShardGroup]) -> Outcome:
        """Send the group if its shard lacks it, and show the shard's group."""
        states, settings = self._service.states, self._service.settings
        if (closed := reconcile_gate(ctx, self._service)) is not None:
            return closed
        spec = observe(group, ctx).spec
        if spec is None:
            states.unfollow(ctx.key)
            return await ctx.execute(plan_not_of_pool(group))
        states.follow(ctx.key, spec.shard, spec.group)
        if error := states.take_error(spec.shard, spec.group):
            ctx.event(MachinesEvent.PROVIDER_ERROR, error, type_=EventType.WARNING)
        if ctx.paused:
            ctx.status.skip_write()
            return Done()
        accepted = is_accepted(group)
        view = states.view(spec.shard, spec.group)
        step = next_step(wanted_config(spec), view, accepted=accepted, static=bool(group.status.is_static))
        if isinstance(step, WaitForShard):
            outcome = await ctx.execute(plan_unreachable(step, accepted=accepted))
            if accepted:
                return outcome
            raise RetryAfter(settings.unreachable_retry, f"shard {spec.shard}: {step.problem}")
        shown = await self._send(group, spec, step.config, ctx) if isinstance(step, SendGroup) else step.shown
        self._delays.forget(group.uid)
        ids = observe_ids(group, shown, ctx)
        return await ctx.execute(plan_synced(group, spec, shown, ids, step, settings, ctx.now()))

    async def finalize(self, group: NstanceShardGroup, ctx: Context[NstanceShardGroup]) -> Outcome:
        """Delete the group on its shard; Done if the shard confirmed the deletion, or is no longer configured."""
        spec, states, settings = group.spec, self._service.states, self._service.settings
        if (closed := finalize_gate(ctx, self._service)) is not None:
            return closed
        obstacle = deletion_obstacle(group, observe(group, ctx).pool, states.view(spec.shard, spec.group))
        if obstacle is not None:
            await ctx.execute(Plan(events=(obstacle,)))
        else:
            try:
                await delete_group(spec, self._service)
            except ShardFailure as failure:
                return await ctx.execute(plan_deletion_failure(failure, settings))
            ctx.event(MachinesEvent.DELETE_SUCCEEDED, f"group {spec.group} is deleted on shard {spec.shard}")
        states.unfollow(ctx.key)
        self._delays.forget(group.uid)
        return Done()

    async def _send(
        self,
        group: NstanceShardGroup,
        spec: NstanceShardGroupSpec,
        config: GroupConfig,
        ctx: Context[NstanceShardGroup],
    ) -> Group:
        """Send the group; raises RetryAfter after a failure, which the status shows."""
        try:
            return await send_group(spec, config, self._service, self._metrics)
        except ShardFailure as failure:
            await ctx.execute(plan_failure(failure))
            raise RetryAfter(self._delays.after(group.uid, failure), str(failure)) from failure
