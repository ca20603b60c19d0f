"""Replicas that share their objects, as processes that are killed, paused, cut off, stopped and added; the record is the audit log.

The rows are in docs/guide/sharding.md. One set of processes runs all rows; at its end S1 is checked for the whole record.
Waits here are only limits against a hang: the rows' seconds are checked in virtual time (`tests/scenarios/sharding`).
`SHARDING_ROUNDS=20 pytest tests/e2e/sharding` runs 20 rounds, `SHARDING_LONG=1` adds the tests with the default times.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fleet import Member
from forkserver import ForkServer
from shard_fleet import PATIENCE, Record, ShardFleet, Times

from konverge.client import Client, ClientConfig
from konverge.clock import wall_clock
from konverge.runtime.election.record import LEASE
from konverge_testing import ControlPlane

ROUNDS = int(os.environ.get("SHARDING_ROUNDS", "1"))
LONG = os.environ.get("SHARDING_LONG", "") not in ("", "0")
DEFAULT = Times(lease=15.0, renew=10.0, retry=5.0, join=3.0)
SHORT = Times(lease=6.0, renew=4.0, retry=1.5, join=3.0)
"""In about the proportions of the defaults: a member is dead after 12 s and not after 30."""
OBJECTS = 120

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(900 * ROUNDS)]


class Stage:
    """A fleet whose replicas start and stop."""

    def __init__(self, fleet: ShardFleet, stack: AsyncExitStack) -> None:
        self.fleet = fleet
        self._stack = stack
        self._numbers = iter(range(1000))

    async def join(self, count: int) -> list[str]:
        """Start so many replicas at once; returns their names when they are ready."""
        names = [f"r{next(self._numbers)}" for _ in range(count)]
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(self._stack.enter_async_context(self.fleet.member(name)))
        return names

    def __getitem__(self, name: str) -> Member:
        return self.fleet.members[name]

    @property
    def alive(self) -> list[str]:
        return [name for name, member in self.fleet.members.items() if member.operator.running]

    async def settled(self, *names: str) -> dict[str, str]:
        return await self.fleet.settled(*(names or self.alive))

    async def recorded(self, wanted: Callable[[Record], object]) -> Record:
        """Wait until the record meets a test, and return the record."""
        async with asyncio.timeout(PATIENCE):
            while not wanted(record := await self.fleet.record()):
                pass
        return record

    async def begun(self, source: str, user: str, since: datetime) -> None:
        """Wait until the record has a reconcile of an object by this user."""
        await self.recorded(
            lambda record: any(
                reconcile.source == source and reconcile.user == user and reconcile.began >= since
                for reconcile in record.reconciles
            )
        )

    async def stop(self, name: str) -> None:
        assert await self[name].operator.stop() == 0

    async def kill(self, name: str) -> None:
        self[name].operator.kill()
        await self[name].operator.ended()


@asynccontextmanager
async def stage_of(plane: ControlPlane, namespace: str, folder: Path, times: Times) -> AsyncIterator[Stage]:
    await plane.create_namespace(namespace)
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    async with Client(config, name="test-user") as client, ForkServer() as fork, AsyncExitStack() as stack:
        yield Stage(ShardFleet(plane, namespace, folder, client, fork, times), stack)


async def keep_changing(fleet: ShardFleet) -> None:
    """Change objects continuously, so that each owner always has something to write."""
    number = 0
    while True:
        number += 1
        await fleet.change(f"source-{number % OBJECTS}", value=str(number))
        await asyncio.sleep(0.1)


def moved(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """The new owners of the objects whose owner has changed."""
    return {name: owner for name, owner in after.items() if before[name] != owner}


def terms(stage: Stage, *names: str) -> dict[str, str]:
    """The names of these replicas as members.

    They change if the machine hangs for longer than a Lease lasts. Then other objects move besides the removed replica's, so only tests in
    virtual time count the moves. That no two replicas own an object at once is checked in any case.
    """
    return {name: stage.fleet.member_of(name) for name in names}


async def s3_s6_a_replica_joins_while_reconciles_run(stage: Stage) -> None:
    """Only the new replica's share moves, and a busy object moves after the end of its reconcile.

    The busy objects are held until the new replica has reconciled an idle object, however slow the machine is.
    """
    before = await stage.settled()
    present = terms(stage, *stage.alive)
    blocked = {f"source-{number}" for number in range(40)}
    for source in blocked:
        await stage.fleet.change(source, held="yes")
    await stage.recorded(lambda record: record.held() >= blocked)
    [joined] = await stage.join(1)
    user = stage[joined].user
    await stage.recorded(lambda record: record.first_by(user))
    present |= terms(stage, joined)
    for source in blocked:
        await stage.fleet.change(source, held=None)
    moves = moved(before, await stage.settled())
    undisturbed = terms(stage, *stage.alive) == present
    assert set(moves.values()) == {joined} or not undisturbed
    gained = {source for source, owner in moves.items() if owner == joined}
    record = await stage.recorded(lambda record: record.first_by(user).keys() >= gained)
    taken = record.first_by(user)
    ends = {
        reconcile.source: reconcile.ended
        for reconcile in record.reconciles
        if reconcile.source in gained and reconcile.user != user and reconcile.held and reconcile.ended is not None
    }
    assert ends or not undisturbed, "no blocked object had to move"
    assert all(taken[source] >= end for source, end in ends.items())
    idle = [taken[source] for source in gained - blocked]
    assert not ends or min(idle) < min(ends.values()), "idle objects waited for busy objects"


async def s4_a_replica_is_killed(stage: Stage, within: timedelta | None = None) -> None:
    """Other replicas reconcile its objects, and the other replicas' objects do not move."""
    before = await stage.settled()
    victim = stage.alive[0]
    killed, user = wall_clock(), stage[victim].user
    await stage.kill(victim)
    present = terms(stage, *stage.alive)
    after = await stage.settled()
    orphans = {name for name, owner in before.items() if owner == victim}
    assert set(moved(before, after)) == orphans or terms(stage, *stage.alive) != present
    record = await reconciled(stage, orphans, killed, user)
    if within is not None:
        assert latest(record, orphans, killed, user) - killed <= within


async def s4_s14_replicas_are_killed_and_restarted(stage: Stage, count: int, within: timedelta | None = None) -> None:
    """Live replicas reconcile their objects, although the newcomers find the Leases of the dead."""
    before = await stage.settled()
    victims, began = stage.alive[:count], wall_clock()
    await asyncio.gather(*map(stage.kill, victims))
    killed = wall_clock()
    await stage.join(count)
    await stage.settled()
    orphans = {name for name, owner in before.items() if owner in victims}
    record = await reconciled(stage, orphans, killed, "")
    if within is not None:
        assert latest(record, orphans, killed, "") - began <= within


async def s4_s14_all_are_killed_and_restarted(stage: Stage) -> None:
    await s4_s14_replicas_are_killed_and_restarted(stage, len(stage.alive))


async def s5_a_replica_is_stopped(stage: Stage) -> None:
    """The replica releases its Lease at its end, and others reconcile its objects; no replica counts it as dead."""
    before = await stage.settled()
    leaver = stage.alive[0]
    mine = {name for name, owner in before.items() if owner == leaver}
    busy, user, since = min(mine), stage[leaver].user, wall_clock()
    await stage.fleet.change(busy, seconds="2")
    await stage.begun(busy, user, since)
    stopped = wall_clock()
    present = terms(stage, *(name for name in stage.alive if name != leaver))
    before_the_stop = await members_when_all_are_ready(stage)
    member = stage.fleet.member_of(leaver)
    await stage.stop(leaver)
    assert member not in await members(stage)
    after = await stage.settled()
    await stage.fleet.change(busy, seconds="0")
    assert set(moved(before, after)) == mine or terms(stage, *stage.alive) != present
    await reconciled(stage, mine, stopped, user)
    after_the_stop = await members_by_state(stage)
    for name in stage.alive:
        assert after_the_stop[name]["dead"] <= before_the_stop[name]["dead"] or terms(stage, *stage.alive) != present


async def s7_a_replica_is_paused_in_the_midst_of_a_reconcile(stage: Stage, seconds: float = 0.0) -> None:
    """After the pause the replica writes nothing of that reconcile, and owns nothing."""
    before = await stage.settled()
    sleeper = stage.alive[0]
    busy, user, since = (
        min(name for name, owner in before.items() if owner == sleeper),
        stage[sleeper].user,
        wall_clock(),
    )
    await stage.fleet.change(busy, seconds="3", value="in-flight")
    await stage.begun(busy, user, since)
    member = stage.fleet.member_of(sleeper)
    stage[sleeper].signal(signal.SIGSTOP)
    await asyncio.sleep(seconds)
    await stage.settled(*(name for name in stage.alive if name != sleeper))
    await stage.fleet.change(busy, seconds="0")
    woken = wall_clock()
    stage[sleeper].signal(signal.SIGCONT)
    async with asyncio.timeout(PATIENCE):
        while stage.fleet.member_of(sleeper) == member:
            await asyncio.sleep(0.1)
    again = wall_clock()
    record = await stage.fleet.record()
    assert [one for one in record.copies if one[1] == user and woken <= one[0] < again] == []
    await stage.settled()


async def s8_a_replica_is_cut_off(stage: Stage) -> None:
    """The replica stops before others take its objects."""
    before = await stage.settled()
    lost = stage.alive[0]
    mine, user = {name for name, owner in before.items() if owner == lost}, stage[lost].user
    cut = wall_clock()
    stage[lost].proxy.refuse(lambda _: True)
    stage[lost].proxy.cut(lambda _: True)
    async with asyncio.timeout(PATIENCE):
        while "this process is" in (await stage[lost].operator.answers("/readyz?verbose"))[1]:
            await asyncio.sleep(0.05)
    ceased = wall_clock()
    await stage.settled(*(name for name in stage.alive if name != lost))
    record = await reconciled(stage, mine, cut, user)
    assert (
        min(one.began for one in record.reconciles if one.source in mine and one.user != user and one.began > cut)
        > ceased
    )
    stage[lost].proxy.disarm()
    await stage.settled()


async def s10_two_join_and_one_leaves(stage: Stage) -> None:
    """All objects have their owners again.

    Only tests in virtual time check that each object moves once at most. On a busy machine a replica's watch of the Leases may lag behind
    its watch of the objects. Such a replica takes an object before it sees that another replica joined.
    """
    await stage.settled()
    leaver = stage.alive[0]
    known = {stage.fleet.member_of(name) for name in stage.alive}
    joining = asyncio.create_task(stage.join(2))
    async with asyncio.timeout(PATIENCE):
        while len(await members(stage) - known) < 2:
            await asyncio.sleep(0.05)
    await stage.stop(leaver)
    await joining
    await stage.settled()


async def s14_all_restart(stage: Stage) -> None:
    """Every object is owned after all replicas have stopped, and nothing is created twice."""
    names = stage.alive
    await asyncio.gather(*(stage.stop(name) for name in names))
    await stage.join(3)
    await stage.settled()
    record = await stage.fleet.record()
    assert sorted(record.created) == sorted(f"source-{number}" for number in range(OBJECTS))


async def members_by_state(stage: Stage) -> dict[str, dict[str, float]]:
    """The number of members in each state, as each replica sees them."""
    return {name: await stage[name].operator.gauge("konverge_shard_members", "state") for name in stage.alive}


async def members_when_all_are_ready(stage: Stage) -> dict[str, dict[str, float]]:
    """Return the members' states, once each replica sees exactly the live members: a killed member is ready, then expired, then dead."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await members_by_state(stage)
            if all((states["ready"], states["expired"]) == (len(stage.alive), 0) for states in found.values()):
                return found
            await asyncio.sleep(0.1)


async def members(stage: Stage) -> set[str]:
    fleet = stage.fleet
    found = await fleet.client.list(LEASE, fleet.namespace, labels="konverge.dev/shard-ring=shards")
    return {one.name for one in found if one.data["spec"].get("holderIdentity")}


async def reconciled(stage: Stage, sources: set[str], since: datetime, former: str) -> Record:
    """Wait until another replica than the former has reconciled each of these objects, and return the record."""
    return await stage.recorded(
        lambda record: all(record.first_after(source, since, other_than=former) for source in sources)
    )


def latest(record: Record, sources: set[str], since: datetime, former: str) -> datetime:
    found = (record.first_after(source, since, other_than=former) for source in sources)
    return max(one for one in found if one is not None)


SCENES = (
    s3_s6_a_replica_joins_while_reconciles_run,
    s4_a_replica_is_killed,
    s10_two_join_and_one_leaves,
    s5_a_replica_is_stopped,
    s7_a_replica_is_paused_in_the_midst_of_a_reconcile,
    s8_a_replica_is_cut_off,
    s14_all_restart,
    s4_s14_all_are_killed_and_restarted,
)


async def test_s1_to_s14_no_object_has_two_reconciles_at_once_under_faults(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with stage_of(audited_plane, "sharing", tmp_path, SHORT) as stage:
        await stage.join(3)
        await stage.fleet.sources(OBJECTS)
        shares = list((await stage.settled()).values())
        assert {shares.count(name) > OBJECTS / 6 for name in stage.alive} == {True}
        changing = asyncio.create_task(keep_changing(stage.fleet))
        try:
            for _ in range(ROUNDS):
                for scene in SCENES:
                    await scene(stage)
        finally:
            changing.cancel()
            await asyncio.wait({changing})
        record = await stage.fleet.record()
        assert len(record.reconciles) > OBJECTS
        assert record.overlaps() == []
        assert record.stale_writes() == []


@pytest.mark.skipif(not LONG, reason="takes a minute, and a machine that is not busy: SHARDING_LONG=1 runs it")
async def test_s4_with_default_times_objects_of_a_killed_replica_wait_35_seconds(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with stage_of(audited_plane, "killed", tmp_path, DEFAULT) as stage:
        await stage.join(3)
        await stage.fleet.sources(20)
        await s4_a_replica_is_killed(stage, timedelta(seconds=35))
        assert (await stage.fleet.record()).overlaps() == []


@pytest.mark.skipif(not LONG, reason="takes minutes, and a machine that is not busy: SHARDING_LONG=1 runs it")
@pytest.mark.parametrize("count", [1, 3], ids=["one", "all"])
async def test_s4_s14_with_default_times_objects_of_restarted_replicas_wait_35_seconds(
    audited_plane: ControlPlane, tmp_path: Path, count: int
) -> None:
    async with stage_of(audited_plane, f"restarted-{count}", tmp_path, DEFAULT) as stage:
        await stage.join(3)
        await stage.fleet.sources(20)
        await s4_s14_replicas_are_killed_and_restarted(stage, count, timedelta(seconds=35))
        assert (await stage.fleet.record()).overlaps() == []


@pytest.mark.skipif(not LONG, reason="takes minutes, and a machine that is not busy: SHARDING_LONG=1 runs it")
async def test_s4_with_default_times_objects_wait_35_seconds_during_a_crash_loop(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with stage_of(audited_plane, "crashing", tmp_path, DEFAULT) as stage:
        await stage.join(3)
        await stage.fleet.sources(OBJECTS)
        await stage.settled()
        victim, rounds = stage.alive[-1], list[tuple[datetime, datetime]]()
        sources = {f"source-{number}" for number in range(OBJECTS)}
        for number in range(6):
            await asyncio.sleep(12)
            await stage.kill(victim)
            since = wall_clock()
            await asyncio.gather(*(stage.fleet.change(source, value=f"crash {number}") for source in sources))
            rounds.append((since, wall_clock()))
            [victim] = await stage.join(1)
        record = await reconciled(stage, sources, rounds[-1][0], "")
        for since, changed in rounds:
            assert latest(record, sources, since, "") - changed <= timedelta(seconds=35)
        assert (await stage.fleet.record()).overlaps() == []


@pytest.mark.skipif(not LONG, reason="takes minutes: SHARDING_LONG=1 runs it")
async def test_s7_with_default_times_suspended_replica_writes_nothing_of_its_reconcile(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with stage_of(audited_plane, "slept", tmp_path, DEFAULT) as stage:
        await stage.join(3)
        await stage.fleet.sources(20)
        await s7_a_replica_is_paused_in_the_midst_of_a_reconcile(stage, 60.0)
        record = await stage.fleet.record()
        assert record.overlaps() == []
        assert record.stale_writes() == []


async def test_record_shows_two_owners_if_replicas_are_in_different_rings(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with stage_of(audited_plane, "two-rings", tmp_path, SHORT) as stage:
        await stage.join(1)
        stage.fleet.ring = "another"
        await stage.join(1)
        await stage.fleet.sources(5)
        for number in range(5):
            await stage.fleet.change(f"source-{number}", seconds="0.5")
        async with asyncio.timeout(PATIENCE):
            while not (record := await stage.fleet.record()).overlaps() or not record.stale_writes():
                await stage.fleet.change("source-1", value=str(len(record.copies)))


async def test_with_a_coordinator_no_object_has_two_reconciles_while_replicas_change(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    async with stage_of(audited_plane, "assigned", tmp_path, SHORT) as stage:
        stage.fleet.mode = "coordinator"
        await stage.join(3)
        await stage.fleet.sources(OBJECTS)
        await stage.settled()
        changing = asyncio.create_task(keep_changing(stage.fleet))
        try:
            for scene in (s4_a_replica_is_killed, s5_a_replica_is_stopped):
                await scene(stage)
                await stage.join(1)
            await stage.settled()
        finally:
            changing.cancel()
            await asyncio.wait({changing})
        record = await stage.fleet.record()
        assert len(record.reconciles) > OBJECTS
        assert record.overlaps() == []
        assert record.stale_writes() == []
