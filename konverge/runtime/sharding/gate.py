"""The gate of a sharded controller: the controller reconciles only the objects that this replica owns.

    event, resync              dropped, unless the object needs work on this replica
    the worker takes a key     write or clear the stamp, or admit the reconcile
    an object that is taken    first the caches show the last writes of the former owner
    the ring changed           every object that this replica is to claim or to hand over is enqueued

Guarantees: no reconcile begins without the stamp. A claim is an own write, so the barrier delays the reconcile until the cache shows the
claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from konverge.informers import Change, Selection
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata
from konverge.runtime.hooks.object_gate import Admission, GatedController
from konverge.runtime.sharding.interface import ShardOwnership

__all__ = ["ShardGate"]


class ShardGate:
    """An `ObjectGate`. For kinds in `trimmed` this replica caches only its own objects whole."""

    def __init__(
        self, ownership: ShardOwnership, host: GatedController, *, trimmed: Collection[Kind[Any]] = ()
    ) -> None:
        self._family = host.family
        self._ownership = ownership
        self._host = host
        self._trims = host.kind in trimmed
        # Such a controller decides by objects of every replica.
        self._sees_all = host.reads_own_kind
        self._reads_others = host.reads_others
        self._awaiting: dict[Key, tuple[str, int]] = {}
        self._news = asyncio.Event()
        self._caught_up: dict[str, int] = {}
        """By uid of an object with a former owner: the epoch since which the caches show the former owner's writes."""

    def select(self, selection: Selection) -> Selection:
        """Return the objects that this replica may own; it caches only its own objects whole."""
        labels = (selection.labels, "" if self._sees_all else self._ownership.selector)
        trims = self._trims and not selection.metadata_only
        whole = self._ownership.is_mine if trims else selection.whole
        return replace(selection, labels=",".join(filter(None, labels)), whole=whole)

    def concerns(self, metadata: Metadata) -> bool:
        """Return whether an object needs work on this replica."""
        return self._ownership.concerns(metadata, self._family(metadata))

    def counts(self, metadata: Metadata) -> bool:
        """Return whether this replica owns an object."""
        return self._ownership.is_mine(metadata)

    def observe(self, key: Key, change: Change) -> bool:
        """Note a change of an object; returns whether its owner changed."""
        old, new = (None if cached is None else cached.metadata for cached in (change.old, change.new))
        return self._ownership.observe(key, old, new, self._host.writer(key))

    async def admit(self, key: Key, metadata: Metadata) -> Admission:
        """Return the epoch of this replica's ownership, after a claim if one is due."""
        claim = await self._ownership.admit(key, metadata, self._family(metadata), self._host.writer(key))
        if not claim.epoch:
            self._caught_up.pop(metadata.uid, None)
            return Admission(retry_after=claim.again)
        if claim.inherited and self._reads_others and self._caught_up.get(metadata.uid) != claim.epoch:
            self._ownership.leave(metadata.uid)
            self._awaiting[key] = (metadata.uid, claim.epoch)
            self._news.set()
            return Admission(waits=True)
        return Admission(claim.epoch)

    def leave(self, key: Key, metadata: Metadata) -> None:
        """Note the end of a reconcile, and enqueue an object that another member should own."""
        self._ownership.leave(metadata.uid)
        if self._ownership.desired(metadata, self._family(metadata)) != self._ownership.ring.member:
            self._host.enqueue(key)

    async def run(self) -> None:
        """Enqueue the objects that this replica gains or hands over, until this call is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_ring())
            tasks.create_task(self._catch_up())

    async def _follow_ring(self) -> None:
        ring = self._ownership.ring
        while True:
            seen = ring.generation
            await self._host.enqueue_where(self._changes)
            while ring.generation == seen:
                await ring.changed.wait()

    def _changes(self, metadata: Metadata) -> bool:
        return self._ownership.changes(metadata, self._family(metadata))

    async def _catch_up(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            batch, self._awaiting = self._awaiting, {}
            await self._host.caught_up()
            for key, (uid, epoch) in batch.items():
                self._caught_up[uid] = epoch
                self._host.enqueue(key)
