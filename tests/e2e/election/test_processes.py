"""Replicas as processes that are killed, paused, cut off and stopped: the audit log of a real API server shows that no two ever write.

`ELECTION_ROUNDS=50 pytest tests/e2e/election` runs more rounds of each fault, `ELECTION_LONG=1` adds the fault that takes minutes.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from fleet import Fleet, Member, double_writes
from widgets import CONFIG_MAP, SECRET

from konverge.client import Client, ClientConfig
from konverge.errors import NotFound
from konverge.runtime.election.record import LEASE
from konverge_testing import ControlPlane

ROUNDS = int(os.environ.get("ELECTION_ROUNDS", "1"))
LONG = os.environ.get("ELECTION_LONG", "") not in ("", "0")
SHORT = (3.0, 2.0, 0.4)
"""Lease, renewal and retry in seconds, in the proportions of the defaults; a death then costs seconds and not twenty."""

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(180 * ROUNDS)]


class Watched:
    """A fleet, and the copies that it creates."""

    def __init__(self, fleet: Fleet, client: Client) -> None:
        self.fleet = fleet
        self.client = client
        self.number = 0

    async def source(self) -> str:
        self.number += 1
        name = f"source-{self.number}"
        await self.client.create(CONFIG_MAP.new(name, self.fleet.namespace, data={"value": "1"}))
        return name

    async def copied(self, name: str, within: float = 60.0) -> None:
        """Wait for a copy."""
        async with asyncio.timeout(within):
            while True:
                try:
                    await self.client.get(SECRET, f"copy-of-{name}", self.fleet.namespace)
                    return
                except NotFound:
                    await asyncio.sleep(0.02)

    async def all_run(self) -> None:
        """Start the ended replicas again; Python's start time is not limited."""
        ended = [member.operator for member in self.fleet.members.values() if not member.operator.running]
        for operator in ended:
            await operator.start()
        for operator in ended:
            await operator.ready(timeout=300)

    async def taken_over(self, former: Member) -> None:
        """Wait until another replica leads, and works."""
        await self.leader(other_than=former.name)
        await self.copied(await self.source())

    async def leader(self, *, other_than: str = "", within: float = 60.0) -> Member:
        async with asyncio.timeout(within):
            while True:
                for member in list(self.fleet.members.values()):
                    if member.name != other_than and member.operator.running and await self.fleet.leads(member):
                        return member
                await asyncio.sleep(0.05)


@asynccontextmanager
async def fleet_of(
    plane: ControlPlane, namespace: str, folder: Path, *names: str, lease: tuple[float, float, float] = SHORT
) -> AsyncIterator[Watched]:
    await plane.create_namespace(namespace)
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    fleet = Fleet(plane, namespace, folder, lease=lease)
    async with Client(config, name="test-user") as client, AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(fleet.member(name))
        users = {member.user for member in fleet.members.values()}
        yield Watched(fleet, client)
        assert double_writes(await fleet.audited(), users) == []


async def paused(watched: Watched, leader: Member) -> None:
    leader.signal(signal.SIGSTOP)
    late = await watched.source()
    await watched.copied(late)
    leader.signal(signal.SIGCONT)


async def cut_off(watched: Watched, leader: Member) -> None:
    leader.proxy.refuse(lambda _: True)
    leader.proxy.cut(lambda _: True)
    await watched.taken_over(leader)
    leader.proxy.disarm()


async def renewals_refused(watched: Watched, leader: Member) -> None:
    leader.proxy.refuse(lambda call: call.resource == "leases")
    await watched.taken_over(leader)
    leader.proxy.disarm()


async def renewals_late(watched: Watched, leader: Member) -> None:
    """Each renewal arrives after the leader has given up and stopped writing, and the last renewal after a take-over."""
    _, renew, _ = SHORT
    leader.proxy.delay(lambda call: call.resource == "leases" and call.method != "GET", renew * 1.25)
    await watched.taken_over(leader)
    leader.proxy.disarm()


async def edited(watched: Watched, leader: Member) -> None:
    await watched.client.patch(
        LEASE, "copies", watched.fleet.namespace, patch={"spec": {"holderIdentity": "by-hand"}}, style="merge"
    )
    await watched.copied(await watched.source())


async def deleted(watched: Watched, leader: Member) -> None:
    await watched.client.delete(LEASE, "copies", watched.fleet.namespace)
    await watched.copied(await watched.source())


FAULTS: tuple[Callable[[Watched, Member], Awaitable[None]], ...] = (
    paused,
    cut_off,
    renewals_refused,
    renewals_late,
    edited,
    deleted,
)


async def test_two_replicas_never_both_write_whatever_is_done_to_the_leader(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with fleet_of(audited_plane, "two-replicas", tmp_path, "a", "b") as watched:
        for _ in range(ROUNDS):
            for fault in FAULTS:
                leader = await watched.leader()
                writing = asyncio.create_task(keep_writing(watched))
                try:
                    await fault(watched, leader)
                finally:
                    writing.cancel()
                    await asyncio.wait({writing})


async def keep_writing(watched: Watched) -> None:
    """Change sources all the time, so that a leader always has something to write."""
    number = 0
    while True:
        number += 1
        body = CONFIG_MAP.new("source-0", watched.fleet.namespace, data={"value": str(number)}).data
        await watched.client.apply(CONFIG_MAP, body, force=True)
        await asyncio.sleep(0.05)


async def test_third_replica_takes_over_after_two_kills_and_releases_at_stop(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with fleet_of(audited_plane, "three-replicas", tmp_path, "a", "b", "c") as watched:
        for _ in range(ROUNDS):
            await watched.all_run()
            for _ in range(2):
                leader = await watched.leader()
                leader.operator.kill()
                await leader.operator.ended()
                await watched.copied(await watched.source())
            last = await watched.leader()
            assert await last.operator.stop() == 0
            lease = await watched.client.get(LEASE, "copies", watched.fleet.namespace)
            assert lease.data["spec"].get("holderIdentity", "") == ""


async def test_with_default_times_stop_hands_over_before_expiry_and_kill_after_it(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with fleet_of(audited_plane, "default-times", tmp_path, "a", "b", "c", lease=(15.0, 10.0, 2.0)) as watched:
        leader = await watched.leader()
        await watched.copied(await watched.source(), within=60)
        stopping = asyncio.create_task(leader.operator.stop())
        await watched.copied(await watched.source(), within=14)  # `make bench ONLY=election` measures it
        assert await stopping == 0
        leader = await watched.leader()
        leader.operator.kill()
        await watched.copied(await watched.source(), within=60)


@pytest.mark.skipif(not LONG, reason="takes minutes: ELECTION_LONG=1 runs it")
async def test_with_default_times_a_suspended_leader_writes_nothing_and_becomes_standby(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with fleet_of(audited_plane, "a-minute", tmp_path, "a", "b", lease=(15.0, 10.0, 2.0)) as watched:
        for _ in range(ROUNDS):
            leader = await watched.leader()
            writing = asyncio.create_task(keep_writing(watched))
            try:
                leader.signal(signal.SIGSTOP)
                await asyncio.gather(asyncio.sleep(60), watched.copied(await watched.source()))
                leader.signal(signal.SIGCONT)
                await watched.copied(await watched.source())
                assert not await watched.fleet.leads(leader)
                await asyncio.sleep(20)  # long enough that both would have renewed, had both believed that they lead
                assert not await watched.fleet.leads(leader)
            finally:
                leader.signal(signal.SIGCONT)
                writing.cancel()
                await asyncio.wait({writing})
