"""S1 under faults that a seed chooses: deaths, restarts, pauses, slow requests, edits of Leases and stamps by hand."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from replicas import NAMESPACE, Replica
from shards import DRAIN_MARK, LABEL, Shards
from widgets import CONFIG_MAP

from konverge.errors import NotFound
from konverge.runtime.election.record import LEASE
from konverge.runtime.sharding.settings import ShardingSettings

OBJECTS = 6
FAULTS = 5
LONGEST_FLIGHT = 4.0
"""Seconds that a request is under way at most: what has left the process is beyond its fence, and a Lease is far longer than that."""


async def kill(shards: Shards, one: Replica, random: Random) -> None:
    shards.kill(one.name)
    await asyncio.sleep(random.uniform(0, 40))
    await shards.start(f"{one.name}x")
    one.wire.alive = True  # so that its tasks can end
    await shards.stop(one.name)


async def restart(shards: Shards, one: Replica, random: Random) -> None:
    await shards.stop(one.name)
    await shards.start(f"{one.name}x")


async def pause(shards: Shards, one: Replica, random: Random) -> None:
    one.wire.pause()
    await asyncio.sleep(random.uniform(1, 60))
    one.wire.resume()


async def slow_requests(shards: Shards, one: Replica, random: Random) -> None:
    shards.delays[one.name] = lambda _: random.uniform(0, LONGEST_FLIGHT)
    await asyncio.sleep(random.uniform(5, 60))
    shards.delays.pop(one.name, None)


async def slow_renewals(shards: Shards, one: Replica, random: Random) -> None:
    seconds = random.choice((3.0, 12.0, 40.0))
    shards.delays[one.name] = lambda request: seconds if "/leases" in request.path else 0.0
    await asyncio.sleep(random.uniform(5, 60))
    shards.delays.pop(one.name, None)


async def stall_leases(shards: Shards, one: Replica, random: Random) -> None:
    release = shards.stall(one.name, "/leases")
    await asyncio.sleep(random.uniform(5, 60))
    release()


async def join(shards: Shards, one: Replica, random: Random) -> None:
    await shards.start(f"{one.name}y{random.randrange(1000)}")


async def edit_lease(shards: Shards, one: Replica, random: Random) -> None:
    leases = await shards.client.list(LEASE, NAMESPACE)
    spec: dict[str, Any] = random.choice(
        ({"holderIdentity": "by-hand"}, {"renewTime": "2000-01-01T00:00:00.000000Z"}, {"leaseTransitions": 7})
    )
    with contextlib.suppress(NotFound):
        name = random.choice(list(leases)).name
        if random.random() < 0.3:
            await shards.client.delete(LEASE, name, NAMESPACE)
        else:
            await shards.client.patch(LEASE, name, NAMESPACE, patch={"spec": spec}, style="merge")


async def edit_stamp(shards: Shards, one: Replica, random: Random) -> None:
    member = random.choice(list(await shards.client.list(LEASE, NAMESPACE))).name
    await shards.stamp(f"source-{random.randrange(OBJECTS)}", random.choice((None, f"{member}/1", "nonsense")))


async def edit_label(shards: Shards, one: Replica, random: Random) -> None:
    """Assign an object to another replica by hand, to an unknown replica, or to none; or request a hand-over from its owner."""
    found = await shards.client.list(CONFIG_MAP, NAMESPACE)
    labels = [one.metadata.label(LABEL) for one in found]
    words = {"labels": {LABEL: random.choice((None, "nowhere", *(one for one in labels if one)))}}
    if random.random() < 0.3:
        words = {"annotations": {DRAIN_MARK: random.choice(("nowhere", *(one for one in labels if one)))}}
    name = f"source-{random.randrange(OBJECTS)}"
    await shards.client.patch(CONFIG_MAP, name, NAMESPACE, patch={"metadata": words}, style="merge")


Fault = Callable[[Shards, Replica, Random], Coroutine[Any, Any, None]]
ALL: tuple[Fault, ...] = (
    *(kill, restart, pause, slow_requests, slow_renewals, stall_leases, join, edit_lease, edit_stamp),
    edit_label,
)


@pytest.mark.parametrize("course", range(2))
async def test_s1_no_object_has_two_reconciles_at_once_under_random_faults(
    course: int, seed: int, mode: ShardingSettings
) -> None:
    random = Random(1_000 * course + seed)
    async with Shards(sharding=mode) as shards:
        shards.cost = lambda: random.choice((0.0, 0.1, 1.0, 8.0))
        for name in ("a", "b", "c"):
            await shards.start(name)
        await shards.objects(OBJECTS)
        for number in range(FAULTS):
            alive = [one for one in shards.replicas.values() if one.wire.alive]
            fault = asyncio.create_task(random.choice(ALL)(shards, random.choice(alive), random))
            for step in range(random.randrange(12)):
                await shards.change(f"source-{random.randrange(OBJECTS)}", f"{number}-{step}")
                await asyncio.sleep(random.expovariate(0.5))
            await fault
        assert shards.overlaps() == []
        for number in range(OBJECTS):
            await shards.change(f"source-{number}", "end")
        async with asyncio.timeout(120.0):
            while [await shards.copy(f"source-{number}") for number in range(OBJECTS)] != ["end"] * OBJECTS:
                await asyncio.sleep(1)
