"""Rows of docs/reference/capsule.md#rows about failed reads, refusals, foreign writes and a second server."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from quota.lab import CPU, POD, Quotas

from konverge.clock import rfc3339, wall_clock
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge.reconcilers.quota import install
from konverge.reconcilers.quota.kinds import LEASE, MUTATING, NAMESPACE, RESOURCE_QUOTA, VALIDATING
from konverge.runtime import ElectionSettings, ManagerSettings
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Delay, Match, Refuse, Rule

QUOTA = "capsule-pool-p"


async def test_x05_a_claim_made_again_is_counted_once(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "c", cpu=2)
    await here.bound("a", "c")
    await here.delete("a", "c")
    again = await here.claim("a", "c", cpu=1)
    await here.bound("a", "c")
    pool = await here.spent({CPU: 1})
    assert [entry.uid for entry in pool.status.claims[here.ns("a")]] == [again.uid]


async def test_x11_a_released_claim_moves_to_another_pool(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool("p1")
    await here.pool("p2")
    await here.claim("a", "c", pool="p1", cpu=3)
    await here.bound("a", "c")
    await here.claim("a", "big", pool="p1", cpu=4)
    await here.says("a", "big", "PoolExhausted")
    await here.release("a", "c")
    await here.bound("a", "big")
    await here.patch("a", "c", {"spec": {"pool": "p2"}})
    moved = await here.bound("a", "c")
    assert moved.status.pool is not None
    assert moved.status.pool.name == "p2"
    assert (await here.get(ResourcePool, "", "p1")).status.allocation.used == {CPU: "4"}
    await here.grants("a", {CPU: 3}, pool="p2")


@pytest.mark.lab_on("memory")
async def test_former_leader_shows_no_pool_and_no_claim_in_metrics(lab: Lab) -> None:
    def shown() -> set[str]:
        return {
            one.name
            for family in lab.metrics.registry.collect()
            if family.name.startswith("capsule_")
            for one in family.samples
        }

    here = Quotas(lab)
    here.settings = replace(
        here.settings, election=ElectionSettings(enabled=True, name="konverge", namespace=lab.namespace)
    )
    await here.start("a")
    await here.pool()
    await here.claim("a", "c", cpu=1)
    await here.bound("a", "c")
    await lab.settled()
    before = shown()
    assert {"capsule_pool_usage", "capsule_claim_condition"} <= before
    other = {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 60}}
    await lab.client.patch(LEASE, "konverge", lab.namespace, patch=other, style="merge")
    await asyncio.sleep(40)
    assert (lab.manager.leads, shown()) == (False, set())
    await asyncio.sleep(60)
    assert (lab.manager.leads, shown()) == (True, before)


@pytest.mark.lab_on("memory")
async def test_x15_no_series_is_left_of_what_is_gone(lab: Lab) -> None:
    def series(word: str) -> set[str]:
        found = set()
        for family in lab.metrics.registry.collect():
            if family.name.startswith("capsule_"):
                found |= {
                    f"{one.name}{sorted(one.labels.items())}" for one in family.samples if word in one.labels.values()
                }
        return found

    here = await Quotas(lab).start("a", "b")
    await here.pool()
    await here.claim("a", "c", cpu=1)
    await here.claim("b", "d", cpu=1)
    await here.claim("b", "lost", pool=None, pods=99)
    await here.says("b", "lost", "Unassigned")
    await here.bound("a", "c")
    await here.bound("b", "d")
    await lab.settled()
    assert len(series(here.ns("a"))) == 5
    await here.move("a", "wind")
    await here.says("a", "c", "Failed")
    await here.delete("a", "c")
    await here.delete("b", "d")
    await here.delete("b", "lost")
    await here.spent({CPU: 0})
    await lab.settled()
    assert series(here.ns("a")) == set()
    assert series(here.ns("b")) == set()
    assert series("p")
    await lab.client.delete(ResourcePool, "p")
    await lab.settled()
    assert series("p") == set()


@pytest.mark.lab_on("memory")
async def test_x17_hard_lowered_past_admission_is_reported_and_evicts_no_claim(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool()
    await here.claim("a", "c", cpu=4)
    await here.bound("a", "c")
    await lab.settled()
    stored = lab.server.store.get(("capsule.clastix.io", "resourcepools"), "", "p")
    assert stored is not None
    data = stored.object()
    data["spec"]["quota"]["hard"][CPU] = 3
    data["metadata"]["generation"] += 1
    lab.server.store.update(("capsule.clastix.io", "resourcepools"), stored, data)
    await here.claim("b", "new", cpu=1)
    await here.says("b", "new", "PoolExhausted", "available: requests.cpu=0")
    pool = await here.get(ResourcePool, "", "p")
    assert (pool.status.allocation.used, pool.status.allocation.available) == ({CPU: "4"}, {CPU: "0"})
    assert pool.condition("Exhausted").message == "requests.cpu: 4 is held, hard is 3"
    await here.bound("a", "c")


@pytest.mark.parametrize("propagation", ["Foreground", "Background", "Orphan"])
async def test_x24_claims_survive_the_deletion_of_their_pool(lab: Lab, propagation: Any) -> None:
    here = await Quotas(lab).start("a")
    pool = await here.pool()
    await here.claim("a", "c", cpu=3)
    await here.claim("a", "queued", cpu=3)
    await here.bound("a", "c")
    await here.says("a", "queued", "PoolExhausted")
    owner = {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "ResourcePool", "name": "p", "uid": pool.uid}
    for name in ("c", "queued"):  # as Capsule left them
        await here.patch("a", name, {"metadata": {"ownerReferences": [owner]}})
    await here.until(ResourcePoolClaim, "a", "c", lambda claim: not claim.metadata.owner_references)
    await here.until(ResourcePoolClaim, "a", "queued", lambda claim: not claim.metadata.owner_references)
    await lab.client.delete(ResourcePool, "p", propagation=propagation)
    await lab.settled()
    names = [claim.name for claim in (await lab.client.list(ResourcePoolClaim, here.ns("a"))).items]
    assert sorted(names) == ["c", "queued"]
    await here.says("a", "c", "Failed", "not found")
    assert (await lab.client.list(RESOURCE_QUOTA, here.ns("a"))).items == []


async def test_x25_a_namespace_may_draw_on_what_it_still_holds(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(hard={CPU: 3})
    await here.claim("a", "c", cpu=3)
    await here.grants("a", {CPU: 3})
    await here.pod("a", "runs", "3")
    await here.delete("a", "c")
    await here.grants("a", {CPU: 0})
    await here.claim("b", "waits", cpu=1)
    await here.says("b", "waits", "PoolExhausted")
    await here.claim("a", "again", cpu=3)
    await here.bound("a", "again")
    await here.grants("a", {CPU: 3})


async def test_x28_a_claim_whose_resource_no_quota_takes_is_refused_alone(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(hard={CPU: 4, "no.such": 5})
    await here.claim("a", "bad", {"no.such": 1})
    await here.claim("a", "good", cpu=1)
    await here.claim("b", "other", cpu=1)
    await here.bound("b", "other")
    await here.bound("a", "good")
    bad = await here.says("a", "bad", "Failed", "must be a standard resource")
    assert bad.status.condition is not None
    assert (bad.status.condition.type, bad.status.condition.status) == ("Bound", "False")
    pool = await here.until(ResourcePool, "", "p", lambda pool: pool.condition("Ready").is_false)
    assert "must be a standard resource" in pool.condition("Ready").message
    assert {name for entries in pool.status.claims.values() for name in [entry.name for entry in entries]} == {
        "good",
        "other",
    }
    await here.delete("a", "bad")
    await here.until(ResourcePool, "", "p", lambda pool: pool.condition("Ready").is_true)


@pytest.mark.lab_on("memory")
async def test_a_listed_claim_that_no_quota_takes_holds_nothing_after_its_deletion(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(hard={CPU: 4, "no.such": 5})
    await here.spent({CPU: 0, "no.such": 0})
    await lab.settled()
    late = Match(verbs=("get",), resources=("resourcepools.capsule.clastix.io",), user_agent="konverge*")
    lab.server.faults.add(Rule(late, Delay(seconds=3), count=1))
    await here.claim("a", "bad", {"no.such": 5, CPU: 4})
    await here.until(ResourcePool, "", "p", lambda pool: pool.status.claim_count == 1)
    await here.delete("a", "bad")
    await here.claim("b", "good", cpu=4)
    await here.bound("b", "good")
    pool = await here.spent({CPU: 4, "no.such": 0})
    await lab.settled()
    assert (pool.status.releasing, pool.condition("Ready").is_true) == ({}, True)


async def test_x28_of_claims_that_come_together_only_the_bad_ones_are_refused(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    for name, amounts in (("bad", {"no.such": 1}), ("one", {CPU: 1}), ("two", {CPU: 1}), ("worse", {"nor.this": 1})):
        await here.claim("a", name, amounts)
    await here.pool(hard={CPU: 4, "no.such": 5, "nor.this": 5})
    for name in ("one", "two"):
        await here.bound("a", name)
    for name in ("bad", "worse"):
        await here.says("a", name, "Failed", "must be a standard resource")
    await here.grants("a", {CPU: 2})
    await here.spent({CPU: 2, "no.such": 0, "nor.this": 0})


@pytest.mark.lab_on("memory")
async def test_quota_that_cannot_be_written_affects_only_its_namespace_and_is_retried(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool()
    await here.grants("b", {})
    match = Match(verbs=("write",), resources=("resourcequotas",), namespace=here.ns("a"))
    lost = lab.server.faults.add(Rule(match, Refuse(503)))
    await here.claim("a", "c", cpu=1)
    await here.claim("b", "c", cpu=1)
    await here.bound("b", "c")
    assert (await here.get(ResourcePoolClaim, "a", "c")).status.condition is None
    lab.server.faults.remove(lost)
    await here.bound("a", "c")
    await lab.settled()
    assert await here.events("a", "c") == [("Normal", "Succeeded", "Claimed resources")]


@pytest.mark.lab_on("memory")
async def test_quota_is_applied_once_despite_a_conflict_at_foreign_key_removal(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.grants("a", {})
    match = Match(verbs=("write",), resources=("resourcequotas",), namespace=here.ns("a"))
    # The first write is the edit below, the second the resulting apply, and the third removes the key.
    refused = lab.server.faults.add(Rule(match, Refuse(409), nth=3, count=1))
    foreign = {"spec": {"hard": {"count/secrets": "9"}}}
    await lab.client.patch(RESOURCE_QUOTA, QUOTA, here.ns("a"), patch=foreign, style="merge")
    await here.claim("a", "c", cpu=1)
    await here.bound("a", "c")
    await lab.settled()
    quota = await lab.client.get(RESOURCE_QUOTA, QUOTA, here.ns("a"))
    assert set(quota.get("spec", "hard")) == {CPU}
    assert len(refused.hits) == 1
    assert "UsageError" not in {record.outcome for record in lab.manager.runner("resourcepool").history.recent()}


@pytest.mark.lab_on("memory")
async def test_quota_conflict_costs_no_claim_its_place_in_the_queue(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(hard={CPU: 4})
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.claim("b", "zeta", cpu=3)
    await here.says("b", "zeta", "PoolExhausted")
    await asyncio.sleep(2)
    await here.claim("b", "alpha", cpu=3)
    await here.says("b", "alpha", "PoolExhausted")
    match = Match(verbs=("write",), resources=("resourcequotas",), namespace=here.ns("b"))
    lab.server.faults.add(Rule(match, Refuse(409), count=1))
    await here.delete("a", "c")
    await here.bound("b", "zeta")
    await here.says("b", "alpha", "PoolExhausted")


async def test_x29_changing_pods_in_a_settled_pool_trigger_no_reconcile(lab: Lab) -> None:
    here = await Quotas(lab).start("a")
    await here.pool()
    await here.claim("a", "c", cpu=4)
    await here.grants("a", {CPU: 4})
    await lab.settled()
    before = here.passes()
    for number in range(50):
        await here.pod("a", f"pod-{number}", "10m")  # a real server releases used amounts late
        await lab.client.delete(POD, f"pod-{number}", here.ns("a"))
    await lab.settled()
    assert here.passes() == before


async def test_a_settled_pool_writes_nothing_more(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(hard={CPU: 4, "requests.memory": "2Gi"}, orderedQueue=True)
    await here.claim("a", "c", cpu=3)
    await here.claim("b", "lacks", {CPU: 5, "requests.memory": "3Gi"})
    await here.claim("b", "waits", {CPU: 1})
    await here.says("b", "waits", "QueueExhausted", "requested: requests.cpu=1, queued: requests.cpu=5")
    await lab.settled()
    before = here.passes()
    for _ in range(10):
        lab.manager.runner("resourcepool").resync_now()
        lab.manager.runner("resourcepoolclaim").resync_now()
        await lab.settled()
    assert not any(writes for number, writes in here.passes().items() if number not in before)


async def test_a_terminating_namespace_holds_until_it_is_gone(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool()
    await here.claim("a", "c", cpu=4)
    await here.bound("a", "c")
    await here.claim("b", "waits", cpu=4)
    await here.says("b", "waits", "PoolExhausted")
    await lab.client.create(
        kind("v1", "ConfigMap").decode(
            {"metadata": {"name": "held", "namespace": here.ns("a"), "finalizers": ["example.com/x"]}}
        )
    )
    await lab.client.delete(NAMESPACE, here.ns("a"))
    await lab.settled()
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=0")
    await lab.client.patch(
        kind("v1", "ConfigMap"), "held", here.ns("a"), patch={"metadata": {"finalizers": None}}, style="merge"
    )
    await here.bound("b", "waits")


# --- a second server ---------------------------------------------------------------------------------------------------------------


def _webhooks() -> Object:
    hook = {
        "name": "resourcepools.projectcapsule.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {
            "service": {"name": "capsule", "namespace": "capsule-system", "path": "/resourcepools/claim/validating"}
        },
        "rules": [
            {
                "apiGroups": ["capsule.clastix.io"],
                "apiVersions": ["v1beta2"],
                "operations": ["UPDATE"],
                "resources": ["resourcepoolclaims"],
            }
        ],
    }
    return VALIDATING.new("capsule-validating-webhook-configuration", webhooks=[hook])


def _lease(where: str) -> Object:
    spec = {
        "holderIdentity": "capsule-0",
        "leaseDurationSeconds": 15,
        "renewTime": rfc3339(wall_clock())[:-1] + ".000000Z",
    }
    return LEASE.new("42c733ea.clastix.capsule.io", where, spec=spec)


@pytest.mark.parametrize("sign", ["webhooks", "lease"])
async def test_x30_family_does_not_start_beside_capsule_with_these_kinds(lab: Lab, sign: str) -> None:
    made = await lab.client.create(_webhooks() if sign == "webhooks" else _lease(lab.namespace))
    manager = await lab.start(
        install, name="konverge", settings=ManagerSettings(namespace=None, strict=True), wait=False
    )
    report = await manager.ready(timeout=5)
    assert not report.of("resourcepool").ready
    assert not report.of("resourcepoolclaim").ready
    assert "Capsule still serves ResourcePools here" in report.of("resourcepool").why
    assert made.name in report.of("resourcepool").why
    assert "docs/guide/quota.md" in report.of("resourcepool").why
    here = Quotas(lab)
    await here.namespace("a")
    await here.pool()
    await lab.client.delete(VALIDATING if sign == "webhooks" else LEASE, made.name, made.namespace)
    await manager.wait_ready(timeout=90)
    await here.spent({CPU: 0})


async def test_family_starts_beside_capsule_without_these_kinds_or_after_its_removal(lab: Lab) -> None:
    other = _webhooks().to_dict()
    other["metadata"]["name"] = f"other-{lab.namespace}"
    other["webhooks"][0]["rules"][0]["resources"] = ["tenants"]
    await lab.client.create(Object(other))
    stale = _lease(lab.namespace).to_dict()
    stale["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z"
    await lab.client.create(Object(stale))
    assert (await lab.client.list(MUTATING)).items == []
    await lab.start(install, name="konverge", settings=ManagerSettings(namespace=None, strict=True))


async def test_a_capsule_beside_may_be_allowed_by_a_setting(lab: Lab) -> None:
    made = await lab.client.create(_webhooks())
    here = await Quotas(lab).start("a", settings=QuotaSettings(beside_capsule=True))
    await here.pool()
    await here.grants("a", {})
    await lab.client.delete(VALIDATING, made.name)
