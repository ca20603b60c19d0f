"""A pool with its MachinePool, its shard groups and the Nodes of its instances, from the caches."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceMachinePool, NstanceShardGroup
from konverge.objects import Metadata, Object
from konverge.reconcilers.machines.groups.shares import has_share_name
from konverge.reconcilers.machines.kinds import MACHINE_POOL, NODE, POOL
from konverge.reconcilers.machines.pools.duplicates import SameGroupPool, duplicate_of
from konverge.reconcilers.machines.pools.indexes import BY_GROUP, BY_INSTANCE, BY_POOL
from konverge.reconcilers.machines.pools.render import group_spec
from konverge.reconcilers.machines.pools.unlisted import UnlistedIds, unlisted_ids
from konverge.reconcilers.machines.words import MachinesCondition

if TYPE_CHECKING:
    from konverge.reconcilers.machines.service import NstanceService
    from konverge.runtime import Context

__all__ = ["ObservedPool", "ShardSize", "machine_pool_of", "observe", "owned_groups"]


@dataclass(frozen=True, slots=True)
class ShardSize:
    """A shard group of the pool."""

    shard: str
    size: int = 0
    accepted: bool = False
    """Whether the shard accepted its present generation."""
    problem: str = ""
    replicas: int = 0
    provider_ids: tuple[str, ...] = ()
    is_static: bool = False
    template: str | None = None
    subnets: tuple[str, ...] = ()
    copied: bool = True
    """Whether it has the present settings of the pool, its size aside."""


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """A pool as it was observed."""

    group: str
    shards: tuple[str, ...]
    document: Collection[str] | None
    """The shards that the document names; None: it was not read yet."""
    replicas: int | None
    """The replicas of the MachinePool; None without a MachinePool."""
    owner_generation: int | None = None
    """The generation of the MachinePool."""
    owner_problem: str = ""
    """The reason why its MachinePool is missing."""
    duplicate_of: str = ""
    members: tuple[ShardSize, ...] = ()
    published: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """The published ids that stay although no shard lists them now."""
    node_ids: tuple[str, ...] = ()
    """The provider ids of the Nodes that may be of an instance or of a published id, an id for each Node."""


def observe(
    pool: NstanceMachinePool,
    owner: Object | None,
    unlisted: UnlistedIds,
    ctx: Context[NstanceMachinePool],
    service: NstanceService,
    owner_problem: str = "",
) -> ObservedPool:
    """Return a pool as the caches and the last listings show it."""
    states = service.states
    owned = ctx.cache(NstanceShardGroup).by_index("owner", pool.uid)
    groups = [group for group in owned if group.namespace == pool.namespace and has_share_name(group)]
    members = tuple(_member(pool, group) for group in sorted(groups, key=lambda group: group.spec.shard))
    published = pool.spec.provider_id_list
    listed = [provider_id for member in members for provider_id in member.provider_ids]
    return ObservedPool(
        group=pool.spec.group,
        shards=pool.spec.shards,
        document=states.expected,
        replicas=None if owner is None else owner.get("spec", "replicas", default=0) or 0,
        owner_generation=None if owner is None else owner.metadata.generation,
        owner_problem=owner_problem,
        duplicate_of=_duplicate_of(pool, groups, ctx),
        members=members,
        published=published,
        kept=unlisted.kept(
            pool.uid,
            unlisted_ids(published, listed),
            asyncio.get_running_loop().time(),
            retire_after=service.settings.retire_after,
            drains=states.drains,
        ),
        node_ids=_node_ids((*published, *listed), ctx),
    )


def machine_pool_of(pool: Metadata, ctx: Context[NstanceMachinePool]) -> Object | None:
    """Return the MachinePool that refers to a pool; of several the first by name."""
    owners = ctx.cache(MACHINE_POOL).by_index(BY_POOL, f"{pool.namespace}/{pool.name}")
    return min(owners, key=lambda owner: owner.name, default=None)


def owned_groups(pool: Metadata, ctx: Context[NstanceMachinePool]) -> list[Metadata]:
    """Return the shard groups that name a pool as their controller. In another namespace an owner reference means nothing."""
    groups = ctx.cache(NstanceShardGroup).metadata_by_index("owner", pool.uid)
    return [group for group in groups if group.namespace == pool.namespace]


def _node_ids(provider_ids: Iterable[str], ctx: Context[NstanceMachinePool]) -> tuple[str, ...]:
    cache, instances = ctx.cache(NODE), {provider_id.rpartition("/")[2] for provider_id in provider_ids}
    nodes = (node for instance in sorted(instances) for node in cache.by_index(BY_INSTANCE, instance))
    return tuple(str(node.get("spec", "providerID", default="")) for node in nodes)


def _duplicate_of(pool: NstanceMachinePool, groups: list[NstanceShardGroup], ctx: Context[NstanceMachinePool]) -> str:
    own = SameGroupPool(pool.uid, pool.metadata.path, pool.metadata.created, bool(groups))
    same_group = ctx.cache(POOL).metadata_by_index(BY_GROUP, f"{pool.namespace}/{pool.spec.group}")
    others = [other for other in same_group if other.uid != pool.uid]
    return duplicate_of(
        own, [SameGroupPool(other.uid, other.path, other.created, bool(owned_groups(other, ctx))) for other in others]
    )


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
