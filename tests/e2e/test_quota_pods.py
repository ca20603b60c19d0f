"""Pods under a pool, on a real control plane: they are counted by the real quota admission and the real quota controller."""

import asyncio

import pytest
from quota.lab import CPU
from quota.plane import History, Plane

from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA

pytestmark = pytest.mark.control_plane

QUOTA = "capsule-pool-p"
COME_AND_GO = 500


async def test_pods_in_several_namespaces_are_admitted_up_to_the_claims(here: Plane) -> None:
    claimed = {"a": 3, "b": 2, "c": 1, "d": 0}
    async with History(here.lab.client) as history:
        await here.start(*claimed)
        await here.pool(hard={CPU: 3, "pods": 7}, defaultsZero=True)
        for where, pods in claimed.items():
            await here.claim(where, "c", {CPU: f"{pods * 500}m", "pods": pods})
            await here.grants(where, {CPU: f"{pods * 500}m", "pods": pods})
        wanted = [(where, f"p{number}") for number in range(6) for where in claimed]
        let_in = await asyncio.gather(*(here.start_pod(where, name, {"cpu": "500m"}) for where, name in wanted))
        for where, pods in claimed.items():
            assert sum(ok for (place, _), ok in zip(wanted, let_in, strict=True) if place == where) == pods
        assert await history.check() > 10


async def test_pod_beyond_a_single_resource_limit_is_refused_by_the_quota(here: Plane) -> None:
    await here.start("a")
    await here.pool(hard={CPU: 3, "pods": 7}, defaultsZero=True)
    await here.claim("a", "c", {CPU: "1", "pods": 5})
    await here.grants("a", {CPU: 1, "pods": 5})
    assert await here.start_pod("a", "large", {"cpu": "1001m"}) is False
    assert await here.start_pod("a", "small", {"cpu": "1"}) is True
    assert await here.start_pod("a", "one-more", {"cpu": "1m"}) is False


async def test_x29_changing_pods_in_a_settled_pool_trigger_no_reconcile_for_real(here: Plane) -> None:
    await here.start("a", "b")
    await here.pool(hard={CPU: 40, "pods": 201}, defaultsZero=True)
    for where in ("a", "b"):
        await here.claim(where, "c", {CPU: 20, "pods": 100})
        await here.grants(where, {CPU: 20, "pods": 100})
    await here.lab.settled(quiet=2)
    before = here.passed()

    async def life(number: int) -> None:
        where = "ab"[number % 2]
        async with asyncio.timeout(120):
            # The quota controller subtracts ended pods later, so until then there may be too little room.
            while not await here.start_pod(where, f"p{number}", {"cpu": "100m"}):
                await asyncio.sleep(0.2)
        await here.end_pod(where, f"p{number}")

    versions = {where: (await here.quota(where)).metadata.resource_version for where in "ab"}
    for first in range(0, COME_AND_GO, 10):
        await asyncio.gather(*(life(number) for number in range(first, first + 10)))
    for where in "ab":
        await here.until(RESOURCE_QUOTA, where, QUOTA, lambda quota: quota.get("status", "used", "pods") == "0")
        seen = int((await here.quota(where)).metadata.resource_version)
        assert seen > int(versions[where]) + COME_AND_GO / 4, "the use of the quota did change"
    await here.lab.settled(quiet=2)
    assert here.passed() == before
    # Other changes than use still trigger a reconcile.
    await here.claim("a", "another", {CPU: 0, "pods": 1})
    await here.grants("a", {CPU: 20, "pods": 101})
    assert here.passed() != before
