"""ResourceQuotas that lost the owner reference to their pool: found by label and name, adopted again, restored at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from quota.lab import CPU, EVENT, Quotas

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import NotFound
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge.testing import Lab

QUOTA = "capsule-pool-p"
AT_ONCE = 1.0


async def with_a_bound_claim(lab: Lab) -> Quotas:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=1)
    await here.bound("a", "c")
    await here.grants("a", {CPU: 1})
    await lab.settled()
    return here


async def edit(here: Quotas, change: dict[str, Any]) -> None:
    await here.lab.client.patch(RESOURCE_QUOTA, QUOTA, here.ns("a"), patch=change, style="merge")


def owned(quota: Any) -> bool:
    return quota.metadata.controller is not None and quota.metadata.label("projectcapsule.dev/pool") == "p"


async def restored(here: Quotas, uid: str = "") -> float:
    """Wait until the pool controls its ResourceQuota of a, another than that of this uid; returns how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await here.until(RESOURCE_QUOTA, "a", QUOTA, lambda quota: owned(quota) and quota.metadata.uid != uid, seconds=5)
    return loop.time() - began


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it was down"])
async def test_a_quota_whose_owner_reference_was_removed_is_adopted_again_at_once(lab: Lab, running: bool) -> None:
    here = await with_a_bound_claim(lab)
    if not running:
        await lab.stop()
    await edit(here, {"metadata": {"ownerReferences": None}, "spec": {"hard": {CPU: 100}}})
    if not running:
        await here.start()
    assert await restored(here) < AT_ONCE * (1 if running else 5)
    await here.grants("a", {CPU: 1})
    await here.bound("a", "c")
    await lab.settled()
    assert (await here.get(ResourcePool, "", "p")).condition("Ready").is_true


@pytest.mark.lab_on("memory")
async def test_a_quota_without_owner_that_is_deleted_is_restored_within_a_second(lab: Lab) -> None:
    here = await with_a_bound_claim(lab)
    await lab.stop()
    await edit(here, {"metadata": {"ownerReferences": None}})
    await here.start()
    stored = await here.get(RESOURCE_QUOTA, "a", QUOTA)
    await lab.client.delete(RESOURCE_QUOTA, QUOTA, here.ns("a"))
    assert await restored(here, stored.metadata.uid) < AT_ONCE


async def test_a_foreign_quota_of_that_name_is_not_touched_and_its_deletion_is_noticed_at_once(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    stranger = RESOURCE_QUOTA.new(QUOTA, here.ns("a"), spec={"hard": {"pods": "1"}})
    await lab.client.create(stranger)
    await here.pool()
    await here.claim("a", "c", cpu=1)
    claim = await here.says("a", "c", "Failed", "Delete or rename it, or hand it over")
    await here.claim("b", "c", cpu=1)
    await here.bound("b", "c")
    pool = await here.until(ResourcePool, "", "p", lambda pool: bool(pool.conditions))
    assert not pool.condition("Ready").is_true
    said = [str(claim.status.condition), *(condition.message for condition in pool.conditions)]
    said += [str(event.get("note")) for event in (await lab.client.list(EVENT, here.ns("a"))).items]
    assert not [text for text in said if "adopt" in text]
    await lab.settled()
    assert (await here.get(RESOURCE_QUOTA, "a", QUOTA)).get("spec", "hard") == {"pods": "1"}
    await lab.client.delete(RESOURCE_QUOTA, QUOTA, here.ns("a"))
    assert await restored(here) < AT_ONCE
    await here.bound("a", "c")


async def test_a_foreign_quota_with_the_label_of_the_pool_is_taken_over(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await lab.client.create(RESOURCE_QUOTA.new(QUOTA, here.ns("a"), spec={"hard": {"pods": "1"}}))
    await here.pool()
    await here.claim("a", "c", cpu=1)
    await here.says("a", "c", "Failed")
    await edit(here, {"metadata": {"labels": {"projectcapsule.dev/pool": "p"}}})
    assert await restored(here) < AT_ONCE
    await here.grants("a", {CPU: 1})
    await here.bound("a", "c")


async def test_a_quota_without_owner_goes_with_the_namespace_that_leaves_and_with_the_pool(lab: Lab) -> None:
    here = await with_a_bound_claim(lab)
    await lab.stop()
    await edit(here, {"metadata": {"ownerReferences": None}})
    await here.move("a", "wind")
    await here.start()
    await here.says("a", "c", "Failed", "resourcepool not available")
    await here.spent({CPU: 0})
    with pytest.raises(NotFound):
        await here.get(RESOURCE_QUOTA, "a", QUOTA)
    assert (await here.get(ResourcePoolClaim, "a", "c")).status.pool is None
