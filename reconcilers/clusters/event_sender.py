"""Reports the status of objects to the control plane: each change as an event, and all present states after a reconnection.

Guarantees: the buffer is bounded; if it overflows, the oldest events are dropped, and the control plane receives their number and every
present state once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random

import structlog

from konverge.objects import Object
from konverge.reconcilers.clusters import protocol
from konverge.reconcilers.clusters.events import EventBuffer, snapshot
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.plane_session import CONFLICT, REFUSED, PlaneSession
from konverge.reconcilers.clusters.protocol import MOST_EVENTS, StatusEvent
from konverge.reconcilers.clusters.settings import Settings
from konverge.words import LogKey

__all__ = ["EventSender"]


class EventSender:
    """`statuses` returns the objects whose status is reported; `changed` is called if events are lost, and once the loss is repaired."""

    def __init__(
        self,
        session: PlaneSession,
        settings: Settings,
        *,
        cluster_id: str,
        statuses: Callable[[], Iterable[Object]],
        changed: Callable[[], None],
        metrics: PullMetrics,
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self.buffer = EventBuffer(settings.event_buffer, f"{random.getrandbits(64):016x}")
        self._session = session
        self._settings = settings
        self._cluster_id = cluster_id
        self._statuses = statuses
        self._changed = changed
        self._metrics = metrics
        self._log = log
        self._recorded = asyncio.Event()

    def record(self, event: StatusEvent) -> None:
        """Take an event for the control plane."""
        before = self.buffer.overflowed
        self.buffer.add(event)
        self._metrics.buffered.set(min(len(self.buffer) / self.buffer.capacity, 1.0))
        self._recorded.set()
        if self.buffer.overflowed != before:
            self._changed()

    async def replay(self) -> None:
        """Send the present status of every object: events may have been lost while the control plane did not respond."""
        present = tuple(snapshot(self._statuses()))
        for first in range(0, max(len(present), 1), MOST_EVENTS):
            await self._post(present[first : first + MOST_EVENTS], self.buffer.reported)

    async def _post(self, events: tuple[StatusEvent, ...], dropped: int) -> None:
        """Send events, and how many events were dropped since the buffer was created."""
        batch = protocol.EventBatch(
            cluster_id=self._cluster_id,
            events=events,
            dropped=dropped - self.buffer.reported,
            buffer=self.buffer.identity,
            dropped_in_all=dropped,
        )
        response = await self._session.call("POST", "/events", batch)
        if response.status >= REFUSED and response.status != CONFLICT:
            self._log.warning("the control plane refuses events; they are dropped", **{LogKey.COUNT: len(events)})

    async def run(self) -> None:
        """Send the recorded events until cancelled."""
        if len(self.buffer):  # left by an attempt that failed
            self._recorded.set()
        while True:
            await self._recorded.wait()
            if len(self.buffer) < MOST_EVENTS:
                await asyncio.sleep(self._settings.event_pause.total_seconds())
            self._recorded.clear()
            lost = False
            while len(self.buffer):
                reported = self.buffer.reported
                with self.buffer.sending(MOST_EVENTS) as (events, dropped):
                    await self._post(events, dropped)
                lost = lost or dropped > reported
            self._metrics.buffered.set(0)
            if lost:
                self._changed()
                await self.replay()
