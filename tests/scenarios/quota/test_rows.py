"""Rows of docs/reference/capsule.md#rows on the API server in memory, with its quota admission and its resourcequota controller."""

from typing import Any

import pytest
from quota.lab import CPU, POD, RELEASE, Quotas, spends
from quota.oracle import check_ledgers

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import Forbidden
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge.reconcilers.quota.pools.reconciler import ResourcePoolReconciler
from konverge_testing import Lab

QUOTA = "capsule-pool-p"


async def test_a_claim_is_bound_and_pods_are_let_in_up_to_it(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.grants("a", {CPU: 3})
    await here.grants("b", {CPU: 0})
    await here.pod("a", "one", "2")
    with pytest.raises(Forbidden, match="exceeded quota: capsule-pool-p"):
        await here.pod("a", "two", "2")
    with pytest.raises(Forbidden, match="exceeded quota"):
        await here.pod("b", "one", "1m")
    pool = await here.spent({CPU: 3})
    assert pool.status.namespaces == (here.ns("a"), here.ns("b"))
    assert (pool.status.claim_count, pool.status.namespace_count) == (1, 2)
    [entry] = pool.status.claims[here.ns("a")]
    assert (entry.name, entry.namespace, entry.claims) == ("c", here.ns("a"), {CPU: "3"})
    assert pool.condition("Ready").message == "reconciled"
    assert pool.condition("Exhausted").reason == "NoExhaustions"


async def test_oracle_finds_a_view_that_changed_in_place(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    for name in ("c", "later"):  # the reconcile for the later claim reads the status of the earlier claim
        await here.claim("a", name, cpu=1)
        await here.bound("a", name)
    assert check_ledgers(lab.manager) == 1
    [reconciler] = [
        spec.reconciler for spec in lab.manager.controllers if isinstance(spec.reconciler, ResourcePoolReconciler)
    ]
    view = reconciler._observer._claims.views[here.ns("a"), "c"]
    amounts: Any = view.amounts
    amounts[CPU] += 1
    with pytest.raises(AssertionError, match="changed in place"):
        check_ledgers(lab.manager)


async def test_x13_amount_in_use_is_reallocated_only_after_the_pods_end(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=4)
    await here.bound("a", "c")
    await here.grants("a", {CPU: 4})
    await here.pod("a", "runs", "3")
    await here.claim("b", "waits", cpu=4)
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=0")
    await here.delete("a", "c")
    await here.grants("a", {CPU: 0})
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=1")
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.bound("b", "waits")
    await here.grants("b", {CPU: 4})
    await here.spent({CPU: 4})
    assert (await here.get(ResourcePool, "", "p")).status.releasing == {}


async def test_x12_a_quota_that_was_changed_or_deleted_by_hand_is_restored(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "c", cpu=1)
    await here.grants("a", {CPU: 1})
    edit = {"spec": {"hard": {CPU: "100", "pods": "1"}}}
    await lab.client.patch(RESOURCE_QUOTA, QUOTA, here.ns("a"), patch=edit, style="merge")
    await here.grants("a", {CPU: 1})
    await lab.client.delete(RESOURCE_QUOTA, QUOTA, here.ns("a"))
    await here.grants("a", {CPU: 1})


async def test_x23_claim_released_by_annotation_is_queued_again_after_an_edit(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool()
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.claim("b", "waits", cpu=2)
    await here.says("b", "waits", "PoolExhausted")
    await here.release("a", "c")
    await here.bound("b", "waits")
    claim = await here.says("a", "c", "Released", "Released from pool p")
    assert RELEASE in claim.annotations
    await here.patch("a", "c", {"metadata": {"annotations": {RELEASE: None}}})
    await here.says("a", "c", "PoolExhausted", "available: requests.cpu=2")
    await here.patch("a", "c", {"spec": {"claim": {CPU: 2}}})
    claim = await here.bound("a", "c")
    assert RELEASE not in claim.annotations
    await here.spent({CPU: 4})


async def test_x07_a_resource_that_the_pool_gains_is_claimed_without_an_edit(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "c", pods=1)
    await here.says("a", "c", "Failed", "resource pods is not available in pool p")
    await lab.client.patch(ResourcePool, "p", patch={"spec": {"quota": {"hard": {"pods": "3"}}}}, style="merge")
    await here.bound("a", "c")


async def test_x18_changed_claim_takes_one_write_of_each_kind_and_one_event(lab: Lab) -> None:
    names = [f"n{number}" for number in range(20)]
    here = await Quotas(lab).start(*names)
    await here.pool(hard={CPU: 100})
    for name in names:
        await here.claim(name, "c", cpu=1)
    for name in names:
        await here.grants(name, {CPU: 1})
    await lab.settled()
    before = here.passes()
    await here.claim("n7", "another", cpu=2)
    await here.grants("n7", {CPU: 3})
    await lab.settled()
    made = [write for number, writes in here.passes().items() if number not in before for write in writes]
    where = here.ns("n7")
    assert sorted(made) == [
        f"apply ResourceQuota {where}/{QUOTA}",
        "status",
        f"status of ResourcePoolClaim {where}/another",
    ]
    assert await here.events("n7", "another") == [("Normal", "Succeeded", "Claimed resources")]


async def test_the_migration_order_of_the_seed_works_claims_first(lab: Lab) -> None:
    here = await Quotas(lab).start("dev")
    await here.claim("dev", "pods", pool="migration-size", pods=3)
    failed = await here.says("dev", "pods", "Failed", 'ResourcePool.capsule.clastix.io "migration-size" not found')
    assert failed.status.condition is not None
    assert (failed.status.condition.type, failed.status.pool) == ("Assigned", None)
    await here.pool("migration-size", {"pods": "7"}, defaultsZero=True)
    bound = await here.bound("dev", "pods")
    assert bound.status.pool is not None
    assert bound.status.pool.name == "migration-size"
    assert spends(await here.grants("dev", {"pods": 3}, pool="migration-size")) == {"pods": "3"}


async def test_x06_claims_survive_their_pool_without_a_reference_to_it(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "c", cpu=3)
    await here.claim("a", "queued", cpu=3)
    await here.bound("a", "c")
    await here.says("a", "queued", "PoolExhausted")
    await lab.client.delete(ResourcePool, "p")
    for name in ("c", "queued"):
        claim = await here.says("a", name, "Failed", 'ResourcePool.capsule.clastix.io "p" not found')
        assert claim.status.pool is None
        assert claim.metadata.owner_references == ()
    await lab.settled()
    assert (await lab.client.list(RESOURCE_QUOTA, here.ns("a"))).items == []


async def test_deletion_policy_of_a_pool_removes_bound_claims_and_keeps_queued_claims(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool(deleteBoundResources=True)
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.claim("a", "queued", cpu=3)
    await here.says("a", "queued", "PoolExhausted")
    await lab.client.delete(ResourcePool, "p")
    await here.says("a", "queued", "Failed", "not found")
    await lab.settled()
    assert [claim.name for claim in (await lab.client.list(ResourcePoolClaim, here.ns("a"))).items] == ["queued"]


async def test_x16_claim_without_a_pool_gets_first_pool_by_name_with_room(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool("zebra", {CPU: 8})
    await here.pool("ant", {CPU: 2})
    await here.claim("a", "small", pool=None, cpu=1)
    small = await here.bound("a", "small")
    await here.claim("a", "large", pool=None, cpu=5)
    large = await here.bound("a", "large")
    assert small.status.pool is not None
    assert large.status.pool is not None
    assert (small.status.pool.name, large.status.pool.name) == ("ant", "zebra")
    assert large.spec.pool is None
    await here.claim("a", "huge", pool=None, cpu=9)
    huge = await here.says("a", "huge", "Unassigned")
    assert huge.status.condition is not None
    assert huge.status.condition.message == (
        "ant: requested: requests.cpu=9, available: requests.cpu=1; zebra: requested: requests.cpu=9, available: requests.cpu=3"
    )
    await lab.client.patch(ResourcePool, "zebra", patch={"spec": {"quota": {"hard": {CPU: 20}}}}, style="merge")
    await here.bound("a", "huge")


async def test_namespace_that_leaves_loses_its_quota_and_gets_it_back_on_return(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool()
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.move("a", "wind")
    await here.says("a", "c", "Failed", "resourcepool not available")
    await here.spent({CPU: 0})
    await lab.settled()
    assert (await lab.client.list(RESOURCE_QUOTA, here.ns("a"))).items == []
    await here.move("a", "solar")
    await here.bound("a", "c")
    await here.grants("a", {CPU: 3})
