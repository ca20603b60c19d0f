"""A shard group with its pool, its pause, and the records of other shards, from the caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceShardGroup, NstanceShardGroupSpec
from konverge.objects import Metadata, Object
from konverge.reconcilers.machines.gates import pause_of
from konverge.reconcilers.machines.groups.shares import pool_share
from konverge.reconcilers.machines.kinds import NSTANCE_MACHINE, POOL, SHARD_GROUP
from konverge.reconcilers.machines.records import (
    BY_RECORDED_ID,
    AdmittedIds,
    admitted_ids,
    bare_id,
    recorded_shard,
)
from konverge.reconcilers.machines.shards.messages import Group
from konverge.reconcilers.machines.words import MachinesAnnotation

if TYPE_CHECKING:
    from konverge.runtime import Caches, Context

__all__ = ["ObservedGroup", "observe", "observe_ids", "pause_of_group"]


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """A shard group and the pool that it names as its controller; the uid of the pool may differ from the reference."""

    group: NstanceShardGroup
    pool: Object | None
    spec: NstanceShardGroupSpec | None
    """The settings to send; None if the pool has no such share."""


def observe(group: NstanceShardGroup, ctx: Context[NstanceShardGroup]) -> ObservedGroup:
    """Return a shard group with its pool."""
    owner = group.metadata.controller
    pool = None if owner is None else ctx.cache(POOL).find(group.namespace, owner.name)
    return ObservedGroup(group, pool, pool_share(group, pool))


def pause_of_group(metadata: Metadata, caches: Caches, cluster: str) -> str:
    """Return why a shard group is not to be reconciled, "" if it is: the shard group or its pool is paused."""
    owner = metadata.controller
    pool = None if owner is None else caches(POOL).metadata(metadata.namespace, owner.name)
    if pool is None or MachinesAnnotation.PAUSED in (metadata.annotations or {}):
        return pause_of(metadata, caches, cluster)
    return pause_of(pool, caches, cluster)  # its label names the Cluster


def observe_ids(group: NstanceShardGroup, shown: Group, ctx: Context[NstanceShardGroup]) -> AdmittedIds:
    """Return the ids of a listing that belong to the shard by the records of the operator.

    Only the records of new ids are read: the read of each known id would decode whole shard groups.
    """
    known, others = group.status.provider_ids, set()
    for wanted in {bare_id(provider_id) for provider_id in shown.provider_ids if provider_id not in known}:
        kinds = (SHARD_GROUP, NSTANCE_MACHINE)
        records = (record for kind in kinds for record in ctx.cache(kind).by_index(BY_RECORDED_ID, wanted))
        if any(
            record.namespace == group.namespace and recorded_shard(record) != group.spec.shard for record in records
        ):
            others.add(wanted)
    return admitted_ids(shown.provider_ids, known, others)
