"""One shard: connected, listed and followed, or waiting to connect again.

Guarantees: one stream of each kind is open at most, since a second stream would silence the first without a sign. Groups are listed when
the session begins (so after each disconnect too), `settle` seconds after an event of a group, and every `poll` seconds. A listing that
fails or hangs ends the connection, and with it streams that are half open. Listeners are notified of a failure once, and again if its kind
changes, until a listing succeeds. An error of any other kind, for instance of a message that cannot be used, is a failure of this shard
too: no other shard is affected.

The delay before the next connection begins at one second, doubles up to 30 s and has jitter. A session that lasted a minute resets the
delay to one second; a session that its server ends at once, also cleanly, does not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import aclosing
from random import Random
from typing import Final, Protocol

from grpclib.client import Channel

from konverge.errors import stack_of
from konverge.logs import get_logger
from konverge.reconcilers.machines.shards.client import ShardClient, ended
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure, failure_of_message
from konverge.reconcilers.machines.shards.messages import DrainEvent, Group, ProviderFailure
from konverge.reconcilers.machines.shards.pace import SessionPace
from konverge.tasks import wait_first
from konverge.words import LogKey
from konverge.workqueue import ItemExponential

__all__ = ["ShardListener", "ShardSession"]

_HEALTHY: Final = 60.0
"""Seconds after which a session counts as successful."""


class ShardListener(Protocol):
    """Receives the events of the shards. A call must not block: it records, and wakes the controllers that decide."""

    def listed(self, shard: str, groups: tuple[Group, ...]) -> None:
        """Take all groups of a shard, which is reachable."""

    def unreachable(self, shard: str, failure: ShardFailure) -> None:
        """Take the failure that made a shard unreachable."""

    def drain(self, shard: str, event: DrainEvent) -> None:
        """Take a change of an instance; the same change may arrive twice."""

    def provider_failed(self, shard: str, event: ProviderFailure) -> None:
        """Take an error of the provider."""


class ShardSession:
    """Keeps one shard connected until `run` is cancelled."""

    def __init__(
        self, shard: str, dial: Callable[[], Channel], listener: ShardListener, *, pace: SessionPace, random: Random
    ) -> None:
        self.shard = shard
        self.failure: ShardFailure | None = ShardFailure(shard, FailureKind.UNREACHABLE, "it was not reached yet")
        """The failure that the session waits for; None while the shard is reachable."""
        self.listed_at: float | None = None
        """The time of the loop of the last listing."""
        self._dial = dial
        self._listener = listener
        self._pace = pace
        self._random = random
        self._delays: ItemExponential[str] = ItemExponential(base=pace.first_delay, cap=pace.longest_delay)
        self._client: ShardClient | None = None
        self._reported: FailureKind | None = None
        self._log = get_logger("konverge.machines")

    def client(self) -> ShardClient:
        """Return the calls of the shard; raises ShardFailure at once while it is unreachable."""
        if self.failure is not None:
            raise ShardFailure(self.shard, self.failure.kind, self.failure.text)
        assert self._client is not None
        return self._client

    async def run(self) -> None:
        """Connect, list and follow; never returns."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._connected()
            except ShardFailure as failure:
                self._fail(failure)
            except Exception as error:  # noqa: BLE001  # containment: what one server sends ends no other shard's session
                self._log.error("a session failed", **{LogKey.NAME: self.shard, LogKey.STACK: stack_of(error)})
                self._fail(failure_of_message(self.shard, error))
            if loop.time() - began >= _HEALTHY:
                self._delays.forget(self.shard)
            await asyncio.sleep(self._delays.when(self.shard, loop.time()) * self._random.uniform(0.5, 1.0))

    async def _connected(self) -> None:
        channel = self._dial()
        self._client = client = ShardClient(self.shard, channel, seconds=self._pace.call)
        changed = asyncio.Event()
        try:
            await self._list(client)  # before any stream: a server that does not respond gets no streams
            await wait_first(
                self._poll(client, changed),
                self._follow_groups(client, changed),
                self._follow_instances(client),
                self._follow_failures(client),
            )
            raise ended(self.shard)
        finally:
            channel.close()
            self._client = None

    async def _list(self, client: ShardClient) -> None:
        groups = await client.list_groups()
        self.listed_at = asyncio.get_running_loop().time()
        self.failure, self._reported = None, None
        self._listener.listed(self.shard, groups)

    async def _poll(self, client: ShardClient, changed: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pace.poll):
                    await changed.wait()
                await asyncio.sleep(self._pace.settle)
            changed.clear()
            await self._list(client)

    async def _follow_groups(self, client: ShardClient, changed: asyncio.Event) -> None:
        async with aclosing(client.group_changes()) as events:
            async for _ in events:
                changed.set()

    async def _follow_instances(self, client: ShardClient) -> None:
        async with aclosing(client.drain_events()) as events:
            async for event in events:
                self._listener.drain(self.shard, event)

    async def _follow_failures(self, client: ShardClient) -> None:
        async with aclosing(client.provider_failures()) as events:
            async for event in events:
                self._listener.provider_failed(self.shard, event)

    def _fail(self, failure: ShardFailure) -> None:
        self.failure = failure
        if self._reported is not failure.kind:
            self._reported = failure.kind
            self._listener.unreachable(self.shard, failure)
