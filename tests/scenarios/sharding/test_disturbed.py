"""Wall clocks that jump, replicas that take themselves for one another, and renewals that are slow: none makes two owners."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from random import Random
from typing import Any

import pytest
from replicas import NAMESPACE
from shards import Shards

import konverge as kv
from konverge.client.requests import Request
from konverge.clock import wall_clock
from konverge.runtime.election.record import LEASE
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.testing.loop import CLOCK_ERROR
from konverge.words import Label


async def started(shards: Shards, *names: str) -> None:
    await asyncio.gather(*(shards.start(name) for name in names))


async def members(shards: Shards) -> list[str]:
    found = await shards.client.list(LEASE, NAMESPACE, labels=f"{Label.SHARD_RING}=operator")
    return sorted(one.name for one in found)


async def with_clock(shards: Shards, name: str, error: dict[str, float]) -> None:
    """Start a replica whose wall clock is wrong by what the test says at each moment."""
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
async def test_a_wall_clock_that_jumps_by_an_hour_moves_no_object_and_ends_no_membership(
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
        assert shards.overlaps() == []


def _seconds_from_now(renewed: str) -> float:
    return (kv.clock.from_rfc3339(renewed) - wall_clock()).total_seconds()


class Doubled(Shards):
    """Replicas that all call themselves `a`, and are distinguished by the test."""

    def __init__(self, sharding: ShardingSettings) -> None:
        super().__init__(sharding=sharding)
        self.starting = ""

    def replica_of(self, manager: kv.Manager) -> str:
        return self.starting

    async def begin(self, name: str, **how: Any) -> None:
        self.starting = name
        await self.start(name, instance="a", **how)


async def test_two_replicas_of_one_name_are_two_members_and_never_work_on_one_object(mode: ShardingSettings) -> None:
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


async def test_of_two_replicas_that_draw_one_identity_too_one_waits_and_takes_over_when_the_other_is_dead(
    mode: ShardingSettings,
) -> None:
    """As if a machine was cloned: the name of the member, and in `coordinator` of the replica, is the same."""
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
        # In `coordinator` they draw at other moments: two members, whose replicas have one name.
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
async def test_renewals_that_are_slow_and_in_time_end_no_membership_and_move_no_object(
    mode: ShardingSettings, slow: tuple[str, ...], seconds: float | str
) -> None:
    async with Shards(sharding=mode) as shards:
        random = Random(5)

        def delay(request: Request) -> float:
            if "/leases" not in request.path:
                return 0.0
            return random.uniform(0.0, 4.9) if isinstance(seconds, str) else seconds

        await started(shards, "a", "b", "c")
        await shards.objects(15)
        before = await shards.settled("abc")
        ring, claims = await members(shards), len(shards.claims)
        shards.delays.update(dict.fromkeys(slow, delay))
        for number in range(20):
            await asyncio.sleep(15)
            await reconciled_by_owners(shards, before, f"slow-{number}")
        assert (await shards.stamps(), await members(shards), len(shards.claims)) == (before, ring, claims)
        assert shards.overlaps() == []
