"""Replicas that are killed and restarted, as by a kubelet: no object waits for longer than 35 s, for any restarts."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest
from replicas import NAMESPACE
from shards import COORDINATOR, HASH, Shards, Span

from konverge.runtime.election.record import LEASE
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.words import Label

LIMIT = 35.0
RING = f"{Label.SHARD_RING}=operator"
MODES = ((HASH, "hash"), (COORDINATOR, "coordinator"))


def in_each_mode(first: Any, *others: Any) -> list[Any]:
    """Return the first case in each mode, and the others in the mode `hash`."""
    in_modes = [pytest.param(mode, first, id=f"{name}-{first}") for mode, name in MODES]
    return in_modes + [pytest.param(HASH, other, id=f"hash-{other}") for other in others]


def now() -> float:
    return asyncio.get_running_loop().time()


async def longest_wait(shards: Shards, begun: dict[str, float], dead: Collection[str] = ()) -> float:
    """Return the longest time from these times until a live replica has reconciled the objects; fails after `LIMIT`."""

    def ends(name: str) -> list[float]:
        spans: list[Span] = [span for span in shards.spans if span.name == name and span.replica not in dead]
        return [span.ended for span in spans if span.ended is not None and span.began >= begun[name]]

    last = max(begun.values()) + LIMIT
    while now() < last + 1 and not all(map(ends, begun)):
        await asyncio.sleep(0.25)
    late = [name for name in begun if not ends(name)]
    assert not late, f"never reconciled: {late}"
    return max(min(ends(name)) - since for name, since in begun.items())


async def changed(shards: Shards, first: int, new: int) -> dict[str, float]:
    """Change the existing objects, and then create new objects; returns the time of each change."""
    begun = {f"source-{number}": now() for number in range(first + new)}
    for number in range(first):
        await shards.change(f"source-{number}", "2")
    await shards.objects(new, begin=first)
    return begun


@pytest.mark.parametrize(("mode", "delay"), in_each_mode(14.0))
async def test_objects_of_a_killed_and_restarted_replica_wait_35_seconds_at_most(
    mode: ShardingSettings, delay: float
) -> None:
    async with Shards(sharding=mode) as shards:
        await asyncio.gather(*map(shards.start, "abc"))
        await shards.objects(12)
        await shards.settled("abc")
        await asyncio.sleep(11.0)
        shards.kill("c")
        begun = await changed(shards, 12, 12)
        await asyncio.sleep(delay)
        await shards.start("d")
        assert await longest_wait(shards, begun, "c") <= LIMIT
        assert set((await shards.settled("abd")).values()) == set("abd")


@pytest.mark.parametrize(("mode", "delays"), in_each_mode((4.0, 6.0, 8.0), (0.0, 8.0, 30.0)))
async def test_objects_of_all_killed_and_restarted_replicas_wait_35_seconds_at_most(
    mode: ShardingSettings, delays: tuple[float, ...]
) -> None:
    async with Shards(sharding=mode) as shards:

        async def start(name: str, delay: float) -> None:
            await asyncio.sleep(delay)
            await shards.start(name)

        await asyncio.gather(*map(shards.start, "abc"))
        await shards.objects(12)
        await shards.settled("abc")
        await asyncio.sleep(11.0)
        for name in "abc":
            shards.kill(name)
        begun = await changed(shards, 12, 12)
        starts = [asyncio.create_task(start(name, delay)) for name, delay in zip("def", delays, strict=True)]
        assert await longest_wait(shards, begun, "abc") <= LIMIT
        await asyncio.gather(*starts)
        await shards.settled("def")


@pytest.mark.parametrize(("mode", "period"), in_each_mode(18.0, 27.0))
async def test_no_object_waits_over_35_seconds_while_a_replica_crash_loops(
    mode: ShardingSettings, period: float
) -> None:
    async with Shards(sharding=mode) as shards:
        await asyncio.gather(*map(shards.start, ("a", "b", "c0")))
        await shards.objects(12)
        await shards.settled(("a", "b", "c0"))
        live, begun, owned, waits = "c0", dict[str, float](), dict[str, float](), [0.0]
        crash_due = now() + period
        for second in range(90):
            if now() >= crash_due:
                shards.kill(live)
                live, crash_due = f"c{second + 1}", now() + period
                await shards.start(live)
            if second % 4 == 0:
                begun[f"source-{12 + second}"] = now()
                await shards.objects(1, begin=12 + second)
            await asyncio.sleep(1)
            for name, owner in (await shards.stamps()).items():
                waits.append(now() - owned.setdefault(name, now()))
                if owner in ("a", "b", live):
                    owned[name] = now()
        assert max(waits) <= LIMIT
        assert await longest_wait(shards, begun) <= LIMIT


async def test_objects_of_a_replica_that_stops_and_is_restarted_wait_for_seconds() -> None:
    async with Shards() as shards:
        await asyncio.gather(*map(shards.start, "abc"))
        await shards.objects(12)
        await shards.settled("abc")
        await shards.stop("c")
        begun = await changed(shards, 12, 12)
        await shards.start("d")
        assert await longest_wait(shards, begun) <= 3.0
        await shards.settled("abd", within=10.0)


async def test_dead_member_is_reported_by_its_released_lease_for_a_minute() -> None:
    async with Shards() as shards:
        await asyncio.gather(*map(shards.start, "ab"))
        [dead] = [
            lease.name
            for lease in await shards.client.list(LEASE, NAMESPACE, labels=RING)
            if lease.name.startswith("operator-a-")
        ]
        shards.kill("a")
        await asyncio.sleep(31)
        lease = await shards.client.get(LEASE, dead, NAMESPACE)
        assert not lease.data["spec"].get("holderIdentity")
        await asyncio.sleep(70)
        assert dead not in [lease.name for lease in await shards.client.list(LEASE, NAMESPACE, labels=RING)]


async def test_member_whose_lease_another_member_released_rejoins_under_a_new_name() -> None:
    async with Shards() as shards:
        await asyncio.gather(*map(shards.start, "ab"))
        await shards.objects(12)
        before = await shards.settled("ab")
        for lease in await shards.client.list(LEASE, NAMESPACE, labels=RING):
            if lease.name.startswith("operator-a-"):
                spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
                await shards.client.patch(LEASE, lease.name, NAMESPACE, patch={"spec": spec}, style="merge")
        await asyncio.sleep(10)
        members = await shards.client.list(LEASE, NAMESPACE, labels=RING)
        assert sum(member.name.startswith("operator-a-") for member in members) == 2
        assert set((await shards.settled("ab")).values()) == set(before.values())
