"""Removes the Nodes of drained and deleted instances: Cluster API keeps the Nodes of a deleted pool, and not every cloud deletes them.

Guarantees: a Node is deleted by its uid, and only if this operator marked it in a drain, its shard reports the instance as deleted, and its
kubelet does not report any more. The mark is written with the cordon, so no crash loses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from konverge.errors import ApiError, Conflict, KonvergeError, NotLeading
from konverge.logs import get_logger
from konverge.objects import Object
from konverge.reconcilers.machines.drains.decide import removable_instance
from konverge.reconcilers.machines.instances.decide import is_gone
from konverge.reconcilers.machines.instances.ownership import InstancePlace
from konverge.reconcilers.machines.kinds import NODE
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.words import MachinesEvent, MachinesLabel
from konverge.runtime.events.core import Regarding
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.reconcilers.machines.shards.client import ShardClient
    from konverge.runtime.parts.background import BackgroundServices

__all__ = ["NodeRemoval"]


class NodeRemoval:
    """Deletes the Nodes of drained and deleted instances; `run` never returns.

    `shard` returns the client of a shard, or raises ShardFailure.
    """

    def __init__(
        self, services: BackgroundServices, settings: MachineSettings, shard: Callable[[str], ShardClient]
    ) -> None:
        self._client = services.client
        self._events = services.events
        self._settings = settings
        self._shard = shard
        self._log = get_logger("konverge.machines")

    async def run(self) -> None:
        """Check the marked Nodes as often as the groups of a shard are listed."""
        reported = ""
        while True:
            problem = await self._check()
            if problem and problem != reported:
                self._log.warning("Nodes of deleted instances are not deleted", **{LogKey.ERROR: problem})
            reported = problem
            await asyncio.sleep(self._settings.poll)

    async def _check(self) -> str:
        """Delete the Nodes of deleted instances; returns the problem, "" if there is none."""
        try:
            marked = await self._client.list(NODE, labels=f"{MachinesLabel.DRAINED_BY}={self._settings.cluster_name}")
        except NotLeading:
            raise
        except (ApiError, KonvergeError) as error:
            return str(error)
        problem = ""
        for node in marked.items:
            try:
                await self._remove(node)
            except NotLeading:
                raise
            except Conflict:
                continue  # another Node has its name now
            except (ApiError, KonvergeError) as error:
                problem = str(error)
        return problem

    async def _remove(self, node: Object) -> None:
        """Delete a Node if its instance was deleted."""
        place = removable_instance(node)
        if place is None or not await self._is_deleted(place):
            return
        if await self._client.delete(NODE, node.name, uid=node.metadata.uid):
            message = f"instance {place.instance_id} on shard {place.shard} is gone"
            self._events.record(Regarding.of(node), MachinesEvent.NODE_DELETED, message, "Normal", "Drain")

    async def _is_deleted(self, place: InstancePlace) -> bool:
        """Tell whether the shard reports an instance as deleted; an unreachable shard reports nothing, and the next check tries again."""
        try:
            return is_gone((await self._shard(place.shard).instance_state(place.instance_id)).status)
        except ShardFailure as failure:
            return failure.kind is FailureKind.NOT_FOUND
