"""Sharding as one controller sees it: only what this replica owns is reconciled.

    event, resync             dropped, unless there is something to do for the object here
    the worker takes a key    claim or clear its stamp, or let it be reconciled
    an object of another      first the caches show what was written before the claim: the last writes of the owner before
    the ring changed          every object that concerns this replica is enqueued

Guarantees: no reconcile begins without the stamp. A claim is an own write, so the barrier keeps the reconcile until the cache shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from konverge.client import Client
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.metrics import Metrics
from konverge.runtime.builder.builder import Controller
from konverge.runtime.consistency.barrier import StalenessBarrier
from konverge.runtime.controller.watches import ControllerWatches
from konverge.runtime.sharding.interface import ShardOwnership
from konverge.words import Why
from konverge.workqueue import WorkQueue

__all__ = ["ShardGate"]


class ShardGate:
    """Lets the reconciles of one controller begin that this replica owns."""

    def __init__(
        self,
        spec: Controller[Any],
        ownership: ShardOwnership,
        queue: WorkQueue[Key],
        *,
        watches: ControllerWatches,
        barrier: StalenessBarrier,
        forget: Callable[[Key], None],
    ) -> None:
        assert spec.family is not None
        self._family = spec.family
        self._ownership = ownership
        self._queue = queue
        self._watches = watches
        self._reads_others = bool(spec.owned or spec.watched)
        self._barrier = barrier
        self._forget = forget
        self._awaiting: dict[Key, tuple[str, int]] = {}
        self._news = asyncio.Event()
        self._caught_up: dict[str, int] = {}
        """Of objects that another member owned before: the epoch since which the caches show its writes, by uid."""

    def concerns(self, cached: Cached) -> bool:
        """Return whether there is something to do for an object on this replica."""
        return self._ownership.concerns(cached.metadata, self._family(cached.metadata))

    def changes(self, cached: Cached) -> bool:
        """Return whether an object is to be claimed or handed over by this replica."""
        return self._ownership.changes(cached.metadata, self._family(cached.metadata))

    def observe(self, key: Key, change: Change) -> bool:
        """Take note of a change of an object; returns whether its owner changed."""
        old, new = (None if one is None else one.metadata for one in (change.old, change.new))
        return self._ownership.observe(key, old, new, self._barrier.writer(key))

    async def admit(self, key: Key, cached: Cached) -> int:
        """Return the epoch in which an object is reconciled now, 0 if it is not; then `leave` follows."""
        metadata, writer = cached.metadata, self._barrier.writer(key)
        admission = await self._ownership.admit(key, metadata, self._family(metadata), writer)
        epoch = admission.epoch
        if not epoch:
            self._caught_up.pop(metadata.uid, None)
            if admission.again is None:
                self._forget(key)
            else:
                self._queue.add_after(key, admission.again, reason=Why.SHARD)
            return 0
        if admission.inherited and self._reads_others and self._caught_up.get(metadata.uid) != epoch:
            self._ownership.leave(metadata.uid)
            self._awaiting[key] = (metadata.uid, epoch)
            self._news.set()
            return 0
        return epoch

    def leave(self, key: Key, cached: Cached) -> None:
        """Take note of the end of a reconcile; an object that another member should own is handed over next."""
        metadata = cached.metadata
        self._ownership.leave(metadata.uid)
        if self._ownership.desired(metadata, self._family(metadata)) != self._ownership.ring.member:
            self._queue.add(key, reason=Why.SHARD)

    async def run(self, enqueue_changes: Callable[[], Awaitable[None]], client: Client, metrics: Metrics) -> None:
        """Enqueue what the ring gives to this replica, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_ring(enqueue_changes))
            tasks.create_task(self._catch_up(client, metrics))

    async def _follow_ring(self, enqueue_changes: Callable[[], Awaitable[None]]) -> None:
        ring = self._ownership.ring
        while True:
            seen = ring.generation
            await enqueue_changes()
            while ring.generation == seen:
                await ring.changed.wait()

    async def _catch_up(self, client: Client, metrics: Metrics) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            batch, self._awaiting = self._awaiting, {}
            await self._watches.caught_up(client, metrics)
            for key, (uid, epoch) in batch.items():
                self._caught_up[uid] = epoch
                self._queue.add(key, reason=Why.SHARD)
