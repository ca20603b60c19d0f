"""The reconciler of NstanceMachinePools: the async shell around `decide`.

Guarantees: a MachinePool is created only if the pool has none and never had one, with the servers' number of replicas at that time, so that
its creation scales nothing. After that its replicas are read and never written. A pool that is being deleted waits for its shard groups,
which delete the group on the servers; the pool itself calls no server.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import Initialization, NstanceMachinePool, NstanceShardGroup
from konverge.errors import AlreadyExists
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.clusters.render import machine_pool
from konverge.reconcilers.machines.gates import finalize_gate, reconcile_gate
from konverge.reconcilers.machines.groups.decide import has_share_name
from konverge.reconcilers.machines.kinds import CAPI_GROUP, MACHINE_POOL, NODE, POOL
from konverge.reconcilers.machines.pools.decide import (
    MachinePoolPlan,
    SameGroupPool,
    SeenPool,
    ShardSize,
    duplicate_of,
    plan_pool,
    unlisted_ids,
)
from konverge.reconcilers.machines.pools.indexes import BY_GROUP, BY_INSTANCE, BY_POOL, BY_PROVIDER_ID
from konverge.reconcilers.machines.pools.render import group_spec, shard_group
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.words import MachinePoolReason, MachinesCondition, MachinesLabel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from konverge.objects import Metadata
    from konverge.runtime import Context

__all__ = ["MachinePoolReconciler"]


class MachinePoolReconciler:
    """Distributes the replicas of a MachinePool over the shards of its pool."""

    def __init__(self, service: NstanceService) -> None:
        self._service = service
        self._unlisted: dict[str, dict[str, float]] = {}

    async def reconcile(self, pool: NstanceMachinePool, ctx: Context[NstanceMachinePool]) -> Outcome:
        """Write the shard groups, the provider ids and the status."""
        settings = self._service.settings
        if (closed := reconcile_gate(ctx, self._service)) is not None:
            return closed
        owner = _machine_pool(pool.metadata, ctx)
        seen = self._observe(pool, owner, ctx)
        if owner is None and not seen.duplicate_of:
            problem = await self._make_owner(pool, ctx)
            seen = self._observe(pool, owner, ctx, problem)
        plan = plan_pool(seen, lambda instance: _nodes(instance, ctx))
        if plan.sizes is not None:
            await ctx.apply_children(shard_group(pool, shard, size) for shard, size in plan.sizes.items())
        if seen.duplicate_of == "" and plan.provider_ids != tuple(pool.spec.provider_id_list):
            await ctx.apply(_with_ids(pool, plan.provider_ids), force=True)
        self._report(pool, plan, owner, ctx)
        if plan.sizes is None:
            self._service.states.wait_for_all(ctx.key)
        if plan.reason == MachinePoolReason.INVALID:
            return RequeueAfter(timedelta(seconds=settings.unreachable_retry))
        return RequeueAfter(settings.retire_after / 3) if seen.kept else Done()

    async def finalize(self, pool: NstanceMachinePool, ctx: Context[NstanceMachinePool]) -> Outcome:
        """Delete the shard groups; Done once none exists. A paused pool waits, a pool of another namespace has none."""
        settings = self._service.settings
        if (closed := finalize_gate(ctx, self._service)) is not None:
            return closed
        groups = _owned(pool.metadata, ctx)
        for one in groups:
            if not one.deleting:
                await ctx.delete(NstanceShardGroup, one.name, one.namespace, uid=one.uid)
        self._unlisted.pop(pool.uid, None)
        if groups:
            names = ", ".join(sorted(one.name for one in groups))
            ctx.status.set_condition(MachinesCondition.READY, False, MachinePoolReason.DELETING, f"waits for {names}")
            return RequeueAfter(timedelta(seconds=settings.retry))
        return Done()

    def _kept(self, pool: NstanceMachinePool, members: Iterable[ShardSize]) -> tuple[str, ...]:
        """Return the ids that stay though no shard lists them: Cluster API deletes the Node of an id that leaves.

        An instance that is being drained still runs. A listing without it may arrive before the event of its drain, and a server that has
        just started may list too few.
        """
        states, now = self._service.states, asyncio.get_running_loop().time()
        before = self._unlisted.get(pool.uid, {})
        since = {one: before.get(one, now) for one in unlisted_ids(pool.spec.provider_id_list, members)}
        if since:
            self._unlisted[pool.uid] = since
        else:
            self._unlisted.pop(pool.uid, None)
        fresh = now - self._service.settings.retire_after
        return tuple(one for one, begun in since.items() if begun > fresh or states.drains(one.rpartition("/")[2]))

    def _observe(
        self, pool: NstanceMachinePool, owner: Object | None, ctx: Context[NstanceMachinePool], owner_problem: str = ""
    ) -> SeenPool:
        owned = ctx.cache(NstanceShardGroup).by_index("owner", pool.uid)
        groups = [group for group in owned if group.namespace == pool.namespace and has_share_name(group)]
        members = tuple(_member(pool, group) for group in sorted(groups, key=lambda one: one.spec.shard))
        replicas = None if owner is None else owner.get("spec", "replicas", default=0) or 0
        return SeenPool(
            group=pool.spec.group,
            shards=pool.spec.shards,
            document=self._service.states.expected,
            replicas=replicas,
            owner_problem=owner_problem,
            duplicate_of=_duplicate(pool, groups, ctx),
            members=members,
            published=pool.spec.provider_id_list,
            kept=self._kept(pool, members),
        )

    async def _make_owner(self, pool: NstanceMachinePool, ctx: Context[NstanceMachinePool]) -> str:
        """Create the MachinePool of a pool that never had one; returns why the pool has none."""
        owners = pool.metadata.owner_references or ()
        if pool.status.observed_owner_generation is not None or any(
            one.kind == "MachinePool" and one.group == CAPI_GROUP for one in owners
        ):
            return "its MachinePool is gone: delete the pool too, or create the MachinePool again"
        if ctx.cache(MACHINE_POOL).metadata(pool.namespace, pool.name) is not None:
            return f"MachinePool {pool.name} refers to other infrastructure: refer to this pool by another MachinePool"
        replicas = self._service.states.size_of(pool.spec.group)
        if replicas is None:
            return "waits for every shard, to make a MachinePool with as many replicas as the group has"
        cluster = pool.metadata.label(MachinesLabel.CLUSTER) or self._service.settings.cluster_name
        try:
            await ctx.client.create(
                machine_pool(
                    pool.name,
                    pool.namespace,
                    cluster=cluster,
                    replicas=replicas,
                    labels=self._service.settings.filter_labels,
                )
            )
        except AlreadyExists:
            return "waits for the cache to show its MachinePool"
        return "its MachinePool was made"

    def _report(
        self, pool: NstanceMachinePool, plan: MachinePoolPlan, owner: Object | None, ctx: Context[NstanceMachinePool]
    ) -> None:
        draft = ctx.status.draft
        ctx.status.set_condition(MachinesCondition.READY, plan.ready, plan.reason, plan.message)
        if plan.reason == MachinePoolReason.DUPLICATE_GROUP:
            return
        draft.replicas, draft.is_static = plan.replicas, plan.is_static
        # Cluster API watches no Node of a Cluster that is not initialized: a change of this status triggers a read of the Nodes.
        nodes = ctx.cache(NODE)
        draft.nodes = sum(len(nodes.metadata_by_index(BY_PROVIDER_ID, one)) for one in plan.provider_ids)
        draft.template, draft.subnets = plan.template, plan.subnets
        if plan.ready or pool.status.ready:  # once true it stays: Cluster API reverts a pool to not ready otherwise
            draft.ready, draft.initialization = True, Initialization(provisioned=True)
        else:
            draft.ready = False
        if owner is not None and plan.sizes is not None:
            draft.observed_owner_generation = owner.metadata.generation


def _machine_pool(pool: Metadata, ctx: Context[NstanceMachinePool]) -> Object | None:
    """Return the MachinePool that refers to a pool; of several the first by name."""
    found = ctx.cache(MACHINE_POOL).by_index(BY_POOL, f"{pool.namespace}/{pool.name}")
    return min(found, key=lambda one: one.name, default=None)


def _nodes(instance: str, ctx: Context[NstanceMachinePool]) -> Iterable[str]:
    nodes = ctx.cache(NODE).by_index(BY_INSTANCE, instance.rpartition("/")[2])
    return [str(node.get("spec", "providerID", default="")) for node in nodes]


def _duplicate(pool: NstanceMachinePool, groups: list[NstanceShardGroup], ctx: Context[NstanceMachinePool]) -> str:
    own = SameGroupPool(pool.uid, pool.metadata.path, pool.metadata.created, bool(groups))
    same_group = ctx.cache(POOL).metadata_by_index(BY_GROUP, f"{pool.namespace}/{pool.spec.group}")
    others = [one for one in same_group if one.uid != pool.uid]
    return duplicate_of(own, [SameGroupPool(one.uid, one.path, one.created, bool(_owned(one, ctx))) for one in others])


def _owned(pool: Metadata, ctx: Context[NstanceMachinePool]) -> list[Metadata]:
    """Return the shard groups that name a pool as their controller. In another namespace an owner reference means nothing."""
    found = ctx.cache(NstanceShardGroup).metadata_by_index("owner", pool.uid)
    return [one for one in found if one.namespace == pool.namespace]


def _member(pool: NstanceMachinePool, group: NstanceShardGroup) -> ShardSize:
    ready, status = group.find_condition(MachinesCondition.READY), group.status
    current = ready is not None and ready.observed_generation == group.metadata.generation
    return ShardSize(
        shard=group.spec.shard,
        size=group.spec.size,
        accepted=ready is not None and current and ready.is_true,
        problem=ready.message if ready is not None and current else "",
        replicas=status.replicas or 0,
        provider_ids=status.provider_ids,
        is_static=bool(status.is_static),
        template=None if status.config is None else status.config.template,
        subnets=() if status.config is None else status.config.subnets,
        copied=group.spec == group_spec(pool, group.spec.shard, group.spec.size),
    )


def _with_ids(pool: NstanceMachinePool, ids: tuple[str, ...]) -> Object:
    return POOL.new(pool.name, pool.namespace, spec={"providerIDList": list(ids)})
