"""Statuses that other writers wiped: allocations are recovered from the pool's status, the claim's own, and the ResourceQuota."""

import asyncio
from typing import Any

import pytest
from quota.lab import CPU, POD, HeldByTheRule, Quotas

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge_testing import Lab

MEMORY = "requests.memory"
AT_ONCE = 1.0


async def wipe(here: Quotas, what: Any, where: str, name: str, part: str = "") -> None:
    """Remove the status, or a part of it, as `kubectl edit --subresource=status` does."""
    patch = {"status": {part: None} if part else None}
    space = here.ns(where) if where else ""
    await here.lab.client.patch(what, name, space, patch=patch, style="merge", subresource="status")


async def two_claims_and_an_older_one_that_waits(lab: Lab, **config: Any) -> Quotas:
    """In a: c, which is allocated, and an older claim that would replace it."""
    here = await Quotas(lab).start("a", "b")
    await here.pool("p", {CPU: 4}, **config)
    await here.claim("b", "first", cpu=4)
    await here.bound("b", "first")
    await here.claim("a", "a-elder", cpu=4)
    await here.says("a", "a-elder", "PoolExhausted")
    await here.claim("a", "c", cpu=3)
    await here.says("a", "c", "PoolExhausted")
    await here.patch("a", "a-elder", {"spec": {"claim": {CPU: 5}}})
    await here.delete("b", "first")
    await here.bound("a", "c")
    await here.grants("a", {CPU: 3})
    await here.patch("a", "a-elder", {"spec": {"claim": {CPU: 4}}})
    await here.says("a", "a-elder", "PoolExhausted", "requested: requests.cpu=4")
    await lab.settled()
    return here


async def within(seconds: float, what: Any) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await what
    assert loop.time() - began < seconds


def is_whole(claim: ResourcePoolClaim) -> bool:
    return claim.status.pool is not None and claim.status.condition is not None


@pytest.mark.parametrize("part", ["", "condition", "pool"])
async def test_a_wiped_claim_status_is_rebuilt_at_once(lab: Lab, part: str) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    for pool in ("p", None):
        name = f"c-{pool}".lower()
        await here.claim("a", name, pool=pool, cpu=1)
        before = (await here.bound("a", name)).status.pool
        await lab.settled()
        await wipe(here, ResourcePoolClaim, "a", name, part)
        await within(AT_ONCE, here.until(ResourcePoolClaim, "a", name, is_whole, seconds=5))
        assert (await here.get(ResourcePoolClaim, "a", name)).status.pool == before
        await here.bound("a", name)
    await here.spent({CPU: 2})


async def test_claim_status_edited_to_a_false_value_is_corrected_at_once(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "c", cpu=1)
    await here.bound("a", "c")
    await lab.settled()
    lie = {"status": {"condition": {"status": "False", "reason": "Lie"}}}
    await lab.client.patch(ResourcePoolClaim, "c", here.ns("a"), patch=lie, style="merge", subresource="status")
    await within(AT_ONCE, here.bound("a", "c"))


@pytest.mark.parametrize("part", ["", "claims", "allocation"])
async def test_wiped_pool_status_is_rebuilt_at_once_from_its_claims(lab: Lab, part: str) -> None:
    here = await two_claims_and_an_older_one_that_waits(lab)
    lab.always.append(HeldByTheRule(lab))
    await wipe(here, ResourcePool, "", "p", part)
    await within(AT_ONCE, here.spent({CPU: 3}))
    await lab.settled()
    await here.bound("a", "c")


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it was down"])
async def test_wiping_the_statuses_of_pool_and_claims_loses_no_allocation(lab: Lab, running: bool) -> None:
    here = await two_claims_and_an_older_one_that_waits(lab)
    lab.always.append(HeldByTheRule(lab))
    if not running:
        await lab.stop()
    await wipe(here, ResourcePool, "", "p")
    await wipe(here, ResourcePoolClaim, "a", "c")
    await wipe(here, ResourcePoolClaim, "a", "a-elder")
    if not running:
        await here.start()
    await here.bound("a", "c")
    await here.says("a", "a-elder", "PoolExhausted")
    await here.spent({CPU: 3})
    assert [entry.name for entry in (await here.get(ResourcePool, "", "p")).status.claims[here.ns("a")]] == ["c"]


async def test_an_amount_in_release_stays_held_after_its_record_is_wiped(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=4)
    await here.grants("a", {CPU: 4})
    await here.pod("a", "runs", "3")
    await here.delete("a", "c")
    await here.grants("a", {CPU: 0})
    await lab.settled()
    await wipe(here, ResourcePool, "", "p")
    await here.claim("b", "waits", cpu=2)
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=1")
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.bound("b", "waits")


async def test_a_deleted_claim_that_a_finalizer_holds_does_not_say_bound(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool()
    await here.claim("a", "c", cpu=4)
    await here.bound("a", "c")
    await here.patch("a", "c", {"metadata": {"finalizers": ["example.com/held"]}})
    await here.claim("b", "waits", cpu=4)
    await here.says("b", "waits", "PoolExhausted")
    await here.delete("a", "c")
    await here.bound("b", "waits")
    claim = await here.get(ResourcePoolClaim, "a", "c")
    assert claim.status.condition is not None
    assert (claim.status.condition.status, claim.status.condition.reason) == ("False", "Released")
    await lab.settled()
    await here.patch("a", "c", {"metadata": {"finalizers": None}})
    await here.spent({CPU: 4})


async def test_default_lowered_while_pods_use_it_does_not_count_as_claimed(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaults={CPU: 3})
    await here.claim("a", "c", cpu=1)
    await here.grants("a", {CPU: 4})
    await here.pod("a", "runs", "4")
    await lab.client.patch(ResourcePool, "p", patch={"spec": {"defaults": {CPU: 1}}}, style="merge")
    await here.grants("a", {CPU: 2})
    await lab.settled()
    await here.spent({CPU: 1})
    assert (await here.get(ResourcePool, "", "p")).status.releasing == {}
    await here.claim("b", "c", cpu=3)
    await here.bound("b", "c")
    await here.grants("b", {CPU: 4})
    await lab.client.patch(ResourcePool, "p", patch={"spec": {"defaults": None}}, style="merge")
    await here.grants("b", {CPU: 3})
    await lab.settled()
    await here.spent({CPU: 4})
