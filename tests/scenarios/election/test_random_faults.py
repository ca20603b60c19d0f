"""Three replicas under faults that a seed chooses: deaths, restarts, slow requests, edits of the Lease by hand.

`ELECTION_SEEDS=5000 pytest tests/scenarios/election/test_random_faults.py` runs more of them.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from copy_operator import build, copy_of, source
from replicas import NAMESPACE, Replica, Replicas

from konverge.errors import NotFound
from konverge.runtime.election.record import LEASE

SEEDS = int(os.environ.get("ELECTION_SEEDS", "40"))
FAULTS = 6
LONGEST_FLIGHT = 4.0
"""Seconds that a write is under way at most: bytes that have left the process are beyond its fence, for which the lease is longer than
the time to renew it."""


async def kill(replicas: Replicas, one: Replica, random: Random) -> None:
    replicas.kill(one.name)
    await asyncio.sleep(random.uniform(0, 20))
    await replicas.start(f"{one.name}+")
    one.wire.alive = True  # so that its tasks can end; it is already a standby
    await replicas.stop(one.name)


async def restart(replicas: Replicas, one: Replica, random: Random) -> None:
    await replicas.stop(one.name)
    await replicas.start(f"{one.name}+")


async def slow_renewals(replicas: Replicas, one: Replica, random: Random) -> None:
    seconds = random.choice((3.0, 6.0, 12.0, 40.0))
    replicas.delays[one.name] = lambda request: seconds if "/leases" in request.path else 0.0
    await asyncio.sleep(random.uniform(5, 60))
    replicas.delays.pop(one.name)


async def slow_requests(replicas: Replicas, one: Replica, random: Random) -> None:
    replicas.delays[one.name] = lambda _: random.uniform(0, LONGEST_FLIGHT)
    await asyncio.sleep(random.uniform(5, 60))
    replicas.delays.pop(one.name)


async def edit(replicas: Replicas, one: Replica, random: Random) -> None:
    spec: dict[str, Any] = random.choice(
        (
            {"holderIdentity": "by-hand"},
            {"holderIdentity": ""},
            {"renewTime": "2000-01-01T00:00:00.000000Z"},
            {"acquireTime": None},
            {"leaseTransitions": 0},
        )
    )
    with contextlib.suppress(NotFound):  # another fault may have deleted it
        await replicas.client.patch(LEASE, "operator", NAMESPACE, patch={"spec": spec}, style="merge")


async def delete(replicas: Replicas, one: Replica, random: Random) -> None:
    await replicas.client.delete(LEASE, "operator", NAMESPACE)


Fault = Callable[[Replicas, Replica, Random], Coroutine[Any, Any, None]]
ALL: tuple[Fault, ...] = (kill, restart, slow_renewals, slow_requests, edit, delete)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_no_two_replicas_write_and_the_work_goes_on(seed: int) -> None:
    random = Random(seed)
    async with Replicas(build, seed=seed) as replicas:
        for name in ("a", "b", "c"):
            await replicas.start(name)
        await replicas.leader()
        for number in range(FAULTS):
            one = random.choice(list(replicas.replicas.values()))
            fault: asyncio.Task[None] = asyncio.create_task(random.choice(ALL)(replicas, one, random))
            for step in range(random.randrange(20)):
                await source(replicas, f"source-{number % 3}", f"{number}-{step}")
                await asyncio.sleep(random.expovariate(1.0))
            await fault
        await source(replicas, "source-last", "end")
        await copy_of(replicas, "source-last", within=60.0)
        assert replicas.violations() == []
        assert sum(one.leads for one in replicas.replicas.values()) == 1
