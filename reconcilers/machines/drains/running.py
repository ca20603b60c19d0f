"""All drains of this term of leadership, each in a task of its own: a budget that blocks one drain delays no other.

Guarantees: one task for each instance. A repeated event starts no second drain; after the end of a drain it is acknowledged again. An event
with another time starts a new drain, since the server has started again. The end of the term, the removal of the shard, and the end of the
instance end a drain without an acknowledgement.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from konverge.errors import NotLeading, stack_of
from konverge.logs import get_logger
from konverge.reconcilers.machines.drains.drain import Acknowledge, InstanceDrain
from konverge.reconcilers.machines.drains.observe import NodeReader
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.messages import DrainEvent
from konverge.runtime.parts.background import BackgroundServices
from konverge.tasks import cancel_and_wait
from konverge.words import LogKey

__all__ = ["RunningDrains"]

_REMEMBERED = 1000
"""Drains that have ended and are remembered: enough for a server that repeats its events."""

Place = tuple[str, str]
"""Shard and instance."""


class RunningDrains:
    """Starts and ends drains on the servers' events."""

    def __init__(self, settings: MachineSettings, metrics: MachineMetrics, acknowledge: Acknowledge) -> None:
        self._settings = settings
        self._metrics = metrics
        self._acknowledge = acknowledge
        self._services: BackgroundServices | None = None
        self._nodes: NodeReader | None = None
        self._open: dict[Place, tuple[InstanceDrain, asyncio.Task[None]]] = {}
        self._ended: dict[Place, datetime | None] = {}
        self._forgotten: set[str] = set()
        self._log = get_logger("konverge.machines")

    def begin(self, services: BackgroundServices, namespace: str) -> None:
        """Begin a term of leadership; `namespace` is the operator's."""
        self._services = services
        self._nodes = NodeReader(services.client, namespace)

    async def end(self) -> None:
        """End the term: the next leader receives all drains again."""
        self._services = self._nodes = None
        self._ended.clear()
        await self._cancel(list(self._open))

    def take(self, shard: str, event: DrainEvent) -> None:
        """Take the event of an instance that is to be drained."""
        self._forgotten.discard(shard)
        place = shard, event.instance_id
        running = self._open.get(place)
        if running is not None:
            running[0].take(event)
            return
        if self._services is None or self._nodes is None:
            return
        drain = InstanceDrain(
            shard,
            event,
            settings=self._settings,
            client=self._services.client,
            nodes=self._nodes,
            events=self._services.events,
            acknowledge=self._acknowledge,
        )
        repeated = place in self._ended and self._ended[place] == event.delete_at
        work = self._acknowledge_again(drain) if repeated else self._run(place, drain)
        task = asyncio.create_task(work, name=f"konverge drain {shard}/{event.instance_id}")
        self._open[place] = drain, task
        task.add_done_callback(lambda ended: self._close(place, ended))
        self._count(shard)

    def deleted(self, shard: str, instance_id: str) -> None:
        """End the drain of a deleted instance."""
        running = self._open.get((shard, instance_id))
        if running is not None:
            running[1].cancel()

    def forget(self, shard: str) -> None:
        """End the drains of a shard that the document does not name any more."""
        self._forgotten.add(shard)
        for place, (_, task) in self._open.items():
            if place[0] == shard:
                task.cancel()

    async def _run(self, place: Place, drain: InstanceDrain) -> None:
        result = await drain.run()
        self._metrics.drained.labels(place[0], result).inc()
        self._ended.pop(place, None)
        self._ended[place] = drain.event.delete_at
        while len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    async def _acknowledge_again(self, drain: InstanceDrain) -> None:
        await drain.acknowledge()

    def _close(self, place: Place, task: asyncio.Task[None]) -> None:
        if place in self._open and self._open[place][1] is task:
            del self._open[place]
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, NotLeading):
            self._log.error("a drain failed", **{LogKey.NAME: "/".join(place), LogKey.STACK: stack_of(error)})
        if self._services is not None and place[0] not in self._forgotten:
            self._count(place[0])

    def _count(self, shard: str) -> None:
        self._metrics.drains.labels(shard).set(sum(place[0] == shard for place in self._open))

    async def _cancel(self, places: list[Place]) -> None:
        await cancel_and_wait(*[self._open[place][1] for place in places])
