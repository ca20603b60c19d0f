"""One drain, from its event to its acknowledgement.

Guarantees: it is acknowledged when no pod is left, when the instance has no Node, or shortly before the server deletes the instance; never
earlier, whatever fails. A Node is touched only if its instance is not recorded for another shard. Pods are listed after the Node was
cordoned. Every step may be repeated, so a drain that a crash ended starts again with the event that the server repeats.

Caveats: the time of the deletion is the server's, compared with our clock. A paused Cluster is drained too: the server deletes the instance
anyway.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from konverge.client import Client
from konverge.clock import wall_clock
from konverge.errors import KonvergeError, NotLeading
from konverge.logs import get_logger
from konverge.objects import Object
from konverge.reconcilers.machines.drains.decide import drain_times
from konverge.reconcilers.machines.drains.evictions import cordon, look_at_node
from konverge.reconcilers.machines.drains.nodes import NodeFinder
from konverge.reconcilers.machines.instances.ownership import InstancePlace
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import DrainEvent
from konverge.reconcilers.machines.words import DrainResult, MachinesEvent
from konverge.runtime.events.core import Regarding
from konverge.runtime.events.recorder import EventRecorder
from konverge.words import LogKey

__all__ = ["Acknowledge", "InstanceDrain"]

_CORDON_LIMIT: Final = 5.0
"""Seconds for the cordon of a Node whose drain has no time left."""
_FIRST_RETRY: Final = 1.0


class Acknowledge(Protocol):
    """Tells the server of a shard that an instance is drained; raises ShardFailure."""

    async def __call__(self, shard: str, instance_id: str) -> None:
        """Make the call."""


class InstanceDrain:
    """The drain of an instance."""

    def __init__(
        self,
        shard: str,
        event: DrainEvent,
        *,
        settings: MachineSettings,
        client: Client,
        nodes: NodeFinder,
        events: EventRecorder,
        acknowledge: Acknowledge,
    ) -> None:
        self.shard = shard
        self.event = event
        self.result: DrainResult | None = None
        self._settings = settings
        self._client = client
        self._nodes = nodes
        self._events = events
        self._acknowledge = acknowledge
        self._node: Object | None = None
        self._cordoned = False
        self._said: set[str] = set()
        self._left = 0
        self._log = get_logger("konverge.machines").bind(**{LogKey.NAME: f"{shard}/{event.instance_id}"})
        self._give_up = self._delete = 0.0
        self.take(event)

    def take(self, event: DrainEvent) -> None:
        """Update a running drain from a repeated event: its times may have changed."""
        now = asyncio.get_running_loop().time()
        settings = self._settings
        if event.delete_at is None and self._delete:
            return
        times = drain_times(event.delete_at, wall_clock(), timeout=settings.drain_timeout, margin=settings.drain_margin)
        self.event, self._give_up, self._delete = event, now + times.give_up, now + times.delete

    async def run(self) -> DrainResult:
        """Drain and acknowledge."""
        self._log.info("an instance is drained", **{LogKey.CAUSE: self.event.reason})
        ended = await self._empty()
        if ended is DrainResult.TIMED_OUT:
            await self._cordon_late()
            self._tell(
                MachinesEvent.DRAIN_TIMED_OUT,
                f"{self._left} pods are left, and the instance is about to be deleted",
                bad=True,
            )
        elif ended is DrainResult.DRAINED:
            self._tell(MachinesEvent.DRAINED, f"no pod is left; instance {self.event.instance_id} may be deleted")
        self.result = ended if await self.acknowledge() else DrainResult.UNACKNOWLEDGED
        self._log.info("a drain has ended", **{LogKey.OUTCOME: str(self.result)})
        return self.result

    async def acknowledge(self) -> bool:
        """Acknowledge the drain until the server accepts it or deletes the instance."""
        loop, delay = asyncio.get_running_loop(), _FIRST_RETRY
        while True:
            try:
                await self._acknowledge(self.shard, self.event.instance_id)
            except ShardFailure as failure:
                if failure.kind is FailureKind.NOT_FOUND:
                    return True
                if loop.time() >= self._delete:
                    self._tell(MachinesEvent.DRAIN_NOT_ACKNOWLEDGED, failure.said, bad=True)
                    return False
            else:
                return True
            await asyncio.sleep(min(delay, max(self._delete - loop.time(), 0.0)))
            delay = min(delay * 2, self._settings.drain_poll)

    # --- the Node --------------------------------------------------------------------------------------------------------------

    async def _empty(self) -> DrainResult:
        loop = asyncio.get_running_loop()
        while (left := self._give_up - loop.time()) > 0:
            ended = await self._bounded_look(left)
            if ended is not None:
                return ended
            await asyncio.sleep(max(min(self._settings.drain_poll, self._give_up - loop.time()), 0.0))
        return DrainResult.TIMED_OUT

    async def _bounded_look(self, seconds: float) -> DrainResult | None:
        """Check the Node within this time; a failure is tried again, since an acknowledgement after it would be a guess."""
        try:
            async with asyncio.timeout(seconds):
                return await self._look()
        except NotLeading:
            raise
        except (KonvergeError, TimeoutError) as error:
            self._warn(str(error) or "no time is left")
            return None

    async def _look(self) -> DrainResult | None:
        """Check the Node once; None if pods are left."""
        node = None if self._node is None else await self._nodes.again(self._node)
        if node is None:
            found = await self._nodes.find(self.event.provider_id)
            if not found:
                return DrainResult.NO_NODE
            if len(found) > 1:
                names = ", ".join(sorted(one.name for one in found))
                self._warn(f"provider id {self.event.provider_id} names several Nodes, so none is drained: {names}")
                return None
            if await self._is_foreign():
                return None
            node = found[0]
        self._node = node
        await self._cordon(node)
        self._cordoned = True
        self._tell(
            MachinesEvent.DRAINING,
            f"instance {self.event.instance_id} is to be deleted: {self.event.reason or 'no reason'}",
        )
        look = await look_at_node(self._client, node.name)
        self._left = look.left
        if look.blocked:
            self._tell(MachinesEvent.DRAIN_BLOCKED, look.blocked, bad=True)
        return None if look.left else DrainResult.DRAINED

    async def _is_foreign(self) -> bool:
        """Tell whether the server names another shard's instance: a server is trusted with its own instances only."""
        foreign = await self._nodes.is_foreign(self.shard, self.event.provider_id)
        if foreign:
            self._warn(
                f"provider id {self.event.provider_id} is recorded for another shard, so its Node is not drained"
            )
        return foreign

    async def _cordon(self, node: Object) -> None:
        place = InstancePlace(self.shard, self.event.instance_id)
        await cordon(self._client, node, cluster=self._settings.cluster_name, instance=str(place))

    async def _cordon_late(self) -> None:
        """Cordon a Node that has no time left for a drain, so that no pod is scheduled to it."""
        if self._cordoned:
            return
        try:
            async with asyncio.timeout(_CORDON_LIMIT):
                found = [self._node] if self._node is not None else await self._nodes.find(self.event.provider_id)
                if len(found) == 1 and (self._node is not None or not await self._is_foreign()):
                    self._node = found[0]
                    await self._cordon(found[0])
        except (KonvergeError, TimeoutError) as error:
            if isinstance(error, NotLeading):
                raise
            self._warn(f"the Node was not cordoned: {error}")

    # --- events and log lines----------------------------------------------------------------------------------------------------

    def _warn(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._log.warning("a drain does not get on", **{LogKey.ERROR: message})

    def _tell(self, reason: str, message: str, *, bad: bool = False) -> None:
        """Record an event about the Node, each reason once."""
        if reason in self._said:
            return
        self._said.add(reason)
        if bad:
            self._log.warning("a drain does not get on", **{LogKey.ERROR: message})
        if self._node is not None:
            self._events.record(Regarding.of(self._node), reason, message, "Warning" if bad else "Normal", "Drain")
