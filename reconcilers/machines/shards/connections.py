"""A session for each shard, started, moved and ended on changes of the document of shards and of the certificate.

Guarantees: each shard has a task of its own, so a shard that hangs delays no other. A new document ends the sessions of removed shards,
starts sessions for added shards, and reconnects if an address changed; the other sessions continue. A new certificate reconnects all
sessions.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

from konverge.reconcilers.machines.shards.client import ShardClient
from konverge.reconcilers.machines.shards.dialing import Dial
from konverge.reconcilers.machines.shards.document import ShardMap, changes
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.pace import SessionPace
from konverge.reconcilers.machines.shards.session import ShardListener, ShardSession
from konverge.tasks import Broadcast, wait_first

__all__ = ["Connections"]


class Connections:
    """The sessions of all shards. `use` sets the shards, `run` keeps their sessions until it is cancelled."""

    def __init__(self, listener: ShardListener, *, random: Random, pace: SessionPace | None = None) -> None:
        self._listener = listener
        self._random = random
        self._pace = SessionPace() if pace is None else pace
        self._wanted = ShardMap()
        self._dial: Dial | None = None
        self._applied = ShardMap()
        self._applied_dial: Dial | None = None
        self._sessions: dict[str, tuple[ShardSession, asyncio.Task[None]]] = {}
        self._news = Broadcast()

    def use(self, shards: ShardMap, dial: Dial) -> None:
        """Connect to these shards from now on, with these channels."""
        self._wanted, self._dial = shards, dial
        self._news.notify()

    @property
    def shards(self) -> tuple[str, ...]:
        """The shards of the document, sorted."""
        return tuple(sorted(self._wanted.shards))

    def client(self, shard: str) -> ShardClient:
        """Return the calls of a shard; raises ShardFailure at once while it is unreachable or not in the document."""
        running = self._sessions.get(shard)
        if running is None:
            problem = (
                "its session has not begun yet"
                if shard in self._wanted.shards
                else "it is not in the document of shards"
            )
            raise ShardFailure(shard, FailureKind.UNREACHABLE, problem)
        return running[0].client()

    def report_unreachable(self, problem: str) -> None:
        """Report all shards as unreachable to the listener, if their sessions ended and are not started again at once."""
        for name in self.shards:
            self._listener.unreachable(name, ShardFailure(name, FailureKind.UNREACHABLE, problem))

    async def run(self) -> None:
        """Keep the sessions; never returns. The listener gets no notice of sessions that end with it."""
        try:
            while True:
                if self._dial is not None and (self._applied, self._applied_dial) != (self._wanted, self._dial):
                    await self._match(self._wanted, self._dial)
                else:
                    await wait_first(self._news.wait(), *(task for _, task in self._sessions.values()))
        finally:
            await self._end(tuple(self._sessions))
            self._applied, self._applied_dial = ShardMap(), None

    async def _match(self, wanted: ShardMap, dial: Dial) -> None:
        differences = changes(self._applied, wanted)
        anew = differences.moved if dial is self._applied_dial else tuple(self._sessions)
        await self._end([name for name in {*anew, *differences.removed} if name in self._sessions])
        for name in sorted(wanted.shards.keys() - self._sessions.keys()):
            address = wanted.shards[name].operator
            session = ShardSession(name, partial(dial, address), self._listener, pace=self._pace, random=self._random)
            self._sessions[name] = session, asyncio.create_task(session.run(), name=f"konverge shard {name}")
        self._applied, self._applied_dial = wanted, dial

    async def _end(self, names: list[str] | tuple[str, ...]) -> None:
        ending = [self._sessions.pop(name)[1] for name in names]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
