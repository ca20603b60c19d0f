"""An exception inside the claim controller is reported by the claim's status, in the form of the semantics in force."""

from typing import Any

import pytest
from quota.lab import Quotas

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge.reconcilers.quota.claims import decide, observe
from konverge_testing import Lab

SECRET = "hunter2"
WORDS = "reconciling failed with OverflowError; it is tried again"
PARTS = {"decide_claim": decide, "claim_view": observe, "pool_facts": observe}
"""Pure functions of the claim controller, each with the module that calls it."""
FORMS = {"v0.12": {"Assigned": "Failed"}, "v0.14": {"Ready": "Failed"}}


def break_part(lab: Lab, patch: pytest.MonkeyPatch, part: str) -> None:
    lab.expects(OverflowError)

    def raises(*_: Any) -> Any:
        raise OverflowError(SECRET)

    patch.setattr(PARTS[part], part, raises)


def failures(lab: Lab) -> int:
    records = lab.manager.runner("resourcepoolclaim").history.recent()
    return sum(record.outcome == "OverflowError" for record in records)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("semantics", FORMS)
async def test_claim_of_a_missing_pool_reports_its_failing_controller_until_fixed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, semantics: Any, part: str
) -> None:
    break_part(lab, monkeypatch, part)
    here = await Quotas(lab).start("a", settings=QuotaSettings(semantics=semantics))
    await here.pool("other", tenants=("moon",))
    await here.claim("a", "c", cpu=1)
    said = await here.until(ResourcePoolClaim, "a", "c", lambda claim: bool(claim.conditions))
    await lab.settled()
    assert failures(lab) > 3
    assert (await here.get(ResourcePoolClaim, "a", "c")).metadata.resource_version == said.metadata.resource_version
    assert {one.type: one.reason for one in said.conditions} == FORMS[semantics]
    assert {one.status for one in said.conditions} == {"False"}
    assert (said.status.condition is None) is (semantics == "v0.14")
    assert bool(said.status.conditions) is (semantics == "v0.14")
    assert WORDS in said.conditions[0].message
    assert SECRET not in str(said.to_dict())
    assert [event[1] for event in await here.events("a", "c") if event[0] == "Warning"] == ["Failed"]
    monkeypatch.undo()
    await here.until(ResourcePoolClaim, "a", "c", lambda claim: "not found" in claim.conditions[0].message)


@pytest.mark.parametrize("part", ["decide_claim", "pool_facts"])
async def test_pool_writes_statuses_of_its_claims_while_the_claim_controller_fails(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "before", cpu=3)
    await here.bound("a", "before")
    await lab.settled()
    break_part(lab, monkeypatch, part)
    before = await here.get(ResourcePoolClaim, "a", "before")
    lab.manager.runner("resourcepoolclaim").resync_now()
    await here.claim("a", "after", cpu=1)
    await here.claim("a", "waits", cpu=1)
    await here.bound("a", "after")
    await here.says("a", "waits", "PoolExhausted")
    await lab.settled()
    assert failures(lab)
    after = await here.get(ResourcePoolClaim, "a", "before")
    assert after.metadata.resource_version == before.metadata.resource_version


async def test_bound_claim_is_deleted_with_its_pool_despite_a_failing_claim_controller(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await Quotas(lab).start("a")
    await here.pool(deleteBoundResources=True)
    await here.claim("a", "bound", cpu=3)
    await here.claim("a", "queued", cpu=3)
    await here.bound("a", "bound")
    await here.says("a", "queued", "PoolExhausted")
    break_part(lab, monkeypatch, "decide_claim")
    await lab.client.delete(ResourcePool, "p")
    await here.says("a", "queued", "Failed", WORDS)
    left = await lab.client.list(ResourcePoolClaim, here.ns("a"))
    assert [claim.name for claim in left.items] == ["queued"]
