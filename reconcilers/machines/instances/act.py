"""The calls of a shard about one instance: query, creation and deletion. They raise ShardFailure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceMachine
from konverge.reconcilers.machines.instances.ownership import InstancePlace, instance_id
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import InstanceConfig, InstanceState

if TYPE_CHECKING:
    from konverge.reconcilers.machines.service import NstanceService

__all__ = ["delete_instance", "group_of_instance", "query_or_create"]


async def query_or_create(
    machine: NstanceMachine, place: InstancePlace, service: NstanceService, *, new: bool
) -> InstanceState | None:
    """Return the state of the instance, which is created if the server never confirmed it and does not know it.

    None: the server confirmed the instance before, and does not know it any more. `new`: the place was stored just now.
    """
    client = service.shard(place.shard)
    if not new:
        try:
            return await client.instance_state(place.instance_id)
        except ShardFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            if machine.status.instance_id:
                return None
    spec = machine.spec
    config = InstanceConfig(spec.group, spec.instance_type or "", dict(spec.vars or {}))
    return await client.create_instance(place.instance_id, config)


async def group_of_instance(
    machine: NstanceMachine, place: InstancePlace, state: InstanceState | None, service: NstanceService
) -> str:
    """Return the group that the server counts an inherited instance for, "" if none: an instance on demand counts for no group.

    The groups are listed now, because the last listing may be older than the instance.
    """
    if _is_own(machine, place) or state is None or not state.provider_id:
        return ""
    groups = await service.shard(place.shard).list_groups()
    return next((group.key for group in groups if state.provider_id in group.provider_ids), "")


async def delete_instance(machine: NstanceMachine, place: InstancePlace, service: NstanceService) -> str:
    """Delete the instance, and return its status on the server, "unknown" if the server has no such instance.

    An inherited instance that counts for a group is not deleted.
    """
    try:
        client = service.shard(place.shard)
        if not _is_own(machine, place):
            state = await client.instance_state(place.instance_id)
            if group := await group_of_instance(machine, place, state, service):
                return f"left as it is, because it counts for group {group}"
        return await client.delete_instance(place.instance_id)
    except ShardFailure as failure:
        if failure.kind not in (FailureKind.NOT_FOUND, FailureKind.INVALID):  # such an id was never accepted
            raise
        return "unknown"


def _is_own(machine: NstanceMachine, place: InstancePlace) -> bool:
    return place.instance_id == instance_id(machine.uid, machine.metadata.created)
