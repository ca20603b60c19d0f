"""ResourceQuotas that lost the owner reference to their pool: found by label and name, adopted again, restored at once."""

import asyncio
from typing import Any

import pytest
from quota.lab import CPU, EVENT, Quotas

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import NotFound
from konverge.kinds import kind
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge_testing import Lab

CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
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
    """Wait until the pool controls its ResourceQuota in namespace a, with another uid than this; returns the duration."""
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


async def test_foreign_quota_of_the_name_is_untouched_and_its_deletion_noticed(lab: Lab) -> None:
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


async def test_quota_without_owner_is_deleted_with_the_pool_or_departed_namespace(lab: Lab) -> None:
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


FOREIGN: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "name": "foreign"}
OTHER_POOL: dict[str, Any] = {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "ResourcePool", "name": "q"}


async def owner_of_another(here: Quotas, owner: dict[str, Any]) -> dict[str, Any]:
    """Create the object that an owner reference names; returns the reference."""
    if owner is FOREIGN:
        stored: Any = await here.lab.client.create(CONFIG_MAP.new(owner["name"], here.ns("a")))
    else:
        stored = await here.pool(owner["name"], tenants=("wind",))
    return {**owner, "uid": stored.metadata.uid}


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize("owner", [FOREIGN, OTHER_POOL], ids=lambda owner: owner["kind"])
@pytest.mark.parametrize("controls", [True, False], ids=["controller", "plain owner"])
@pytest.mark.parametrize("labels", [{}, {"labels": None}], ids=["with its label", "without its label"])
async def test_a_deleted_quota_is_restored_within_a_second_whatever_its_owner(
    lab: Lab, owner: dict[str, Any], controls: bool, labels: dict[str, Any]
) -> None:
    here = await with_a_bound_claim(lab)
    reference = {**await owner_of_another(here, owner), "controller": controls}
    await lab.stop()  # otherwise a quota that no other controller took is restored before its deletion
    await edit(here, {"metadata": {"ownerReferences": [reference], **labels}})
    taken = await here.get(RESOURCE_QUOTA, "a", QUOTA)
    await here.start()
    await asyncio.sleep(30)
    await lab.client.delete(RESOURCE_QUOTA, QUOTA, here.ns("a"))
    assert await restored(here, taken.metadata.uid) < AT_ONCE
    await here.grants("a", {CPU: 1})
    await here.bound("a", "c")
    await lab.settled()
    assert (await here.get(ResourcePool, "", "p")).condition("Ready").is_true


@pytest.mark.lab_on("memory")
async def test_a_quota_that_a_foreign_controller_gives_back_is_restored_at_once(lab: Lab) -> None:
    here = await with_a_bound_claim(lab)
    reference = {**await owner_of_another(here, FOREIGN), "controller": True}
    await edit(here, {"metadata": {"ownerReferences": [reference]}, "spec": {"hard": {CPU: 100}}})
    await asyncio.sleep(30)
    await edit(here, {"metadata": {"ownerReferences": None}})
    assert await restored(here) < AT_ONCE
    await here.grants("a", {CPU: 1})


@pytest.mark.lab_on("memory")
async def test_a_foreign_quota_is_not_restored_in_a_namespace_that_left(lab: Lab) -> None:
    here = await with_a_bound_claim(lab)
    reference = {**await owner_of_another(here, FOREIGN), "controller": True}
    await edit(here, {"metadata": {"ownerReferences": [reference]}})
    await here.move("a", "wind")
    await here.says("a", "c", "Failed", "resourcepool not available")
    await lab.client.delete(RESOURCE_QUOTA, QUOTA, here.ns("a"))
    await lab.settled()
    with pytest.raises(NotFound):
        await here.get(RESOURCE_QUOTA, "a", QUOTA)
    await here.move("a", "solar")
    assert await restored(here) < AT_ONCE
    await here.bound("a", "c")


@pytest.mark.lab_on("memory")
async def test_copy_of_a_quota_under_another_name_is_ignored(lab: Lab) -> None:
    here = await with_a_bound_claim(lab)
    stored = await here.get(RESOURCE_QUOTA, "a", QUOTA)
    [owner] = stored.to_dict()["metadata"]["ownerReferences"]
    copy = RESOURCE_QUOTA.new(
        "z-copy", here.ns("a"), labels=dict(stored.metadata.labels or {}), spec={"hard": {CPU: 4}}
    )
    copy.data["metadata"]["ownerReferences"] = [owner]
    await lab.client.create(copy)
    await here.claim("b", "d", cpu=3)
    await here.bound("b", "d")
    await lab.settled()
    await here.spent({CPU: 4})
    await here.grants("a", {CPU: 1})
