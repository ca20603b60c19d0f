"""Manual edits, garbage collection and rejections of the API server, on a real control plane: rows X12, X21, X24 and X28."""

import pytest
from quota.lab import CPU
from quota.plane import History, Plane

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import Invalid
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge.reconcilers.quota.words import QuotaLabel

pytestmark = pytest.mark.control_plane

QUOTA = "capsule-pool-p"


async def test_x12_a_quota_that_was_changed_or_deleted_by_hand_is_restored(here: Plane) -> None:
    async with History(here.lab.client) as history:
        await here.start("a")
        await here.pool()
        await here.claim("a", "c", cpu=1)
        first = await here.grants("a", {CPU: 1})
        assert await history.check() > 3
        edit = '{"spec": {"hard": {"requests.cpu": "100", "pods": "1"}}}'
        await here.kubectl("patch", "resourcequota", QUOTA, "-n", here.ns("a"), "--type=merge", "-p", edit)
        await here.grants("a", {CPU: 1})
        with pytest.raises(AssertionError, match=r"100 of requests\.cpu are held, of 4"):
            await history.check()  # a history records manual edits like the family's own writes
    await here.kubectl("delete", "resourcequota", QUOTA, "-n", here.ns("a"))
    again = await here.grants("a", {CPU: 1})
    assert again.metadata.uid != first.metadata.uid
    assert await here.start_pod("a", "large", {"cpu": "2"}) is False
    await here.kubectl("label", "resourcequota", QUOTA, "-n", here.ns("a"), f"{QuotaLabel.POOL}-")
    await here.until(RESOURCE_QUOTA, "a", QUOTA, lambda quota: quota.metadata.label(QuotaLabel.POOL) == "p")
    stripped = '{"metadata": {"ownerReferences": null}}'
    for _ in range(2):
        await here.kubectl("patch", "resourcequota", QUOTA, "-n", here.ns("a"), "--type=merge", "-p", stripped)
        adopted = await here.until(RESOURCE_QUOTA, "a", QUOTA, lambda quota: quota.metadata.controller is not None)
        assert adopted.metadata.uid == again.metadata.uid
    await here.kubectl("delete", "resourcequota", QUOTA, "-n", here.ns("a"))
    await here.until(RESOURCE_QUOTA, "a", QUOTA, lambda quota: quota.metadata.uid != again.metadata.uid)


async def test_statuses_wiped_by_kubectl_are_rebuilt_without_losing_a_place(here: Plane) -> None:
    await here.start("a", "b")
    await here.pool()
    await here.claim("b", "first", cpu=4)
    await here.bound("b", "first")
    await here.claim("a", "elder", cpu=5)
    await here.says("a", "elder", "PoolExhausted")
    await here.claim("a", "c", cpu=3)
    await here.delete("b", "first")
    await here.bound("a", "c")
    await here.patch("a", "elder", {"spec": {"claim": {CPU: 4}}})
    await here.says("a", "elder", "PoolExhausted", "requested: requests.cpu=4")
    await here.spent({CPU: 3})
    wiped = ("--subresource=status", "--type=merge", "-p", '{"status": null}')
    await here.kubectl("patch", "resourcepoolclaim", "c", "-n", here.ns("a"), *wiped)
    await here.until(ResourcePoolClaim, "a", "c", lambda claim: claim.status.condition is not None)
    await here.bound("a", "c")
    await here.lab.stop()
    await here.kubectl("patch", "resourcepool", "p", *wiped)
    for name in ("c", "elder"):
        await here.kubectl("patch", "resourcepoolclaim", name, "-n", here.ns("a"), *wiped)
    await here.start()
    await here.bound("a", "c")
    await here.says("a", "elder", "PoolExhausted")
    await here.spent({CPU: 3})


@pytest.mark.parametrize(
    ("quota", "words"),
    [
        ({"scopes": ["BestEffort"]}, "scopes"),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "Terminating", "operator": "Exists"}]}},
            "scopeSelector",
        ),
    ],
    ids=["scopes", "scopeSelector"],
)
async def test_x21_the_scopes_of_a_live_pool_cannot_be_changed(
    here: Plane, quota: dict[str, object], words: str
) -> None:
    await here.start("a")
    await here.pool()
    await here.claim("a", "c", cpu=1)
    await here.grants("a", {CPU: 1})
    with pytest.raises(Invalid, match=words):
        await here.lab.client.patch(ResourcePool, "p", patch={"spec": {"quota": quota}}, style="merge")
    await here.claim("a", "another", cpu=1)
    await here.grants("a", {CPU: 2})


async def test_pool_cannot_shrink_below_claims_but_may_drop_unused_resources(here: Plane) -> None:
    await here.start("a")
    await here.pool(hard={CPU: 4, "pods": 3}, defaultsZero=True)
    await here.claim("a", "c", cpu=2)
    await here.grants("a", {CPU: 2, "pods": 0})
    await here.spent({CPU: 2, "pods": 0})  # the rule reads the pool's own status, which is written last
    for hard in ({CPU: "1999m", "pods": 3}, {"pods": 3}):
        body = {"spec": {"quota": {"hard": {CPU: None, **hard}}}}
        with pytest.raises(Invalid, match=r"spec\.quota\.hard"):
            await here.lab.client.patch(ResourcePool, "p", patch=body, style="merge")
    lowered = {"spec": {"quota": {"hard": {CPU: "2", "pods": None}}}}
    await here.lab.client.patch(ResourcePool, "p", patch=lowered, style="merge")
    await here.grants("a", {CPU: 2})  # X20: the zero is removed with the resource


async def _waiting_and_bound(here: Plane, *, delete_bound: bool = False) -> None:
    await here.start("a", "b")
    await here.pool(defaultsZero=True, deleteBoundResources=delete_bound)
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.claim("b", "queued", cpu=3)
    await here.says("b", "queued", "PoolExhausted")
    await here.grants("a", {CPU: 3})


async def _gone(here: Plane) -> None:
    await here.kubectl("wait", "--for=delete", "resourcepool/p", "--timeout=30s")
    for where in ("a", "b"):
        await here.kubectl("wait", "--for=delete", f"resourcequota/{QUOTA}", "-n", here.ns(where), "--timeout=30s")


@pytest.mark.parametrize("cascade", ["foreground", "background", "orphan"])
async def test_x24_claims_survive_their_pool_however_it_is_deleted(here: Plane, cascade: str) -> None:
    await _waiting_and_bound(here)
    await here.kubectl("delete", "resourcepool", "p", f"--cascade={cascade}", "--wait=false")
    await _gone(here)
    for where, name in (("a", "c"), ("b", "queued")):
        claim = await here.says(where, name, "Failed", 'ResourcePool.capsule.clastix.io "p" not found')
        assert not claim.metadata.deleting
        assert claim.metadata.owner_references == ()
        assert claim.status.pool is None
    await here.pool(defaultsZero=True)
    await here.bound("a", "c")
    await here.says("b", "queued", "PoolExhausted")


@pytest.mark.parametrize("cascade", ["foreground", "background", "orphan"])
async def test_deletion_policy_of_a_pool_removes_bound_claims_and_keeps_queued_claims(
    here: Plane, cascade: str
) -> None:
    await _waiting_and_bound(here, delete_bound=True)
    await here.kubectl("delete", "resourcepool", "p", f"--cascade={cascade}", "--wait=false")
    await _gone(here)
    await here.says("b", "queued", "Failed", "not found")
    await here.lab.settled()
    left = [claim for where in "ab" for claim in await here.lab.client.list(ResourcePoolClaim, here.ns(where))]
    assert [claim.name for claim in left] == ["queued"]


async def test_x28_resource_that_the_server_refuses_in_a_quota_costs_one_claim(here: Plane) -> None:
    await here.start("a", "b")
    await here.pool(hard={CPU: 4, "florins": 9})
    await here.claim("b", "good", cpu=1)
    await here.claim("a", "good", cpu=1)
    await here.claim("a", "poison", {"florins": 1})
    claim = await here.says("a", "poison", "Failed", "must be a standard resource for quota")
    assert claim.status.condition is not None
    assert (claim.status.condition.type, claim.status.condition.status) == ("Bound", "False")
    for where in ("a", "b"):
        await here.bound(where, "good")
        await here.grants(where, {CPU: 1})

    def says(pool: ResourcePool) -> bool:
        ready = pool.find_condition("Ready")
        return ready is not None and (ready.status, ready.reason) == ("False", "Failed")

    pool = await here.until(ResourcePool, "", "p", says)
    assert pool.condition("Ready").message.startswith(f"{here.ns('a')}: ")
    assert "must be a standard resource for quota" in pool.condition("Ready").message
    assert {namespace: [one.name for one in found] for namespace, found in pool.status.claims.items()} == {
        here.ns("a"): ["good"],
        here.ns("b"): ["good"],
    }
    await here.claim("b", "more", cpu=1)
    await here.grants("b", {CPU: 2})
    await here.delete("a", "poison")
    await here.until(ResourcePool, "", "p", lambda pool: pool.condition("Ready").status == "True")
