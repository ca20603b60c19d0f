"""Members of pools and instances of Nextclouds by the operator's records: another writer's labels and annotations on an instance prove
nothing.
"""

import asyncio
from typing import Any, Final

import pytest
from pools.lab import NAMESPACE, Clouds

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.names import name_for
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel
from konverge_testing.apiserver.faults.rules import Delay, Match, Rule

SMALL: Final = {"matchLabels": {"tier": "small"}}
LOOKS_FREE: Final = {"tier": "small", PoolsLabel.ASSIGNED: PoolsLabel.FALSE, PoolsLabel.POOL: "small"}


async def forge(
    here: Clouds, name: str, namespace: str, labels: dict[str, str] | None = None, **spec: Any
) -> NextcloudInstance:
    data = {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "spec": spec}
    return await here.lab.client.create(NextcloudInstance.decode(data))


async def place(here: Clouds, where: str) -> str:
    """Return the namespace of the attacker: its own namespace, or the namespace of the pools' instances."""
    if where == "the instances":
        return here.lab.namespace
    await here.lab.client.create(NAMESPACE.new("attacker"))
    return "attacker"


def claim_of(nextcloud: Nextcloud) -> dict[str, str]:
    return {"namespace": nextcloud.namespace, "name": nextcloud.name, "uid": nextcloud.uid}


@pytest.mark.parametrize("where", ["another namespace", "the instances"])
async def test_forged_member_is_not_handed_out(clouds: Clouds, where: str) -> None:
    here = await clouds.start()
    forged = await forge(here, "forged", await place(here, where), LOOKS_FREE)
    await here.claim()
    await asyncio.sleep(5)
    await here.says("main", "False", "PoolExhausted")
    await here.pool(replicas=1)
    served = await here.assigned()
    assert served.status.instance_ref is not None
    assert served.status.instance_ref.uid not in (None, forged.uid)
    stored = await here.lab.client.get(NextcloudInstance, "forged", forged.namespace)
    assert (stored.spec.claim_ref, stored.metadata.labels) == (None, LOOKS_FREE)


@pytest.mark.parametrize("where", ["another namespace", "the instances"])
@pytest.mark.parametrize("when", ["before the pool", "after the pool"])
async def test_forged_members_are_neither_counted_nor_deleted(clouds: Clouds, where: str, when: str) -> None:
    here = await clouds.start()
    namespace = await place(here, where)
    if when == "after the pool":
        await here.pool(replicas=3)
        await here.filled()
        await asyncio.sleep(60)
    own = {one.metadata.uid for one in await here.instances()}
    forged = {(await forge(here, f"forged-{number}", namespace, LOOKS_FREE)).uid for number in range(3)}
    if when == "before the pool":
        await here.pool(replicas=3)
    await asyncio.sleep(600)
    pool = await here.filled()
    left = {one.metadata.uid for one in await here.instances()}
    assert left >= own | forged
    assert len(left) == 6
    assert set(pool.status.members or ()) == left - forged
    reported = pool.find_condition("UnrecordedInstances")
    if where == "another namespace":
        assert reported is None
        return
    assert reported is not None
    assert (reported.status, "3 instances have the label" in reported.message) == ("True", True)
    assert "Warning" in {event.get("type") for event in await here.events("LookAlikes")}
    await here.lab.client.delete(NextcloudPool, "small")
    await asyncio.sleep(30)
    assert {one.metadata.uid for one in await here.instances()} == forged


MODES: Final[dict[str, dict[str, Any]]] = {
    "pool": {"poolSelector": SMALL},
    "reference": {"instanceRef": {"name": "absent"}},
    "bare": {},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["another namespace", "the instances"])
async def test_claim_that_another_writer_put_into_an_instance_is_not_adopted(
    clouds: Clouds, mode: str, where: str
) -> None:
    here = await clouds.start()
    namespace = await place(here, where)
    await here.lab.stop()
    how = MODES[mode]
    claim = await here.claim(tier=None, **how, replicas=3)
    names = ["forged", name_for(claim.uid, 0, here.settings.adjectives, here.settings.nouns)]
    labels = {**LOOKS_FREE, PoolsLabel.ASSIGNED: PoolsLabel.TRUE, PoolsLabel.CLAIM_UID: claim.uid}
    here.lab.always.clear()  # the test itself gives the claim several instances
    forged = [await forge(here, name, namespace, labels, claimRef=claim_of(claim)) for name in names]
    await here.run()
    await asyncio.sleep(120)
    stored = await here.lab.get(Nextcloud, "main")
    ref = stored.status.instance_ref
    if mode == "bare":
        assert ref is not None
        assert ref.uid not in {one.uid for one in forged}
    else:
        assert ref is None
    for one in forged:
        assert (await here.lab.client.get(INSTANCE, one.name, namespace)).spec.get("replicas") is None


async def test_deleted_nextcloud_does_not_wait_for_an_instance_that_only_names_it(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=1)
    await here.filled()
    claim = await here.claim()
    await here.assigned()
    here.lab.always.clear()
    labels = {PoolsLabel.CLAIM_UID: claim.uid}
    forged = await forge(here, "forged", await place(here, "another"), labels, claimRef=claim_of(claim))
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await here.patch(INSTANCE, "forged", hold, forged.namespace)
    await here.lab.delete(Nextcloud, "main")
    await here.lab.until_gone(Nextcloud, "main")
    stored = await here.lab.client.get(INSTANCE, "forged", forged.namespace)
    assert (stored.metadata.deleting, PoolsAnnotation.RELEASED in (stored.metadata.annotations or {})) == (False, False)


async def test_waiting_nextcloud_keeps_its_place_though_an_instance_has_its_uid(clouds: Clouds) -> None:
    here = await clouds.start()
    here.lab.always.clear()  # the test itself gives the claim an instance
    old = await here.claim("old")
    await asyncio.sleep(2)
    await here.claim("young")
    await here.says("young", "False", "PoolExhausted")
    await forge(here, "forged", await place(here, "another"), claimRef=claim_of(old))
    await asyncio.sleep(2)
    await here.pool(replicas=1)
    await here.says("old", "True", "Assigned")


EDITS: Final[dict[str, dict[str, Any]]] = {
    "assigned is true": {"labels": {PoolsLabel.ASSIGNED: PoolsLabel.TRUE}},
    "assigned is removed": {"labels": {PoolsLabel.ASSIGNED: None}},
    "another pool": {"labels": {PoolsLabel.POOL: "other"}},
    "no pool": {"labels": {PoolsLabel.POOL: None}},
    "a tenant": {"labels": {PoolsLabel.TENANT: "victim"}},
    "a nextcloud": {"labels": {PoolsLabel.NEXTCLOUD: "main"}},
    "a claim-uid": {"labels": {PoolsLabel.CLAIM_UID: "u-1"}},
    "released-by": {"annotations": {PoolsAnnotation.RELEASED: "u-1"}},
    "orphaned-since": {"annotations": {PoolsAnnotation.ORPHANED_SINCE: "2020-01-01T00:00:00Z"}},
    "spec-before-claim": {"annotations": {PoolsAnnotation.SPEC_BEFORE: "{}"}},
    "profile-digest": {"annotations": {PoolsAnnotation.PROFILE_DIGEST: "forged"}},
    "creation-nonce": {"annotations": {PoolsAnnotation.CREATION_NONCE: None}},
    "all at once": {
        "labels": {PoolsLabel.ASSIGNED: PoolsLabel.TRUE, PoolsLabel.POOL: None, PoolsLabel.CLAIM_UID: "u-1"},
        "annotations": {PoolsAnnotation.RELEASED: "u-1"},
    },
}
HARMLESS: Final = ("profile-digest", "creation-nonce")
"""Edits that nothing depends on: a forged digest only makes the member one that is replaced with the next change of the profile."""


@pytest.mark.parametrize("process", ["runs on", "restarts"])
@pytest.mark.parametrize("edit", EDITS)
async def test_marks_that_are_edited_on_an_idle_member_are_set_back(clouds: Clouds, edit: str, process: str) -> None:
    here = await clouds.start()
    await here.pool(replicas=2)
    await here.filled()
    before = {one.name: one.metadata for one in await here.instances()}
    name = min(before)
    if process == "restarts":
        await here.lab.stop()
    await here.patch(INSTANCE, name, {"metadata": EDITS[edit]})
    if process == "restarts":
        await here.run()
    await asyncio.sleep(120)
    pool = await here.filled()
    after = {one.name: one.metadata for one in await here.instances()}
    assert after.keys() == before.keys()
    assert (pool.status.unassigned, len(pool.status.members or ())) == (2, 2)
    if edit not in HARMLESS:
        assert (after[name].labels, after[name].annotations) == (before[name].labels, before[name].annotations)
        assert all(event.get("type") == "Warning" for event in await here.events("MarksCorrected"))
        assert await here.events("MarksCorrected")
    await here.patch(NextcloudPool, "small", {"spec": {"replicas": 0}}, "")
    await asyncio.sleep(30)
    assert await here.instances() == []


@pytest.mark.parametrize("edit", [one for one in EDITS if one not in HARMLESS])
async def test_marks_that_are_edited_on_a_taken_instance_are_set_back(clouds: Clouds, edit: str) -> None:
    here = await clouds.start()
    await here.pool(replicas=1, lifecycle={"reclaimPolicy": "Delete"})
    await here.filled()
    claim = await here.claim(replicas=3)
    served = await here.assigned()
    assert served.status.instance_ref is not None
    name = served.status.instance_ref.name
    await here.lab.settled()
    before = (await here.lab.get(INSTANCE, name)).metadata
    own = {"annotations": {PoolsAnnotation.RELEASED: claim.uid}}
    change = own if edit == "released-by" else EDITS[edit]
    here.lab.always.clear()  # the edit itself frees the instance by its label
    await here.patch(INSTANCE, name, {"metadata": change})
    await asyncio.sleep(120)
    pool = await here.filled()
    after = (await here.lab.get(INSTANCE, name)).metadata
    assert after.labels == before.labels
    if edit != "spec-before-claim":
        assert after.annotations == before.annotations
    assert (pool.status.assigned, pool.status.unassigned) == (1, 1)
    await here.lab.delete(Nextcloud, "main")
    await here.lab.until_gone(Nextcloud, "main")
    assert name not in {one.name for one in await here.instances()}


async def test_idle_member_with_a_claim_by_hand_is_reclaimed_and_replaced(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=1)
    await here.filled()
    [member] = await here.instances()
    victim = await here.claim("victim", tier="none")
    here.lab.always.clear()
    await here.patch(INSTANCE, member.name, {"spec": {"claimRef": claim_of(victim)}})
    await asyncio.sleep(60)
    await here.says("victim", "False", "PoolExhausted")
    await here.filled()
    [event] = await here.events("ClaimUnconfirmed")
    assert event.get("type") == "Warning"
    await asyncio.sleep(660)
    assert member.metadata.uid not in {one.metadata.uid for one in await here.instances()}
    assert len((await here.filled()).status.members or ()) == 1


async def test_instance_that_another_creates_under_a_chosen_name_is_not_a_member(clouds: Clouds) -> None:
    here = await clouds.start()
    slow = Match(verbs=("create",), resources=("nextcloudinstances.k8s.bnerd.com",))
    here.lab.server.faults.add(Rule(slow, Delay(seconds=3), count=1))
    await here.pool(replicas=1)
    await asyncio.sleep(1)
    [chosen] = (await here.lab.client.get(NextcloudPool, "small")).status.recent_creations or ()
    forged = await forge(here, chosen.name, here.lab.namespace, LOOKS_FREE)
    await here.patch(
        INSTANCE, chosen.name, {"metadata": {"annotations": {PoolsAnnotation.CREATION_NONCE: chosen.nonce_digest}}}
    )
    pool = await here.filled()
    [member] = pool.status.members or ()
    assert member != forged.uid
    assert {one.metadata.uid for one in await here.instances()} == {member, forged.uid}


async def test_process_that_dies_before_the_record_knows_its_instances_again(clouds: Clouds) -> None:
    here = await clouds.start()
    lost = Match(verbs=("apply",), resources=("nextcloudpools.k8s.bnerd.com",), subresource="status")
    slow = Match(verbs=("create",), resources=("nextcloudinstances.k8s.bnerd.com",))
    here.lab.server.faults.add(Rule(slow, Delay(seconds=3), count=2))
    await here.pool(replicas=2)
    await asyncio.sleep(1)
    here.lab.server.faults.add(Rule(lost, Delay(seconds=30), count=1))
    await asyncio.sleep(7)
    created = {one.metadata.uid for one in await here.instances()}
    assert len(created) == 2
    assert not (await here.lab.client.get(NextcloudPool, "small")).status.members
    await here.lab.stop()
    await here.run()
    pool = await here.filled()
    assert set(pool.status.members or ()) == created
    assert {one.metadata.uid for one in await here.instances()} == created


async def test_adoption_records_what_the_label_selects_once(clouds: Clouds) -> None:
    here = await clouds.start()
    taken = {**LOOKS_FREE, PoolsLabel.ASSIGNED: PoolsLabel.TRUE}
    old = await forge(here, "old", here.lab.namespace, LOOKS_FREE)
    assigned = await forge(here, "assigned-by-the-original", here.lab.namespace, taken)
    await place(here, "another namespace")
    await forge(here, "foreign", "attacker", LOOKS_FREE)
    await here.pool(replicas=1, annotations={PoolsAnnotation.ADOPT_MEMBERS: "2030-01-01"})
    pool = await here.filled()
    assert (pool.status.members, pool.status.adopted) == ((old.uid,), "2030-01-01")
    await forge(here, "late", here.lab.namespace, LOOKS_FREE)
    await asyncio.sleep(120)
    assert (await here.filled()).status.members == (old.uid,)
    await here.claim()
    served = await here.assigned()
    assert served.status.instance_ref is not None
    assert served.status.instance_ref.uid == old.uid
    kept = await here.lab.client.get(INSTANCE, assigned.name, here.lab.namespace)
    assert kept.metadata.labels == taken


async def test_instance_in_the_status_without_binding_is_not_reported_deleted(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.lab.stop()
    await here.claim(tier=None)
    status = {"status": {"instanceRef": {"name": "never", "namespace": here.lab.namespace}}}
    await here.lab.patch(Nextcloud, "main", status, subresource="status")
    await here.run()
    shown = await here.says("main", "False", "InstanceNotFound")
    assert "was deleted" not in shown.condition("InstanceAssigned").message
    assert await here.instances() == []


async def test_nextcloud_is_not_woken_by_the_claim_of_a_foreign_instance(clouds: Clouds) -> None:
    here = await clouds.start()
    victim = await here.claim("victim", tier="none")
    await here.says("victim", "False", "PoolExhausted")
    forged = await forge(here, "forged", await place(here, "another"), claimRef=claim_of(victim))
    await here.lab.settled()
    value = here.lab.manager.metrics.registry.get_sample_value
    name, labels = "controller_runtime_reconcile_total", {"controller": "nextcloud", "result": "requeue_after"}
    before = value(name, labels)
    for number in range(5):
        await here.patch(INSTANCE, "forged", {"spec": {"replicas": number}}, forged.namespace)
        await asyncio.sleep(1)
    assert value(name, labels) == before


async def test_members_in_a_former_namespace_are_replaced(clouds: Clouds) -> None:
    here = await clouds.start(settings=PoolSettings(namespaces=("elsewhere",)))
    await here.lab.client.create(NAMESPACE.new("elsewhere"))
    await here.pool(replicas=2)
    await here.filled()
    await here.patch(NextcloudPool, "small", {"spec": {"instanceNamespace": "elsewhere"}}, "")
    await asyncio.sleep(300)
    await here.filled()
    assert [one.namespace for one in await here.instances()] == ["elsewhere", "elsewhere"]
