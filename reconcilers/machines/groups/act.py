"""The calls of a shard about one group. They raise ShardFailure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceShardGroupSpec
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure, failure_of_message
from konverge.reconcilers.machines.shards.messages import Group, GroupConfig

if TYPE_CHECKING:
    from konverge.reconcilers.machines.service import NstanceService

__all__ = ["delete_group", "send_group"]


async def send_group(
    spec: NstanceShardGroupSpec, config: GroupConfig, service: NstanceService, metrics: MachineMetrics
) -> Group:
    """Send the settings of a group, and return the group as the shard has it then."""
    shard, loop = spec.shard, asyncio.get_running_loop()
    began = loop.time()
    try:
        shown = await service.shard(shard).upsert_group(spec.group, config)
    except ShardFailure:
        metrics.refused.labels(shard).inc()
        raise
    metrics.upserts.labels(shard).observe(loop.time() - began)
    if shown.key != spec.group:
        raise failure_of_message(shard, ValueError(f"the response to group {spec.group} is about another group"))
    service.states.answered(shard, shown)
    return shown


async def delete_group(spec: NstanceShardGroupSpec, service: NstanceService) -> None:
    """Delete a group on its shard."""
    try:
        await service.shard(spec.shard).delete_group(spec.group)
    except ShardFailure as failure:
        if failure.kind is not FailureKind.INVALID:  # a name that no group can have was never sent
            raise
    service.states.deleted(spec.shard, spec.group)
