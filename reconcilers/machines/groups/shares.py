"""Which shard groups are shares of a pool: only a share is sent to its shard, or deleted on the shard. Pure."""

from __future__ import annotations

from konverge.crds.machines_v1beta1 import NstanceShardGroup, NstanceShardGroupSpec
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import POOL
from konverge.reconcilers.machines.pools.render import group_name

__all__ = ["has_share_name", "is_named_share", "pool_share", "was_sent"]


def is_named_share(group: NstanceShardGroup, pool: Object | None) -> bool:
    """Tell whether a pool of the same namespace controls a shard group, which has the name and the group of a share of the pool."""
    owner = group.metadata.controller
    return (
        pool is not None
        and owner is not None
        and (owner.kind, owner.group, owner.uid) == (POOL.kind, POOL.group, pool.metadata.uid)
        and pool.namespace == group.namespace
        and pool.get("spec", "group", default="") == group.spec.group
        and has_share_name(group)
    )


def has_share_name(group: NstanceShardGroup) -> bool:
    """Tell whether a shard group has the name of its group and shard: no two objects of a namespace have one name."""
    return group.name == group_name(group.spec.group, group.spec.shard)


def pool_share(group: NstanceShardGroup, pool: Object | None) -> NstanceShardGroupSpec | None:
    """Return the settings to send for a shard group: its size with the settings of the pool, None if the pool has no such share.

    The settings of the shard group are a copy, and another writer can add a key of vars to it: only the pool's own vars count.
    """
    if pool is None or not is_named_share(group, pool):
        return None
    spec = pool.get("spec", default={}) or {}
    if group.spec.shard not in (spec.get("shards") or ()):
        return None
    settings = {
        "template": spec.get("template"),
        "instance_type": spec.get("instanceType"),
        "subnets": tuple(spec.get("subnets") or ()) or None,
        "vars": dict(spec.get("vars") or {}) or None,
    }
    return group.spec.model_copy(update=settings)


def was_sent(group: NstanceShardGroup, pool: Object | None) -> bool:
    """Tell whether a shard group had its group on the shard: as the share of a pool, or by the status, which no user writes."""
    return (has_share_name(group) and group.status.last_sync_time is not None) or is_named_share(group, pool)
