"""The shard groups of a pool. Pure."""

from __future__ import annotations

from konverge.crds.machines_v1beta1 import NstanceMachinePool, NstanceShardGroup, NstanceShardGroupSpec
from konverge.reconcilers.machines.words import MachinesLabel

__all__ = ["group_name", "group_spec", "shard_group"]


def group_name(group: str, shard: str) -> str:
    """Return the name of a shard group: unambiguous, since no identifier has two hyphens in a row.

    >>> group_name("workers", "us-west-2a")
    'workers--us-west-2a'
    """
    return f"{group}--{shard}"


def group_spec(pool: NstanceMachinePool, shard: str, size: int) -> NstanceShardGroupSpec:
    """Return the part of a pool on one shard."""
    spec = pool.spec
    return NstanceShardGroupSpec(
        group=spec.group,
        shard=shard,
        size=size,
        template=spec.template,
        instance_type=spec.instance_type,
        subnets=spec.subnets,
        vars=spec.vars,
    )


def shard_group(pool: NstanceMachinePool, shard: str, size: int) -> NstanceShardGroup:
    """Return the shard group of a pool on one shard."""
    labels = {MachinesLabel.GROUP: pool.spec.group, MachinesLabel.SHARD: shard}
    for copied in (MachinesLabel.CLUSTER, MachinesLabel.WATCH_FILTER):
        if value := pool.metadata.label(copied):
            labels[copied] = value
    return NstanceShardGroup.new(
        group_name(pool.spec.group, shard), pool.namespace, spec=group_spec(pool, shard, size), labels=labels
    )
