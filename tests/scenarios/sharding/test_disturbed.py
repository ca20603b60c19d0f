"""Wall clocks that jump, replicas with the same identity, and slow renewals: no disturbance leads to two owners."""

import asyncio
from contextvars import copy_context
from random import Random
from typing import Any

import pytest
import structlog
from replicas import NAMESPACE
from shards import HASH, Shards

import konverge as kv
from konverge.client.requests import Request
from konverge.clock import wall_clock
from konverge.runtime.election.record import LEASE
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.words import Label, Reason
from konverge_testing.loop import CLOCK_ERROR

EVENT = kv.kind("events.k8s.io/v1", "Event")


async def members(shards: Shards) -> list[str]:
    found = await shards.client.list(LEASE, NAMESPACE, labels=f"{Label.SHARD_RING}=operator")
    return sorted(one.name for one in found)


async def told(shards: Shards) -> list[tuple[str, str, str]]:
    """Reason, Lease and text of the Events about Leases."""
    found = [one.data for one in await shards.client.list(EVENT, NAMESPACE)]
    return sorted(
        (one["reason"], one["regarding"]["name"], one["note"])
        for one in found
        if one["regarding"]["kind"] == LEASE.kind
    )


def logged(lines: list[Any], reason: str) -> list[tuple[str, str]]:
    """The members that logged a warning with the reason of this Event, and its cause."""
    said = [line for line in lines if line.get("event_reason") == reason]
    assert {line["log_level"] for line in said} <= {"warning"}
    return sorted((line["identity"], line["cause"]) for line in said)


async def with_clock(shards: Shards, name: str, error: dict[str, float]) -> None:
    """Start a replica whose wall clock has the test's current error."""
    context = copy_context()
    context.run(CLOCK_ERROR.set, lambda: error[name])
    await asyncio.create_task(shards.start(name), context=context)


async def reconciled_by_owners(shards: Shards, owners: dict[str, str], value: str) -> None:
    """Change each object, and wait until its owner has reconciled it."""
    since = asyncio.get_running_loop().time()
    for name in owners:
        await shards.change(name, value)
    await shards.all_run_by(owners, since=since, within=10.0)
    assert {span.replica for span in shards.spans if span.began >= since} == set(owners.values())


@pytest.mark.parametrize("jumps", [("a",), ("a", "b", "c")], ids=["of one", "of all"])
@pytest.mark.parametrize("hour", [3600.0, -3600.0], ids=["forward", "back"])
async def test_wall_clock_jump_of_an_hour_moves_no_object_or_membership(
    mode: ShardingSettings, hour: float, jumps: tuple[str, ...]
) -> None:
    error = dict.fromkeys("abc", 0.0)
    async with Shards(sharding=mode) as shards:
        await asyncio.gather(*(with_clock(shards, name, error) for name in "abc"))
        await shards.objects(15)
        before = await shards.settled("abc")
        ring, claims = await members(shards), len(shards.claims)
        await asyncio.sleep(7)
        for name in jumps:
            error[name] = hour
        for number in range(4):
            await asyncio.sleep(15)
            await reconciled_by_owners(shards, before, f"jumped-{number}")
        renewed = [str(one.data["spec"]["renewTime"]) for one in await shards.client.list(LEASE, NAMESPACE)]
        assert sum(abs(_seconds_from_now(one)) > 3000 for one in renewed) >= len(jumps), "the clocks did jump"
        for name in jumps:
            error[name] = 0.0
        await asyncio.sleep(60)
        assert (await shards.stamps(), await members(shards), len(shards.claims)) == (before, ring, claims)


def _seconds_from_now(renewed: str) -> float:
    return (kv.clock.from_rfc3339(renewed) - wall_clock()).total_seconds()


class Doubled(Shards):
    """Replicas that are all named `a`; the test distinguishes them."""

    def __init__(self, sharding: ShardingSettings) -> None:
        super().__init__(sharding=sharding)
        self.starting = ""

    def replica_of(self, manager: kv.Manager) -> str:
        return self.starting

    async def begin(self, name: str, **how: Any) -> None:
        self.starting = name
        await self.start(name, instance="a", **how)


async def test_two_replicas_of_one_name_are_two_members_without_shared_work(mode: ShardingSettings) -> None:
    async with Doubled(mode) as shards:
        shards.cost = lambda: 0.5
        await shards.begin("first")
        await shards.objects(16)
        await shards.begin("second")
        await asyncio.sleep(20)
        for number in range(16):
            await shards.change(f"source-{number}", "2")
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(30)
        assert {span.replica for span in shards.spans if span.began >= began} == {"first", "second"}
        assert len(await members(shards)) == 2
        assert shards.overlaps() == []
        shards.kill("first")
        await asyncio.sleep(60)
        for number in range(16):
            await shards.change(f"source-{number}", "3")
        await asyncio.sleep(20)
        assert [await shards.copy(f"source-{number}") for number in range(16)] == ["3"] * 16
        assert shards.overlaps() == []


async def test_replica_with_a_duplicate_identity_waits_until_the_other_is_dead(mode: ShardingSettings) -> None:
    """As if a machine was cloned: the name of the member is the same, and in `coordinator` the name of the replica."""
    async with Doubled(mode) as shards:
        shards.cost = lambda: 0.5
        await shards.begin("first", random=Random(7))
        await shards.objects(16)
        await asyncio.sleep(20)
        starting = asyncio.create_task(shards.begin("second", random=Random(7), patience=300.0))
        for value in range(5):
            await asyncio.sleep(10)
            for number in range(16):
                await shards.change(f"source-{number}", str(value))
        await asyncio.sleep(10)
        assert {span.replica for span in shards.spans} == {"first"}
        # In `coordinator` the members draw their names at different moments: two members, whose replicas have the same name.
        assert len(await members(shards)) == (1 if mode.mode == "hash" else 2)
        killed = asyncio.get_running_loop().time()
        shards.kill("first")
        for number in range(16):
            await shards.change(f"source-{number}", "last")
        await asyncio.sleep(60)
        assert {span.replica for span in shards.spans if span.began > killed + 10} == {"second"}
        assert [await shards.copy(f"source-{number}") for number in range(16)] == ["last"] * 16
        assert shards.overlaps() == []
        await starting


@pytest.mark.parametrize("slow", [("a",), ("a", "b", "c")], ids=["of one", "of all"])
@pytest.mark.parametrize("seconds", [2.0, 4.5, "any"], ids=str)
async def test_slow_renewals_in_time_end_no_membership_and_move_no_object(
    mode: ShardingSettings, slow: tuple[str, ...], seconds: float | str
) -> None:
    async with Shards(sharding=mode) as shards:
        random = Random(5)

        def delay(request: Request) -> float:
            if "/leases" not in request.path:
                return 0.0
            return random.uniform(0.0, 4.9) if isinstance(seconds, str) else seconds

        before = await shards.filled("abc", objects=15)
        ring, claims = await members(shards), len(shards.claims)
        shards.delays.update(dict.fromkeys(slow, delay))
        for number in range(20):
            await asyncio.sleep(15)
            await reconciled_by_owners(shards, before, f"slow-{number}")
        assert (await shards.stamps(), await members(shards), len(shards.claims)) == (before, ring, claims)


@pytest.mark.parametrize("hour", [3600.0, -3600.0], ids=["forward", "back"])
async def test_each_wall_clock_jump_is_reported_once_in_log_and_lease_event(
    mode: ShardingSettings, hour: float
) -> None:
    error = dict.fromkeys("ab", 0.0)
    with structlog.testing.capture_logs() as lines:
        async with Shards(sharding=mode) as shards:
            await asyncio.gather(*(with_clock(shards, name, error) for name in "ab"))
            await asyncio.sleep(60)
            assert (await told(shards), logged(lines, Reason.SHARD_CLOCK_JUMPED)) == ([], [])
            error["a"] = hour
            await asyncio.sleep(60)
            [(reason, lease, note)] = await told(shards)
            assert (reason, lease.startswith("operator-a-")) == (Reason.SHARD_CLOCK_JUMPED, True)
            assert f"jumped by {hour:+.0f} s" in note
            assert "no object moves for it" in note
            assert logged(lines, Reason.SHARD_CLOCK_JUMPED) == [(lease, note)]
            error["a"] = 0.0
            await asyncio.sleep(60)
            assert len(logged(lines, Reason.SHARD_CLOCK_JUMPED)) == 2


async def test_clock_adjustment_by_seconds_is_not_logged(mode: ShardingSettings) -> None:
    error = {"a": 0.0}
    async with Shards(sharding=mode) as shards:
        await with_clock(shards, "a", error)
        for _ in range(20):
            await asyncio.sleep(5)
            error["a"] += 2.0
        assert await told(shards) == []


async def test_replicas_of_one_name_are_reported_by_log_and_lease_event(mode: ShardingSettings) -> None:
    with structlog.testing.capture_logs() as lines:
        async with Doubled(mode) as shards:
            await shards.begin("first")
            await shards.begin("second")
            await asyncio.sleep(120)
            first, second = await members(shards)
            found = await told(shards)
            assert [one[:2] for one in found] == [(Reason.SHARD_IDENTITY_SHARED, name) for name in (first, second)]
            assert f"another live member of the ring, {second}, has the host name of this replica" in found[0][2]
            assert f"another live member of the ring, {first}, has the host name of this replica" in found[1][2]
            assert logged(lines, Reason.SHARD_IDENTITY_SHARED) == [one[1:] for one in found]


async def test_replica_that_draws_a_held_lease_name_logs_it_and_emits_events() -> None:
    with structlog.testing.capture_logs() as lines:
        async with Doubled(HASH) as shards:
            await shards.begin("first", random=Random(7))
            starting = asyncio.create_task(shards.begin("second", random=Random(7), patience=300.0))
            await asyncio.sleep(30)
            [lease] = await members(shards)
            [(identity, cause)] = logged(lines, Reason.SHARD_IDENTITY_SHARED)
            assert identity == lease
            assert cause.startswith("another replica, a_")
            assert "two processes have one identity" in cause
            assert await told(shards) == []
            shards.kill("first")
            await starting
            await asyncio.sleep(60)
            assert [one[:2] for one in await told(shards)] == [(Reason.SHARD_IDENTITY_SHARED, lease)]


async def test_restarted_replica_or_lost_lease_is_not_a_duplicate_identity(mode: ShardingSettings) -> None:
    with structlog.testing.capture_logs() as lines:
        async with Doubled(mode) as shards:
            await shards.begin("first")
            await asyncio.sleep(20)
            shards.kill("first")
            await shards.begin("second")
            await asyncio.sleep(60)
            shards.replicas["second"].wire.pause()
            await asyncio.sleep(40)
            shards.replicas["second"].wire.resume()
            await asyncio.sleep(60)
            assert {one[0] for one in await told(shards)} == {Reason.SHARD_MEMBERSHIP_LOST}
    assert logged(lines, Reason.SHARD_IDENTITY_SHARED) == []
