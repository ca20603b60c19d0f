"""Rows of docs/reference/capsule.md#rows about invalid and foreign edits, and about two controllers that write one status."""

import asyncio
from typing import Any

import pytest
from quota.lab import CPU, POD, RELEASE, HeldByTheRule, Quotas

from konverge.client.requests import MERGE
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import Invalid
from konverge.kinds import kind_of
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule

QUOTA = "capsule-pool-p"


def past_admission(lab: Lab, resource: str, namespace: str, name: str, change: Any) -> None:
    """Change a stored object, bypassing the API server's rules."""
    entry = lab.server.store.get(("capsule.clastix.io", resource), namespace, name)
    assert entry is not None
    data = entry.object()
    change(data)
    data["metadata"]["generation"] += 1
    lab.server.store.update(("capsule.clastix.io", resource), entry, data)


async def test_x01_a_negative_claim_is_refused_by_the_schema(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    with pytest.raises(Invalid, match="cannot be negative"):
        await here.claim("a", "c", cpu="-1")
    await here.spent({CPU: 0})


@pytest.mark.lab_on("memory")
async def test_x02_a_fractional_count_that_got_past_admission_is_marked_alone(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(hard={"pods": 7})
    await here.claim("a", "bad", {"pods": 8})
    await here.says("a", "bad", "PoolExhausted")
    past_admission(
        lab, "resourcepoolclaims", here.ns("a"), "bad", lambda data: data["spec"]["claim"].update(pods="1500m")
    )
    await here.claim("b", "good", {"pods": 3})
    await here.bound("b", "good")
    await here.says("a", "bad", "Failed", "pods: must be a whole number")
    assert (await here.get(ResourcePool, "", "p")).condition("Ready").is_true


@pytest.mark.parametrize("name", ["a.b", "c" * 100])
async def test_x03_a_claim_of_any_name_is_allocated_and_listed(lab: Lab, name: str) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", name, cpu=1)
    await here.bound("a", name)
    pool = await here.spent({CPU: 1})
    assert [entry.name for entry in pool.status.claims[here.ns("a")]] == [name]


@pytest.mark.lab_on("memory")
async def test_x04_nothing_is_released_while_namespaces_cannot_be_listed(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool()
    for where in ("a", "b"):
        await here.claim(where, "c", cpu=1)
        await here.grants(where, {CPU: 1})
    await lab.settled()
    await lab.stop()
    versions = [
        (quota.name, quota.metadata.resource_version) for quota in (await lab.client.list(RESOURCE_QUOTA)).items
    ]
    refusal = lab.server.faults.add(Rule(Match(resources=("namespaces",)), Refuse(500)))
    await lab.start(here.build, name="konverge", settings=here.settings, wait=False)
    assert not await lab.manager.ready(timeout=20)
    assert [
        (quota.name, quota.metadata.resource_version) for quota in (await lab.client.list(RESOURCE_QUOTA)).items
    ] == versions
    lab.server.faults.remove(refusal)
    await lab.manager.wait_ready(timeout=120)
    await lab.settled()
    for where in ("a", "b"):
        await here.bound(where, "c")
    assert [
        (quota.name, quota.metadata.resource_version) for quota in (await lab.client.list(RESOURCE_QUOTA)).items
    ] == versions


async def test_x19_the_release_annotation_of_a_waiting_claim_is_taken_off(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "c", cpu=4)
    await here.claim("a", "waits", cpu=2)
    await here.says("a", "waits", "PoolExhausted")
    await here.release("a", "waits")
    await here.until(ResourcePoolClaim, "a", "waits", lambda claim: RELEASE not in claim.annotations)
    await here.delete("a", "c")
    await here.bound("a", "waits")


async def test_x20_a_zero_goes_with_the_resource_that_the_pool_drops(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool(hard={CPU: 2, "pods": 7}, defaultsZero=True)
    await here.grants("a", {CPU: 0, "pods": 0})
    await lab.client.patch(ResourcePool, "p", patch={"spec": {"quota": {"hard": {CPU: None}}}}, style="merge")
    await here.grants("a", {"pods": 0})


@pytest.mark.lab_on("memory")
async def test_x22_two_controllers_write_one_status_in_turns_and_lose_nothing(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.claim("a", "c", cpu=1)
    for _ in range(3):
        await here.says("a", "c", "Failed", "not found")
        await here.pool()
        await here.bound("a", "c")
        await lab.client.delete(ResourcePool, "p")
    await here.says("a", "c", "Failed", "not found")
    stored = lab.server.store.get(("capsule.clastix.io", "resourcepoolclaims"), here.ns("a"), "c")
    assert stored is not None
    writers = [entry for entry in stored.object()["metadata"]["managedFields"] if entry.get("subresource") == "status"]
    assert [entry["manager"] for entry in writers] == ["konverge.resourcepoolclaim"]
    assert stored.object()["status"].keys() == {"condition", "observedGeneration"}


@pytest.mark.lab_on("memory")
async def test_x26_a_key_stays_in_the_quota_until_the_use_fits(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool(hard={CPU: 4, "pods": 9})
    await here.claim("a", "c", {CPU: 4, "pods": 5})
    await here.grants("a", {CPU: 4, "pods": 5})
    await here.pod("a", "runs", "2")
    past_admission(lab, "resourcepoolclaims", here.ns("a"), "c", lambda data: data["spec"]["claim"].pop(CPU))
    await here.grants("a", {CPU: 0, "pods": 5})
    await here.spent({CPU: 2, "pods": 5})
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.grants("a", {"pods": 5})
    await here.spent({CPU: 0, "pods": 5})


@pytest.mark.lab_on("memory")
async def test_x27_crash_between_release_and_credit_is_finished_by_the_next_process(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=4)
    await here.grants("a", {CPU: 4})
    await here.pod("a", "runs", "4")
    await here.delete("a", "c")
    await here.grants("a", {CPU: 0})
    lab.crash()
    await here.claim("b", "waits", cpu=1)
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=0")
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.bound("b", "waits")


async def test_claims_of_many_namespaces_at_once_never_exceed_the_pool(lab: Lab) -> None:
    names = [f"n{number}" for number in range(8)]
    here = await Quotas(lab).start(*names)
    await here.pool(hard={CPU: 5}, defaultsZero=True)
    for name in names:
        await here.claim(name, "c", cpu=1)
    bound = 0
    for name in names:
        claim = await here.until(ResourcePoolClaim, name, "c", lambda claim: claim.status.condition is not None)
        bound += claim.status.condition.status == "True"
    assert bound == 5


async def test_an_allocated_claim_cannot_be_edited_and_may_be_released(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "c", cpu=1)
    await here.bound("a", "c")
    with pytest.raises(Invalid, match="release it first"):
        await here.patch("a", "c", {"spec": {"claim": {CPU: 2}}})
    await here.patch("a", "c", {"spec": {"claim": {CPU: "1000m"}}})
    await here.release("a", "c")
    await here.says("a", "c", "Released")
    await lab.settled()
    assert RELEASE in (await here.says("a", "c", "Released")).annotations
    await here.patch("a", "c", {"spec": {"claim": {CPU: 2}}})
    claim = await here.bound("a", "c")
    await here.until(ResourcePoolClaim, "a", "c", lambda claim: RELEASE not in claim.annotations)
    assert claim.spec.claim == {CPU: 2}
    await here.release("a", "c")
    await here.says("a", "c", "Released")
    await here.patch("a", "c", {"metadata": {"annotations": {RELEASE: None}}})
    await here.bound("a", "c")
    await here.spent({CPU: 2})


async def test_a_selector_in_which_nothing_is_written_selects_nothing(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await lab.enter(here.cleared("p"))
    spec = {"quota": {"hard": {CPU: 1}}, "selectors": [{}]}
    await lab.client.create(ResourcePool.decode({"metadata": {"name": "p"}, "spec": spec}))
    await here.claim("a", "c", cpu=1)
    await here.says("a", "c", "Failed", "resourcepool not available")
    await lab.settled()
    assert (await lab.client.list(RESOURCE_QUOTA, here.ns("a"))).items == []
    assert (await here.get(ResourcePool, "", "p")).status.namespace_count == 0


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize("refusals", [0, 2], ids=["at once", "after the claim controller had its turn"])
async def test_bound_claim_with_a_lost_record_is_deleted_with_its_pool(lab: Lab, refusals: int) -> None:
    here = await Quotas(lab).start("a")
    await here.pool(deleteBoundResources=True)
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await lab.settled()
    match = Match(verbs=("apply",), resources=("resourcepools.capsule.clastix.io",), subresource="status")
    lost = lab.server.faults.add(Rule(match, Refuse(503)))
    await lab.client.patch(ResourcePool, "p", patch={"status": {"claims": None}}, style="merge", subresource="status")
    assert (await here.get(ResourcePool, "", "p")).status.claims == {}
    refused = Match(verbs=("delete",), resources=("resourcepoolclaims.capsule.clastix.io",))
    lab.server.faults.add(Rule(refused, Refuse(403), count=refusals))
    await lab.client.delete(ResourcePool, "p")
    lab.server.faults.remove(lost)
    async with asyncio.timeout(900):  # of virtual time
        while (await lab.client.list(ResourcePool)).items:
            await asyncio.sleep(1)
    assert (await lab.client.list(ResourcePoolClaim, here.ns("a"))).items == []


@pytest.mark.lab_on("memory")
async def test_the_safety_predicate_of_the_lab_detects_a_double_allocation(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=3)
    await here.grants("a", {CPU: 3})
    await lab.settled()
    await lab.stop()
    rule = HeldByTheRule(lab)
    rule()
    await lab.client.patch(RESOURCE_QUOTA, QUOTA, here.ns("b"), patch={"spec": {"hard": {CPU: 2}}}, style="merge")
    with pytest.raises(AssertionError, match=r"requests.cpu: 5 is held of 4"):
        rule()


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize("amount", ["1e100", "9" * 64, "1e400"])
async def test_amount_that_bypassed_admission_and_fits_no_status_blocks_no_pool(lab: Lab, amount: str) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool()
    await here.claim("a", "huge", cpu=9)
    await here.says("a", "huge", "PoolExhausted")
    past_admission(
        lab, "resourcepoolclaims", here.ns("a"), "huge", lambda data: data["spec"]["claim"].update({CPU: amount})
    )
    await here.claim("b", "c", cpu=3)
    await here.bound("b", "c")
    await here.says("a", "huge", "Failed", "requests.cpu: must be at most 1e24")
    await here.spent({CPU: 3})
    with pytest.raises(Invalid, match="cannot be lowered below what is claimed"):
        await lab.client.patch(ResourcePool, "p", patch={"spec": {"quota": {"hard": {CPU: 2}}}}, style="merge")
    await here.release("b", "c")
    await here.claim("b", "d", cpu=4)
    await here.bound("b", "d")
    await here.spent({CPU: 4})


async def test_two_hundred_unknown_resources_of_250_characters_leave_no_claim_blank(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    unknown = {f"{number:03}{'k' * 247}": 1 for number in range(200)}
    await here.claim("a", "c", unknown)
    await here.claim("a", "none", unknown, pool=None)
    for name, reason in (("c", "Failed"), ("none", "Unassigned")):
        claim = await here.says("a", name, reason, "resource 000kkk")
        assert claim.status.condition is not None
        assert len(claim.status.condition.message) == 32768
    await lab.settled()


@pytest.mark.lab_on("memory")
async def test_empty_claims_of_one_tenant_leave_room_in_the_pools_list(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b", settings=QuotaSettings(max_claims=6, namespace_share=0.5))
    await here.pool()
    for number in range(6):
        await here.claim("a", f"c{number}", cpu=0)
    for number in range(3):
        await here.bound("a", f"c{number}")
    await here.says("a", "c5", "TooManyClaims", "the pool lists 3 claims of namespace")
    await here.claim("b", "c", cpu=4)
    await here.bound("b", "c")
    pool = await here.spent({CPU: 4})
    assert pool.condition("Ready").is_true
    await here.delete("a", "c0")
    await here.bound("a", "c3")


async def test_foreign_claims_without_a_namespace_are_removed_from_a_pools_status(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.spent({CPU: 0})
    written = {"gone": [{"name": "n", "uid": "u", "claims": {CPU: "1"}}]}
    path = f"/apis/{kind_of(ResourcePool).api_version}/resourcepools/p/status"
    await lab.client.raw("PATCH", path, body={"status": {"claims": written}}, content_type=MERGE)
    lab.manager.runner("resourcepool").resync_now()  # a pool's own status does not wake it earlier
    await asyncio.sleep(5)
    assert not (await lab.client.get(ResourcePool, "p")).status.claims
    assert len(lab.manager.runner("resourcepool").history.recent()) < 20
