"""The semantics of v0.14 on the API server in memory: claims that say whether pods use them, and are resized while none does.

After every write nothing is held twice, as in the other semantics; `pytest --lab=quick` plays the first two under every fault.
"""

import pytest
from quota.lab import CPU, POD, HeldByTheRule, Quotas, without_uids

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import Forbidden, Invalid
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge.reconcilers.quota.kinds import NAMESPACE
from konverge_testing import Lab

NEWER = QuotaSettings(semantics="v0.14")
FEW = 16
"""Plans of each scenario in quick mode. `make lab` runs all plans."""


async def started(lab: Lab, *namespaces: str) -> Quotas:
    lab.may_differ(None, without_uids, why="uids that a status repeats differ from run to run")
    lab.always.append(HeldByTheRule(lab))
    return await Quotas(lab).start(*namespaces, settings=NEWER)


@pytest.mark.scenario(quick=FEW)
async def test_a_claim_is_unused_then_used_and_unused_again(lab: Lab) -> None:
    here = await started(lab, "a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=3)
    await here.tells("a", "c", "Bound", "Unused", "claim is unused")
    await here.grants("a", {CPU: 3})
    await here.claim("b", "waits", cpu=2)
    await here.tells("b", "waits", "Exhausted", "PoolExhausted", "available: requests.cpu=1")
    await here.pod("a", "runs", "2")
    claim = await here.tells("a", "c", "Bound", "InUse", "claim is used")
    assert claim.status.condition is None
    assert claim.status.pool is not None
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.tells("a", "c", "Bound", "Unused")
    await here.delete("a", "c")
    await here.tells("b", "waits", "Bound", "Unused")
    await here.spent({CPU: 2})


@pytest.mark.scenario(quick=FEW)
async def test_an_unused_claim_is_made_smaller_for_one_that_waits(lab: Lab) -> None:
    here = await started(lab, "a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=4)
    await here.tells("a", "c", "Bound", "Unused")
    await here.claim("b", "waits", cpu=3)
    await here.patch("a", "c", {"spec": {"claim": {CPU: 1}}})
    await here.tells("b", "waits", "Bound", "Unused")
    await here.tells("a", "c", "Bound", "Unused")
    await here.grants("a", {CPU: 1})
    await here.grants("b", {CPU: 3})
    await here.spent({CPU: 4})


async def test_claim_that_pods_use_is_immutable_even_without_a_webhook(lab: Lab) -> None:
    here = await started(lab, "a")
    await here.pool()
    await here.claim("a", "c", cpu=2)
    await here.grants("a", {CPU: 2})
    await here.pod("a", "runs", "2")
    await here.tells("a", "c", "Bound", "InUse")
    with pytest.raises(Invalid, match="release it first"):
        await here.patch("a", "c", {"spec": {"claim": {CPU: 1}}})
    await here.delete("a", "c")
    pool = await here.until(ResourcePool, "", "p", lambda pool: pool.status.releasing != {})
    assert pool.status.allocation.used == {CPU: "2"}, "what pods use is still held"


async def test_x11_an_unused_claim_moves_to_another_pool(lab: Lab) -> None:
    here = await started(lab, "a")
    await here.pool()
    await here.pool("q", {CPU: 4})
    await here.claim("a", "c", cpu=3)
    await here.tells("a", "c", "Bound", "Unused")
    await here.patch("a", "c", {"spec": {"pool": "q"}})
    await here.spent({CPU: 3}, pool="q")
    await here.spent({CPU: 0})
    claim = await here.tells("a", "c", "Bound", "Unused")
    assert claim.status.pool is not None
    assert claim.status.pool.name == "q"


async def test_unserved_claim_is_not_ready_and_claim_without_a_pool_waits(lab: Lab) -> None:
    here = await started(lab, "a")
    await here.claim("a", "lost", pool="nowhere", cpu=1)
    await here.tells("a", "lost", "Ready", "Failed", 'ResourcePool.capsule.clastix.io "nowhere" not found')
    await here.pool()
    await here.claim("a", "waits", pool=None, cpu=9)
    claim = await here.tells("a", "waits", "Exhausted", "PoolExhausted")
    assert claim.status.queue is not None
    assert claim.status.queue.name == "p"
    assert [(one.type, one.status) for one in claim.conditions] == [
        ("Ready", "True"),
        ("Exhausted", "True"),
        ("Bound", "False"),
    ]


def conditions_of(claim: ResourcePoolClaim) -> list[tuple[str, str, str]]:
    return [(condition.type, condition.status, condition.reason) for condition in claim.conditions]


@pytest.mark.parametrize("pool", ["p", None], ids=["names a pool", "names none"])
async def test_a_claim_whose_pool_cannot_serve_it_any_more_has_ready_only(lab: Lab, pool: str | None) -> None:
    here = await started(lab, "a")
    await here.pool()
    await here.claim("a", "c", pool=pool, cpu=3)
    await here.tells("a", "c", "Bound", "Unused")
    await here.claim("a", "waits", pool=pool, cpu=3)
    claim = await here.tells("a", "waits", "Bound", "Failed", "claim causes exhaustions")
    assert conditions_of(claim) == [
        ("Ready", "True", "Succeeded"),
        ("Exhausted", "True", "PoolExhausted"),
        ("Bound", "False", "Failed"),
    ]
    await here.move("a", "wind")
    reason = "Failed" if pool else "Unassigned"
    for name in ("c", "waits"):
        assert conditions_of(await here.tells("a", name, "Ready", reason)) == [("Ready", "False", reason)]
    await lab.client.delete(ResourcePool, "p")
    await lab.settled()
    for name in ("c", "waits"):
        claim = await here.get(ResourcePoolClaim, "a", name)
        assert conditions_of(claim) == [("Ready", "False", reason)]
        assert (claim.status.pool, claim.status.queue) == (None, None)
    await here.move("a", "solar")
    await here.pool()
    await here.tells("a", "c", "Bound", "Unused")


async def test_the_semantics_are_changed_and_changed_back_without_losing_anything(lab: Lab) -> None:
    here = Quotas(lab)
    here.lab.always.append(HeldByTheRule(lab))
    await here.start("a")
    await here.pool()
    await here.claim("a", "c", cpu=3)
    await here.claim("a", "lost", pool="nowhere", cpu=1)
    await here.bound("a", "c")
    await here.says("a", "lost", "Failed")
    for settings in (NEWER, QuotaSettings()):
        await lab.stop()
        await here.start(settings=settings)
        if settings is NEWER:
            claim = await here.tells("a", "c", "Bound", "Unused")
            await here.tells("a", "lost", "Ready", "Failed")
            assert claim.status.condition is None
        else:
            await here.bound("a", "c")
            await here.says("a", "lost", "Failed")
            await lab.settled()
            for name in ("c", "lost"):
                claim = await here.get(ResourcePoolClaim, "a", name)
                assert (claim.status.conditions, claim.status.semantics) == ((), None)
        await here.spent({CPU: 3})


async def test_conditions_of_a_newer_capsule_are_removed_at_handover_to_older_semantics(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.claim("a", "c", cpu=3)
    await here.says("a", "c", "Failed", "not found")
    time = "2030-01-01T00:00:00Z"
    left = [
        {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "reconciled", "lastTransitionTime": time},
        {"type": "Bound", "status": "True", "reason": "InUse", "message": "claim is used", "lastTransitionTime": time},
    ]
    await lab.client.patch(
        ResourcePoolClaim,
        "c",
        here.ns("a"),
        patch={"status": {"conditions": left}},
        style="merge",
        subresource="status",
    )
    await here.pool()
    await here.bound("a", "c")
    claim = await here.until(ResourcePoolClaim, "a", "c", lambda claim: not claim.status.conditions)
    assert [(one.type, one.reason) for one in claim.conditions] == [("Bound", "Succeeded")]
    await here.patch("a", "c", {"metadata": {"labels": {"team": "blue"}}})
    with pytest.raises(Invalid, match="release it first"):
        await here.patch("a", "c", {"spec": {"claim": {CPU: 1}}})


# --- the webhooks ------------------------------------------------------------------------------------------------------------------


async def used(lab: Lab) -> Quotas:
    here = Quotas(lab)
    await here.start("a", settings=QuotaSettings(semantics="v0.14", guard_at_admission=True))
    await here.pool()
    await here.claim("a", "c", cpu=2)
    await here.tells("a", "c", "Bound", "Unused")
    await here.grants("a", {CPU: 2})
    await here.pod("a", "runs", "2")
    await here.tells("a", "c", "Bound", "InUse")
    return here


async def test_the_webhooks_refuse_what_changes_a_claim_in_use_with_a_403(lab: Lab) -> None:
    here = await used(lab)
    for patch in ({"spec": {"claim": {CPU: 1}}}, {"spec": {"pool": "q"}}):
        with pytest.raises(Forbidden, match="pods use it: end them, or release it first"):
            await here.patch("a", "c", patch)
    with pytest.raises(Forbidden, match="claim c cannot be deleted"):
        await here.delete("a", "c")
    await here.patch("a", "c", {"spec": {"claim": {CPU: "2000m"}}, "metadata": {"labels": {"team": "blue"}}})
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.tells("a", "c", "Bound", "Unused")
    await here.patch("a", "c", {"spec": {"claim": {CPU: 1}}})
    await here.tells("a", "c", "Bound", "Unused")
    await here.delete("a", "c")


@pytest.mark.parametrize("way", ["release", "pool", "namespace"])
async def test_claim_in_use_is_deleted_with_pool_or_namespace_or_when_released(lab: Lab, way: str) -> None:
    here = await used(lab)
    if way == "release":
        await here.release("a", "c")
        await here.delete("a", "c")
    elif way == "pool":
        await lab.client.patch(
            ResourcePool, "p", patch={"spec": {"config": {"deleteBoundResources": True}}}, style="merge"
        )
        await lab.client.delete(ResourcePool, "p")
    else:
        await lab.client.delete(NAMESPACE, here.ns("a"))
        await lab.settled()
        await here.delete("a", "c")
    await lab.settled()
    assert [claim.name for claim in (await lab.client.list(ResourcePoolClaim, here.ns("a"))).items] == []
