"""One drain, from its event to its acknowledgement: the loop around `observe`, `decide`, `timeout` and `act`.

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
from konverge.reconcilers.machines.drains.act import cordon, evict
from konverge.reconcilers.machines.drains.decide import (
    EmptyNode,
    NodeReport,
    NodeUnclear,
    begin_report,
    blocked_report,
    drained_report,
    node_step,
    pods_left,
)
from konverge.reconcilers.machines.drains.observe import NodeReader, ObservedNodes
from konverge.reconcilers.machines.drains.timeout import CORDON_SECONDS, drain_times, timeout_report
from konverge.reconcilers.machines.instances.ownership import InstancePlace
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import DrainEvent
from konverge.reconcilers.machines.words import DrainResult, MachinesEvent
from konverge.runtime.events.core import Regarding
from konverge.runtime.events.recorder import EventRecorder
from konverge.words import LogKey

__all__ = ["Acknowledge", "InstanceDrain"]

_FIRST_RETRY: Final = 1.0


class Acknowledge(Protocol):
    """Acknowledges the drain of an instance to the server of its shard; raises ShardFailure."""

    async def __call__(self, shard: str, instance_id: str) -> None:
        """Send the acknowledgement."""


class InstanceDrain:
    """The drain of an instance."""

    def __init__(
        self,
        shard: str,
        event: DrainEvent,
        *,
        settings: MachineSettings,
        client: Client,
        nodes: NodeReader,
        events: EventRecorder,
        acknowledge: Acknowledge,
    ) -> None:
        self.event = event
        self._shard = shard
        self._settings = settings
        self._client = client
        self._nodes = nodes
        self._events = events
        self._acknowledge = acknowledge
        self._node: Object | None = None
        self._cordoned = False
        self._reported: set[str] = set()
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
        result = await self._empty_node()
        if result is DrainResult.TIMED_OUT:
            await self._cordon_late()
            self._report(timeout_report(self._left))
        elif result is DrainResult.DRAINED:
            self._report(drained_report(self.event))
        if not await self.acknowledge():
            result = DrainResult.UNACKNOWLEDGED
        self._log.info("a drain has ended", **{LogKey.OUTCOME: str(result)})
        return result

    async def acknowledge(self) -> bool:
        """Acknowledge the drain until the server accepts it or deletes the instance."""
        loop, delay = asyncio.get_running_loop(), _FIRST_RETRY
        while True:
            try:
                await self._acknowledge(self._shard, self.event.instance_id)
            except ShardFailure as failure:
                if failure.kind is FailureKind.NOT_FOUND:
                    return True
                if loop.time() >= self._delete:
                    self._report(NodeReport(MachinesEvent.DRAIN_NOT_ACKNOWLEDGED, failure.text, warning=True))
                    return False
            else:
                return True
            await asyncio.sleep(min(delay, max(self._delete - loop.time(), 0.0)))
            delay = min(delay * 2, self._settings.drain_poll)

    # --- the Node --------------------------------------------------------------------------------------------------------------

    async def _empty_node(self) -> DrainResult:
        """Check the Node until its drain ends. A failed check is repeated, since an acknowledgement after it would be a guess."""
        loop = asyncio.get_running_loop()
        while (left := self._give_up - loop.time()) > 0:
            try:
                async with asyncio.timeout(left):
                    result = await self._check()
            except NotLeading:
                raise
            except (KonvergeError, TimeoutError) as error:
                self._warn(str(error) or "no time is left")
            else:
                if result is not None:
                    return result
            await asyncio.sleep(max(min(self._settings.drain_poll, self._give_up - loop.time()), 0.0))
        return DrainResult.TIMED_OUT

    async def _check(self) -> DrainResult | None:
        """Check the Node once; None if pods are left."""
        known = None if self._node is None else await self._nodes.again(self._node)
        step = node_step(self.event.provider_id, await self._observed(known))
        if isinstance(step, NodeUnclear):
            self._warn(step.problem)
            return None
        if not isinstance(step, EmptyNode):
            return DrainResult.NO_NODE
        await self._cordon(step.node)
        self._cordoned = True
        self._report(begin_report(self.event))
        pods = pods_left(await self._nodes.pods(step.node.name))
        refusal = await evict(self._client, pods.evict)
        self._left = len(pods)
        if refusal:
            self._report(blocked_report(refusal))
        return None if pods else DrainResult.DRAINED

    async def _observed(self, known: Object | None) -> ObservedNodes:
        if known is not None:
            return ObservedNodes((known,))
        return await self._nodes.observe(self._shard, self.event.provider_id)

    async def _cordon(self, node: Object) -> None:
        self._node = node
        place = InstancePlace(self._shard, self.event.instance_id)
        await cordon(self._client, node, cluster=self._settings.cluster_name, instance=str(place))

    async def _cordon_late(self) -> None:
        """Cordon a Node that has no time left for a drain, so that no pod is scheduled to it."""
        if self._cordoned:
            return
        try:
            async with asyncio.timeout(CORDON_SECONDS):
                step = node_step(self.event.provider_id, await self._observed(self._node))
                if isinstance(step, EmptyNode):
                    await self._cordon(step.node)
                elif isinstance(step, NodeUnclear):
                    self._warn(step.problem)
        except NotLeading:
            raise
        except (KonvergeError, TimeoutError) as error:
            self._warn(f"the Node was not cordoned: {error}")

    # --- Events and log lines --------------------------------------------------------------------------------------------------

    def _warn(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            self._log.warning("a drain does not get on", **{LogKey.ERROR: message})

    def _report(self, report: NodeReport) -> None:
        """Record an Event about the Node, each reason once."""
        if report.reason in self._reported:
            return
        self._reported.add(report.reason)
        if report.warning:
            self._log.warning("a drain does not get on", **{LogKey.ERROR: report.message})
        if self._node is not None:
            type_ = "Warning" if report.warning else "Normal"
            self._events.record(Regarding.of(self._node), report.reason, report.message, type_, "Drain")
