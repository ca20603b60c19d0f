"""Releases while pods run, on a real control plane: shrink first, credit later, and never more than the pool has.

After each story all stored states are replayed in order, and the rule of docs/reference/capsule.md#shrink-first-credit-later is checked
after each write.
"""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest
import pytest_asyncio
from quota.lab import CPU, RELEASE
from quota.plane import History, Plane

from konverge.crds.quota_v1beta2 import ResourcePoolClaim
from konverge.errors import Invalid
from konverge.reconcilers.quota import Settings as QuotaSettings

pytestmark = pytest.mark.control_plane

QUOTA = "capsule-pool-p"


@pytest_asyncio.fixture
async def history(here: Plane) -> AsyncIterator[History]:
    async with History(here.lab.client) as found:
        yield found


@pytest.mark.parametrize("way", ["delete", "release"])
async def test_x13_released_amount_is_credited_only_after_pods_stop_using_it(
    here: Plane, history: History, way: str
) -> None:
    await here.start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=4)
    await here.grants("a", {CPU: 4})
    assert await here.start_pod("a", "three", {"cpu": "3"})
    await here.claim("b", "waits", cpu=4)
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=0")
    await (here.delete if way == "delete" else here.release)("a", "c")
    await here.grants("a", {CPU: 0})
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=1")
    assert await here.start_pod("a", "another", {"cpu": "1m"}) is False
    assert await here.start_pod("b", "early", {"cpu": "1m"}) is False
    await here.end_pod("a", "three")
    await here.bound("b", "waits")
    await here.grants("b", {CPU: 4})
    pool = await here.spent({CPU: 4})
    assert pool.status.releasing == {}
    assert await here.start_pod("b", "four", {"cpu": "4"})
    assert await history.check() > 10


async def test_x25_a_namespace_draws_on_what_its_pods_still_use(here: Plane, history: History) -> None:
    await here.start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=3)
    await here.claim("b", "c", cpu=1)
    await here.grants("a", {CPU: 3})
    await here.grants("b", {CPU: 1})
    assert await here.start_pod("a", "three", {"cpu": "3"})
    await here.delete("a", "c")
    await here.grants("a", {CPU: 0})
    await here.claim("b", "more", cpu=1)
    await here.says("b", "more", "PoolExhausted", "available: requests.cpu=0")
    await here.claim("a", "again", cpu=3)
    await here.bound("a", "again")
    await here.grants("a", {CPU: 3})
    assert await history.check() > 10


async def test_x26_unclaimed_key_stays_in_the_quota_while_pods_use_it(here: Plane, history: History) -> None:
    await here.start("a")
    await here.pool(hard={CPU: 4, "pods": 5})
    await here.claim("a", "c", {CPU: 2, "pods": 2})
    await here.grants("a", {CPU: 2, "pods": 2})
    assert await here.start_pod("a", "two", {"cpu": "2"})
    await here.release("a", "c")
    await here.says("a", "c", "Released")
    await here.patch("a", "c", {"spec": {"claim": {CPU: None}}})
    await here.bound("a", "c")
    await here.grants("a", {CPU: 0, "pods": 2})
    assert await here.start_pod("a", "another", {"cpu": "1m"}) is False
    await here.end_pod("a", "two")
    await here.grants("a", {"pods": 2})
    await here.spent({CPU: 0, "pods": 2})
    assert await history.check() > 10


async def test_x23_a_released_claim_makes_room_for_others_and_may_be_edited(here: Plane, history: History) -> None:
    await here.start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.claim("b", "waits", cpu=2)
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=1")
    await here.release("a", "c")
    await here.bound("b", "waits")
    claim = await here.says("a", "c", "Released")
    assert RELEASE in claim.annotations
    await here.patch("a", "c", {"spec": {"claim": {CPU: 2}}})
    await here.bound("a", "c")
    await here.until(ResourcePoolClaim, "a", "c", lambda claim: RELEASE not in claim.annotations)
    await here.spent({CPU: 4})
    assert await history.check() > 10


async def test_under_v014_a_claim_is_used_then_unused_and_then_resized(here: Plane, history: History) -> None:
    await here.start("a", "b", settings=QuotaSettings(semantics="v0.14"))
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=4)
    await here.tells("a", "c", "Bound", "Unused", "claim is unused")
    await here.grants("a", {CPU: 4})
    assert await here.start_pod("a", "three", {"cpu": "3"})
    await here.tells("a", "c", "Bound", "InUse", "claim is used")
    await here.claim("b", "waits", cpu=3)
    await here.tells("b", "waits", "Exhausted", "PoolExhausted", "available: requests.cpu=0")
    with pytest.raises(Invalid, match="release it first"):
        await here.patch("a", "c", {"spec": {"claim": {CPU: 1}}})
    await here.end_pod("a", "three")
    await here.tells("a", "c", "Bound", "Unused")
    await here.patch("a", "c", {"spec": {"claim": {CPU: 1}}})
    await here.tells("b", "waits", "Bound", "Unused")
    await here.grants("a", {CPU: 1})
    await here.grants("b", {CPU: 3})
    await here.spent({CPU: 4})
    assert await history.check() > 10


async def test_concurrent_claims_and_pods_never_exceed_the_pool(here: Plane, history: History) -> None:
    names, rounds = ("a", "b", "c", "d"), 8
    await here.start(*names)
    await here.pool(hard={CPU: 6}, defaultsZero=True)

    async def tenant(where: str) -> None:
        chance = Random(where)  # the same story each time
        for turn in range(rounds):
            await here.claim(where, f"c{turn}", cpu=chance.randint(1, 4))
            for number in range(3):
                await asyncio.sleep(chance.random() / 4)
                await here.start_pod(where, f"p{turn}-{number}", {"cpu": f"{chance.randint(5, 20) * 100}m"})
            await (here.delete if chance.random() < 0.5 else here.release)(where, f"c{turn}")
            await asyncio.sleep(chance.random() / 4)
            for number in range(chance.randint(1, 3)):
                await here.end_pod(where, f"p{turn}-{number}")

    await asyncio.gather(*(tenant(where) for where in names))
    assert await history.check() > 100
    assert len({event.path for event in history.events if event.kind == "Pod"}) > 10
    for where in names:
        for claim in await here.lab.client.list(ResourcePoolClaim, here.ns(where)):
            await here.delete(where, claim.name)
        for number in range(rounds * 3):
            await here.end_pod(where, f"p{number // 3}-{number % 3}")
        await here.grants(where, {CPU: 0})
    pool = await here.spent({CPU: 0})
    assert (pool.status.claim_count, pool.status.releasing, dict(pool.status.claims)) == (0, {}, {})
    await history.check()
