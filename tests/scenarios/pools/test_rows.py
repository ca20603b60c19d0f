"""The rows of the family: what a claim and a pool must do, one test for each.

After every write, also of other programs, `OneTenant` holds: no instance has two tenants, and none is assigned twice.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pools.claim_operator import serve
from pools.lab import NAMESPACE, Clouds, OneTenant

from konverge.clock import rfc3339, wall_clock
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.errors import Contested
from konverge.reconcilers.pools.claims.render import lock_patch
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.names import name_for
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel
from konverge.runtime import ElectionSettings, ManagerSettings
from konverge.runtime.election.record import LEASE
from konverge_testing.apiserver.faults.rules import About, Delay, Match, Refuse, Rule
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.loop import CLOCK_ERROR

FREE = {PoolsLabel.ASSIGNED: PoolsLabel.FALSE, "tier": "small"}


async def test_p1_pool_of_25_fills_in_three_windows_of_ten(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=25)
    found = []
    await asyncio.sleep(1)
    for _ in range(3):
        found.append(len(await here.instances()))
        await asyncio.sleep(62)
    assert found == [10, 20, 25]
    assert (await here.filled()).status.ready == 25


async def test_restarted_process_counts_recent_creations_of_deleted_instances(clouds: Clouds) -> None:
    here = await clouds.start(ready=False, settings=PoolSettings(creates_per_window=3))
    here.lab.always.append(OneTenant(here.lab, creates=3))
    await here.pool(replicas=3)
    await asyncio.sleep(5)
    first = {one.name for one in await here.instances()}
    assert len(first) == 3
    for name in first:
        await here.phase(name, "Failed")
    await asyncio.sleep(5)
    assert await here.instances() == []
    await here.lab.stop()
    await here.run()
    await asyncio.sleep(40)
    assert await here.instances() == []
    await asyncio.sleep(20)
    assert len(await here.instances()) == 3


async def test_creations_recorded_for_the_future_by_others_do_not_stop_the_pool(clouds: Clouds) -> None:
    here = await clouds.start(settings=PoolSettings(creates_per_window=1))
    await here.pool(replicas=0)
    await asyncio.sleep(5)
    forged = [{"name": "forged", "createdAt": "9999-12-31T23:59:59.000000Z"}]
    await here.lab.client.patch(
        NextcloudPool, "small", patch={"status": {"recentCreations": forged}}, style="merge", subresource="status"
    )
    await asyncio.sleep(5)
    await here.patch(NextcloudPool, "small", {"spec": {"replicas": 1}}, "")
    found = await here.filled()
    [made] = await here.instances()
    assert made.name in {one.name for one in found.status.recent_creations or ()}


async def test_process_with_a_slow_clock_replaces_instances_after_a_profile_change(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.profile(version="32")
    await here.pool(replicas=2, profileRef={"name": "base"}, lifecycle={"recreateOnProfileChange": True})
    await here.filled()
    await here.lab.stop()
    token = CLOCK_ERROR.set(-86_400)
    try:
        await here.run()
    finally:
        CLOCK_ERROR.reset(token)
    await here.patch(NextcloudProfile, "base", {"spec": {"defaults": {"version": "33"}}}, "")
    await asyncio.sleep(600)
    assert [one.spec.get("version") for one in await here.instances()] == ["33", "33"]


async def test_p2_of_too_many_the_oldest_go_and_assigned_ones_stay(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=5)
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.filled()
    await asyncio.sleep(5)
    order = sorted(
        (one for one in await here.instances() if one.name != taken.name),
        key=lambda one: (one.metadata.creation_timestamp, one.name),
    )
    await here.patch(NextcloudPool, "small", {"spec": {"replicas": 3}}, "")
    await here.filled()
    assert {one.name for one in await here.instances()} == {taken.name, *(one.name for one in order[2:])}


async def test_p3_of_two_claims_on_one_instance_one_gets_it(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.member("one", FREE)
    await here.lab.until(NextcloudInstance, "one", lambda found: found.status.phase == "Ready")
    await asyncio.gather(here.claim("a", replicas=3), here.claim("b", replicas=4))
    await asyncio.sleep(5)
    found = [await here.lab.get(Nextcloud, name) for name in ("a", "b")]
    reasons = sorted(one.condition("InstanceAssigned").reason for one in found)
    assert reasons == ["Assigned", "PoolExhausted"]
    [winner] = [one for one in found if one.status.instance_ref is not None]
    instance = await here.lab.get(NextcloudInstance, "one")
    assert instance.spec.claim_ref is not None
    assert (instance.spec.claim_ref.uid, instance.spec.replicas) == (winner.uid, winner.spec.replicas)


async def test_p3_first_write_wins_between_claims_that_chose_the_same_instance(clouds: Clouds) -> None:
    here, lab = clouds, clouds.lab
    await here.start()
    await here.member("one", FREE)
    await lab.until(NextcloudInstance, "one", lambda found: found.status.phase == "Ready")
    await lab.stop()
    tenants = [await lab.namespace_also(name) for name in ("a", "b")]
    everywhere = ManagerSettings(namespace=None, strict=True)
    managers = [
        await lab.start(partial(serve, instances=lab.namespace, tenant=one), name=f"of-{one}", settings=everywhere)
        for one in tenants
    ]
    # Neither process knows the other's claim, and both have chosen the instance when the first write arrives.
    slow = Match(verbs=("patch",), resources=("nextcloudinstances.k8s.bnerd.com",))
    held = lab.server.faults.add(Rule(slow, Delay(seconds=3), count=2))
    selector = {"matchLabels": {"tier": "small"}}
    for number, one in enumerate(tenants, 3):
        spec = {"poolSelector": selector, "replicas": number}
        await lab.client.create(Nextcloud.decode({"metadata": {"name": "main", "namespace": one}, "spec": spec}))
    await asyncio.sleep(20)
    assert {hit.about.manager for hit in held.hits} == {f"of-{one}" for one in tenants}, "both tried"
    claims = [await lab.client.get(Nextcloud, "main", one) for one in tenants]
    reasons = sorted(one.condition("InstanceAssigned").reason for one in claims)
    assert reasons == ["Assigned", "PoolExhausted"]
    [winner] = [one for one in claims if one.status.instance_ref is not None]
    instance = await lab.get(NextcloudInstance, "one")
    assert instance.spec.claim_ref is not None
    assert (instance.spec.claim_ref.uid, instance.spec.replicas) == (winner.uid, winner.spec.replicas)
    count = "konverge_nextcloud_assignment_conflicts_total"
    assert sum(one.metrics.registry.get_sample_value(count) or 0 for one in managers) == 1


@pytest.mark.parametrize("idle", [2, 6])
async def test_two_processes_that_take_an_instance_for_the_same_claim_take_one(clouds: Clouds, idle: int) -> None:
    here = await clouds.start()
    await here.lab.start(here.build, name="second", settings=ManagerSettings(namespace=None, strict=True))
    for number in range(idle):
        await here.member(f"one-{number}", FREE)
        await here.lab.until(NextcloudInstance, f"one-{number}", lambda found: found.status.phase == "Ready")
    # Both have looked for an instance of the claim and found none when the first write arrives.
    slow = Match(verbs=("patch",), resources=("nextcloudinstances.k8s.bnerd.com",))
    here.lab.server.faults.add(Rule(slow, Delay(seconds=3), count=2))
    await here.claim(replicas=3)
    served = await here.assigned()
    await asyncio.sleep(70)
    [taken] = [one for one in await here.instances() if one.spec.get("claimRef")]
    assert served.status.instance_ref is not None
    assert (taken.name, taken.spec["replicas"]) == (served.status.instance_ref.name, 3)


@pytest.mark.parametrize("by", ["reference", "pool"])
async def test_the_lock_names_the_version_of_the_instance_that_was_chosen(clouds: Clouds, by: str) -> None:
    here, lab = clouds, clouds.lab
    refusals: list[int] = []

    def note(_: Call, about: About, answer: Response) -> None:
        if (about.verb, about.name) == ("patch", "one") and answer.status >= 400:
            refusals.append(answer.status)

    await here.start()
    await here.member("one", FREE)
    await lab.until(NextcloudInstance, "one", lambda found: found.status.phase == "Ready")
    # The read that confirms the record is slow, and the cache has the rival's lock before that read ends.
    slow = Match(verbs=("get",), resources=("nextclouds.k8s.bnerd.com",), user_agent="konverge*")
    lab.server.faults.add(Rule(slow, Delay(seconds=3), count=1))
    lab.server.on_call.append(note)
    if by == "reference":
        await here.claim(tier=None, instanceRef={"name": "one"})
    else:
        await here.claim()
    await asyncio.sleep(1)
    rival = Nextcloud.decode({"metadata": {"name": "rival", "namespace": "other", "uid": "0a1b"}, "spec": {}})
    instance = await lab.get(INSTANCE, "one")
    await here.patch(INSTANCE, "one", lock_patch(rival, instance.metadata, "Delete"))
    await here.says("main", "False", "InstanceTaken" if by == "reference" else "PoolExhausted")
    assert refusals == [409]
    held = await lab.get(INSTANCE, "one")
    assert held.get("spec", "claimRef", "uid") == "0a1b"


async def test_instance_that_fails_during_its_assignment_is_replaced_by_the_next(clouds: Clouds) -> None:
    here = await clouds.start(ready=False)
    for name in ("one", "two"):
        await here.member(name, FREE)
        await here.phase(name, "Ready")
    await here.lab.settled()
    slow = Match(verbs=("patch",), resources=("nextcloudinstances.k8s.bnerd.com",))
    here.lab.server.faults.add(Rule(slow, Delay(seconds=3), count=1))
    await here.claim()
    await asyncio.sleep(1)
    await here.phase("one", "Failed")
    served = await here.assigned()
    assert served.status.instance_ref is not None
    assert served.status.instance_ref.name == "two"
    assert [one.name for one in await here.instances() if one.spec.get("claimRef")] == ["two"]
    value = here.lab.manager.metrics.registry.get_sample_value
    assert value("konverge_nextcloud_assignment_conflicts_total") == 1


async def test_claim_with_two_instances_keeps_the_first_and_second_is_reclaimed(clouds: Clouds) -> None:
    here = await clouds.start()
    here.lab.always.clear()  # the test itself gives the claim a second instance
    await here.member("an-older-one", {"tier": "other"})
    await asyncio.sleep(2)
    await here.member("one", FREE)
    claim = await here.claim(replicas=4)
    await here.assigned()
    # The lock of a process that no longer leads arrives late.
    late = await here.lab.get(INSTANCE, "an-older-one")
    await here.patch(INSTANCE, "an-older-one", lock_patch(claim, late.metadata, "Delete"))
    await here.patch(Nextcloud, "main", {"spec": {"replicas": 5}})
    await here.lab.until(NextcloudInstance, "one", lambda found: found.spec.replicas == 5)
    await here.lab.settled()
    served = await here.assigned()
    assert served.status.instance_ref is not None
    assert served.status.instance_ref.name == "one"
    assert await here.events("ClaimUnconfirmed")
    await asyncio.sleep(660)
    assert [one.name for one in await here.instances()] == ["one"]
    await here.lab.delete(Nextcloud, "main")
    await here.lab.until_gone(Nextcloud, "main")
    assert await here.instances() == []


@pytest.mark.parametrize("taken", ["one", "two"])
async def test_p4_after_a_crash_behind_the_lock_the_same_instance_is_resumed(clouds: Clouds, taken: str) -> None:
    here = await clouds.start()
    for name in ("one", "two"):
        await here.member(name, FREE)
        await here.lab.until(NextcloudInstance, name, lambda found: found.status.phase == "Ready")
    await here.lab.stop()
    claim = await here.claim(replicas=4)
    instance = await here.lab.get(INSTANCE, taken)
    await here.nominate(claim, instance)
    await here.patch(INSTANCE, taken, lock_patch(claim, instance.metadata, "Delete"))
    await here.run()
    served = await here.assigned()
    assert served.status.instance_ref is not None
    assert served.status.instance_ref.name == taken
    found = {one.name: (one.spec.get("replicas"), bool(one.spec.get("claimRef"))) for one in await here.instances()}
    other = {"one": "two", "two": "one"}[taken]
    assert found == {taken: (4, True), other: (None, False)}


@pytest.mark.parametrize(
    ("late", "code", "reason", "left"),
    [("delete", 409, "Assigned", 1), ("patch", 404, "PoolExhausted", 0)],
    ids=["the-claim-comes-first", "the-pool-comes-first"],
)
async def test_p5_first_write_wins_between_a_claim_and_a_shrinking_pool(
    clouds: Clouds, late: str, code: int, reason: str, left: int
) -> None:
    here = await clouds.start()
    await here.pool(replicas=1)
    await here.filled()
    [instance] = await here.instances()
    # Pool and claim have both chosen the instance when the first of their writes arrives.
    answers: list[int] = []

    def note(_: Call, about: About, answer: Response) -> None:
        if (about.verb, about.name) == (late, instance.name) and about.user_agent.startswith("konverge"):
            answers.append(answer.status)

    here.lab.server.on_call.append(note)
    slow = Match(verbs=(late,), resources=("nextcloudinstances.k8s.bnerd.com",))
    here.lab.server.faults.add(Rule(slow, Delay(seconds=3), count=1))
    shrunk = {"spec": {"replicas": 0}}
    if late == "delete":
        await here.patch(NextcloudPool, "small", shrunk, "")
        await asyncio.sleep(1)
        await here.claim(replicas=4)
    else:
        await here.claim(replicas=4)
        await asyncio.sleep(1)
        await here.patch(NextcloudPool, "small", shrunk, "")
    await asyncio.sleep(10)
    found = await here.lab.get(Nextcloud, "main")
    assert (answers[-1], found.condition("InstanceAssigned").reason) == (code, reason)
    assert [(one.metadata.uid, one.spec["replicas"]) for one in await here.instances()] == [
        (instance.metadata.uid, 4)
    ] * left


async def test_p6_a_pool_without_an_idle_instance_blocks_and_nothing_is_created(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.profile(replicas=2)
    await here.claim(profile="base")
    blocked = await here.says("main", "False", "PoolExhausted")
    assert (
        "no idle instance is left with the labels tier=small: 0 are ready"
        in blocked.condition("InstanceAssigned").message
    )
    assert await here.instances() == []
    await asyncio.sleep(130)
    [event] = await here.events("PoolExhausted")
    assert event.get("type") == "Warning"
    await here.pool(replicas=1)
    served = await here.assigned()
    assert served.status.applied_profile == "base"
    assert served.status.instance_ref is not None
    instance = await here.lab.get(NextcloudInstance, served.status.instance_ref.name)
    assert instance.spec.replicas == 1, "the profile of a Nextcloud from a pool is only recorded"


@pytest.mark.parametrize("mode", ["pool", "reference", "profile"])
async def test_p7_a_missing_profile_blocks_in_every_mode_before_anything_is_taken(clouds: Clouds, mode: str) -> None:
    here = await clouds.start()
    await here.member("free", FREE)
    spec: dict[str, Any] = {"instanceRef": {"name": "free"}} if mode == "reference" else {}
    await here.claim(tier="small" if mode == "pool" else None, profile="base", **spec)
    await here.says("main", "False", "ProfileNotFound")
    await asyncio.sleep(5)
    [instance] = await here.instances()
    assert instance.get("spec", "claimRef") is None
    await here.profile(replicas=2)
    served = await here.assigned()
    assert served.status.applied_profile == "base"
    assert len(await here.instances()) == (2 if mode == "profile" else 1)


async def test_p8_a_nextcloud_that_names_nothing_gets_a_bare_instance(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.claim(tier=None, version="33")
    served = await here.says("main", "True", "Created")
    [instance] = await here.instances()
    assert instance.spec == {
        "version": "33",
        "claimRef": {"namespace": here.lab.namespace, "name": "main", "uid": served.uid},
    }
    [event] = await here.events("BareFreshCreation")
    assert event.get("type") == "Normal"
    assert instance.metadata.owner_references == ()


async def test_foreign_instance_under_the_name_of_a_new_instance_is_not_adopted(clouds: Clouds) -> None:
    here = await clouds.start()
    # The claim has found its name free when the other instance is created.
    slow = Match(verbs=("patch",), resources=("nextcloudinstances.k8s.bnerd.com",))
    here.lab.server.faults.add(Rule(slow, Delay(seconds=3), count=1))
    claim = await here.claim(tier=None, replicas=3)
    await asyncio.sleep(1)
    theirs = name_for(claim.uid, 0, here.settings.adjectives, here.settings.nouns)
    await here.instance(theirs, {"team": "theirs"}, replicas=9)
    served = await here.assigned()
    assert served.status.instance_ref is not None
    assert served.status.instance_ref.name == name_for(claim.uid, 1, here.settings.adjectives, here.settings.nouns)
    stored = await here.lab.get(NextcloudInstance, theirs)
    assert (stored.spec.claim_ref, stored.spec.replicas) == (None, 9)
    assert set(stored.labels or {}) == {"team"}


async def test_tenant_fields_override_the_profile_until_the_tenant_removes_them(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.profile(replicas=2, s3={"enabled": True, "region": "profile"})
    await here.claim(tier=None, profile="base", s3={"region": "tenant"}, apps=["mail"])
    await here.says("main", "True", "Created")
    await here.patch(NextcloudProfile, "base", {"spec": {"defaults": {"replicas": 9}}}, "")
    [instance] = await here.instances()
    assert {name: instance.spec.get(name) for name in ("replicas", "s3", "apps", "profile")} == {
        "replicas": 2,
        "s3": {"enabled": True, "region": "tenant"},
        "apps": ["mail"],
        "profile": "base",
    }
    await here.patch(Nextcloud, "main", {"spec": {"s3": None, "apps": None}})
    await asyncio.sleep(2)
    [instance] = await here.instances()
    assert instance.spec["s3"] == {"enabled": True, "region": "profile"}
    assert "apps" not in instance.spec
    assert instance.spec["replicas"] == 2


async def test_p9_edited_tenant_field_is_reverted_and_edited_template_field_stays(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=1, template={"resources": {"requests": {"cpu": "1"}}})
    await here.filled()
    await here.claim(ingress={"host": "cloud.example.com"})
    served = await here.assigned()
    assert served.status.instance_ref is not None
    name = served.status.instance_ref.name
    assert (await here.events("DriftCorrected")) == []
    edit = {"spec": {"ingress": {"host": "evil.example.com"}, "resources": {"requests": {"cpu": "2"}}}}
    await here.patch(INSTANCE, name, edit)

    def is_back(found: NextcloudInstance) -> bool:
        return found.spec.ingress is not None and found.spec.ingress.host == "cloud.example.com"

    back = await here.lab.until(NextcloudInstance, name, is_back)
    assert back.spec.resources is not None
    assert back.spec.resources.requests == {"cpu": "2"}
    await asyncio.sleep(2)
    [event] = await here.events("DriftCorrected")
    assert event.get("type") == "Warning"
    assert ".spec.ingress.host (edited by" in event.get("note")


async def test_item_added_to_a_tenant_list_is_reverted_except_for_apps(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.member("one", FREE, tenantHelm=True, serviceAccountName="installer")
    values = {"env": [{"name": "A", "value": "1"}]}
    await here.claim(apps=["mail"], helm={"values": values})
    await here.assigned()
    await here.lab.until(NextcloudInstance, "one", lambda one: one.spec.helm is not None)
    await here.lab.settled()
    await here.patch(INSTANCE, "one", {"spec": {"apps": ["mail", "calendar"]}})
    await here.lab.settled()
    assert (await here.lab.get(INSTANCE, "one")).spec["apps"] == ["mail", "calendar"], "a list of apps is a set"
    assert await here.events("DriftCorrected") == []
    added = {"env": [*values["env"], {"name": "B", "value": "2"}]}
    await here.patch(INSTANCE, "one", {"spec": {"helm": {"values": added}}})
    await here.lab.settled()
    assert (await here.lab.get(INSTANCE, "one")).spec["helm"]["values"] == values
    [event] = await here.events("DriftCorrected")
    assert "set back .spec.helm.values.env (edited by" in event.get("note")


@pytest.mark.parametrize("mode", ["pool", "reference"])
async def test_field_removed_by_the_tenant_returns_to_the_template_or_disappears(clouds: Clouds, mode: str) -> None:
    here = await clouds.start()
    template: dict[str, Any] = {
        "replicas": 1,
        "apps": ["calendar"],
        "resources": {"requests": {"cpu": "1"}},
        "version": "32",
    }
    if mode == "pool":
        await here.pool(replicas=1, template=template)
        await here.filled()
    else:
        await here.instance("one", **template)
    how: dict[str, Any] = {"tier": "small"} if mode == "pool" else {"tier": None, "instanceRef": {"name": "one"}}
    more = {"requests": {"cpu": "3", "memory": "1Gi"}}
    await here.claim(**how, replicas=3, apps=["mail"], resources=more, version="32", mail={"enabled": True})
    served = await here.assigned()
    assert served.status.instance_ref is not None
    name = served.status.instance_ref.name
    await here.lab.until(NextcloudInstance, name, lambda one: one.spec.replicas == 3)
    await here.lab.stop()
    gone = dict.fromkeys(("replicas", "apps", "resources", "version", "mail"))
    await here.patch(Nextcloud, "main", {"spec": {**gone, "s3": {"enabled": False}}})
    await here.run()
    await here.lab.until(NextcloudInstance, name, lambda one: one.spec.s3 is not None)
    stored = (await here.lab.get(INSTANCE, name)).spec
    assert {field: stored.get(field) for field in (*gone, "s3")} == {**template, "mail": None, "s3": {"enabled": False}}
    await here.lab.settled()
    assert await here.events("DriftCorrected") == []


@pytest.mark.parametrize("mode", ["pool", "reference"])
async def test_instance_taken_before_spec_recording_has_the_pools_values_from_then(clouds: Clouds, mode: str) -> None:
    here = await clouds.start()
    template: dict[str, Any] = {"apps": ["calendar"], "replicas": 1, "s3": {"enabled": False, "region": "here"}}
    if mode == "pool":
        await here.profile(version="32", redis={"enabled": False})
        await here.pool(replicas=1, template=template, profileRef={"name": "base"})
        await here.filled()
    else:
        await here.instance("one", **template, version="32", redis={"enabled": False})
    how: dict[str, Any] = {"tier": "small"} if mode == "pool" else {"tier": None, "instanceRef": {"name": "one"}}
    await here.claim(**how, replicas=3, version="33", s3={"region": "there"})
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.lab.until(NextcloudInstance, taken.name, lambda one: one.spec.replicas == 3)
    await here.lab.stop()
    forgotten = dict.fromkeys((PoolsAnnotation.SPEC_BEFORE, PoolsAnnotation.REPLACED))
    await here.patch(INSTANCE, taken.name, {"metadata": {"annotations": forgotten}})
    await here.run()
    await here.lab.settled()
    recorded = await here.lab.get(INSTANCE, taken.name)
    await asyncio.sleep(600)
    assert (await here.lab.get(INSTANCE, taken.name)).metadata.resource_version == recorded.metadata.resource_version
    # The tenant removes a field from before, and two fields that it sets only now.
    await here.patch(Nextcloud, "main", {"spec": {"apps": ["mail"], "s3": {"enabled": True}}})
    await here.lab.until(INSTANCE, taken.name, lambda one: bool(one.get("spec", "s3", "enabled")))
    gone = dict.fromkeys(("apps", "replicas", "version", "s3"))
    await here.patch(Nextcloud, "main", {"spec": {**gone, "redis": {"enabled": True}}})
    await here.lab.until(INSTANCE, taken.name, lambda one: bool(one.get("spec", "redis", "enabled")))
    stored = (await here.lab.get(INSTANCE, taken.name)).spec
    known = {**template, "version": "32"} if mode == "pool" else {"apps": ["calendar"], "s3": {"enabled": False}}
    assert {field: stored[field] for field in gone if field in stored} == known
    await here.lab.settled()
    assert await here.events("DriftCorrected") == []


async def test_bare_instance_records_no_spec_from_before_its_nextcloud(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.claim(tier=None, replicas=3)
    await here.says("main", "True", "Created")
    [instance] = await here.instances()
    await here.patch(INSTANCE, instance.name, {"spec": {"apps": ["calendar"]}})
    await here.patch(Nextcloud, "main", {"spec": {"replicas": 4}})
    await here.lab.until(NextcloudInstance, instance.name, lambda one: one.spec.replicas == 4)
    assert PoolsAnnotation.SPEC_BEFORE not in (await here.lab.get(NextcloudInstance, instance.name)).annotations


async def test_spec_that_conflicts_with_pool_fields_is_reported_until_changed(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(template={"database": {"managed": True, "type": "postgresql"}})
    await here.filled()
    await here.claim(replicas=3)
    await here.assigned()
    await here.patch(Nextcloud, "main", {"spec": {"database": {"type": "mysql"}}})

    def says(reason: str, words: str) -> Callable[[Nextcloud], bool]:
        return lambda one: (one.condition("Ready").reason, words in one.condition("Ready").message) == (reason, True)

    shown = await here.lab.until(Nextcloud, "main", says("InvalidSpec", "only PostgreSQL can be managed"))
    assert shown.condition("InstanceAssigned").is_true
    await here.patch(Nextcloud, "main", {"spec": {"database": None, "replicas": 4}})
    await here.lab.until(Nextcloud, "main", says("Ready", "it runs"))
    assert shown.status.instance_ref is not None
    await here.lab.until(NextcloudInstance, shown.status.instance_ref.name, lambda one: one.spec.replicas == 4)


async def test_a_manager_that_edits_again_and_again_is_reported_as_a_fight(clouds: Clouds) -> None:
    here = await clouds.start(settings=PoolSettings(drift_limit=2))
    here.lab.expects(Contested, "two writers")
    await here.pool(replicas=1)
    await here.filled()
    await here.claim(version="33")
    served = await here.assigned()
    assert served.status.instance_ref is not None
    name = served.status.instance_ref.name
    for number in range(3):
        await here.patch(INSTANCE, name, {"spec": {"version": f"{number}"}})
        await here.lab.until(NextcloudInstance, name, lambda found: found.spec.version == "33")

    def fights(found: Nextcloud) -> bool:
        return found.find_condition("DriftFight") is not None

    await here.lab.until(Nextcloud, "main", fights)
    await here.patch(INSTANCE, name, {"spec": {"version": "9"}})
    await asyncio.sleep(20)
    assert (await here.lab.get(NextcloudInstance, name)).spec.version == "9", "corrections are made slowly in a fight"
    await asyncio.sleep(60)
    assert (await here.lab.get(NextcloudInstance, name)).spec.version == "33"
    await asyncio.sleep(1300)
    assert not fights(await here.lab.get(Nextcloud, "main"))


async def test_p10_a_changed_profile_replaces_unassigned_instances_a_quarter_at_a_time(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.profile(version="32")
    await here.pool(replicas=8, profileRef={"name": "base"}, lifecycle={"recreateOnProfileChange": True})
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    pool = await here.filled()
    assert pool.status.observed_profile is not None
    lowest = []

    def count() -> None:
        entries = here.lab.server.store.list(("k8s.bnerd.com", "nextcloudinstances"))
        ready = [
            one for one in (entry.object() for entry in entries) if (one.get("status") or {}).get("phase") == "Ready"
        ]
        lowest.append(
            sum("claimRef" not in one["spec"] and "deletionTimestamp" not in one["metadata"] for one in ready)
        )

    here.lab.always.append(count)
    await here.patch(NextcloudProfile, "base", {"spec": {"defaults": {"version": "33"}}}, "")
    before = pool.status.observed_profile.digest

    def rolled(found: NextcloudPool) -> bool:
        observed = found.status.observed_profile
        return observed is not None and observed.digest != before and found.status.ready == 8

    await here.pool_until("small", rolled)
    while any(one.spec.get("version") != "33" for one in await here.instances() if one.name != taken.name):
        await asyncio.sleep(1)
    assert min(lowest) >= 6
    assert (await here.lab.get(NextcloudInstance, taken.name)).spec.version == "32"


async def test_p11_first_observation_of_a_profile_records_its_digest_and_deletes_nothing(clouds: Clouds) -> None:
    here = await clouds.start()
    for number in range(3):
        await here.instance(f"old-{number}", {**FREE, PoolsLabel.POOL: "small"})
    names = [one.name for one in await here.instances()]
    await here.profile(version="32")
    adopt = {PoolsAnnotation.ADOPT_MEMBERS: "upgrade"}
    lifecycle = {"recreateOnProfileChange": True}
    await here.pool(replicas=3, profileRef={"name": "base"}, lifecycle=lifecycle, annotations=adopt)
    pool = await here.filled()
    assert pool.status.observed_profile is not None
    await asyncio.sleep(120)
    assert [one.name for one in await here.instances()] == names
    await here.patch(NextcloudProfile, "base", {"spec": {"defaults": {"version": "33"}}}, "")
    while names and any(one.name in names for one in await here.instances()):
        await asyncio.sleep(1)
    changed = await here.filled()
    assert changed.status.observed_profile is not None
    assert changed.status.observed_profile.digest != pool.status.observed_profile.digest


async def test_p12_what_is_too_old_is_replaced_and_assigned_instances_stay(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=4, lifecycle={"maxUnassignedAge": "1h"})
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.filled()
    old = {one.name for one in await here.instances()} - {taken.name}
    await asyncio.sleep(3700)
    await here.filled()
    assert {one.name for one in await here.instances()} & (old | {taken.name}) == {taken.name}


async def test_p13_with_delete_the_nextcloud_ends_after_its_instance_and_pool_refills(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=1)
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.patch(INSTANCE, taken.name, {"metadata": {"finalizers": ["k8s.bnerd.com/instance", "example.com/hold"]}})
    await here.lab.delete(Nextcloud, "main")
    await asyncio.sleep(10)
    held = await here.lab.get(Nextcloud, "main")
    assert held.deleting
    assert (held.status.phase, held.condition("Ready").status, held.condition("Ready").reason) == (
        *("Deleting", "False", "Releasing"),
    )
    assert (await here.lab.get(NextcloudInstance, taken.name)).deleting
    await here.patch(INSTANCE, taken.name, {"metadata": {"finalizers": None}})
    await here.lab.until_gone(Nextcloud, "main", timeout=120)
    await here.filled()
    assert taken.name not in {one.name for one in await here.instances()}


async def test_p14_with_retain_the_instance_is_kept_and_never_handed_out_again(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=1, lifecycle={"reclaimPolicy": "Retain"})
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.patch(NextcloudPool, "small", {"spec": {"lifecycle": {"reclaimPolicy": "Delete"}}}, "")
    await here.lab.delete(Nextcloud, "main")
    await here.lab.until_gone(Nextcloud, "main")
    await here.filled()
    await here.lab.settled()
    pool = await here.lab.client.get(NextcloudPool, "small")
    assert (pool.status.assigned, pool.status.unassigned) == (0, 1), "a released instance has no tenant"
    await here.claim("next")
    other = (await here.assigned("next")).status.instance_ref
    kept = await here.lab.get(NextcloudInstance, taken.name)
    assert other is not None
    assert other.name != taken.name
    assert kept.spec.claim_ref is not None
    assert (kept.deleting, kept.spec.reclaim_policy, kept.spec.claim_ref.name) == (False, "Retain", "main")
    assert kept.annotations[PoolsAnnotation.RELEASED] == kept.spec.claim_ref.uid


async def test_p15_the_garbage_collector_leaves_an_assigned_instance_alone(clouds: Clouds) -> None:
    here = await clouds.start()
    elsewhere = await here.lab.namespace_also("tenant")
    await here.pool(replicas=1)
    await here.filled()
    made = await here.lab.client.create(
        Nextcloud.decode(
            {
                "metadata": {"name": "main", "namespace": elsewhere},
                "spec": {"poolSelector": {"matchLabels": {"tier": "small"}}},
            }
        )
    )
    await asyncio.sleep(120)
    mine = [one for one in await here.instances() if one.get("spec", "claimRef", "uid") == made.uid]
    assert [one.metadata.owner_references for one in mine] == [()]


async def test_p16_an_instance_of_another_nextcloud_is_never_bound(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.member("one", FREE)
    await here.claim("a", tier=None, instanceRef={"name": "one"})
    await here.says("a", "True", "Bound")
    await here.claim("b", tier=None, instanceRef={"name": "one"})
    await here.says("b", "False", "InstanceTaken")
    await here.claim("c", tier=None, instanceRef={"name": "none"})
    await here.says("c", "False", "InstanceNotFound")
    await here.instance("none")
    await here.says("c", "True", "Bound")
    assert (await here.lab.get(Nextcloud, "b")).status.instance_ref is None


async def test_a_pool_that_is_deleted_takes_its_unassigned_instances_with_it(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=2)
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.lab.client.delete(NextcloudPool, "small")
    while await here.lab.client.list(NextcloudPool) and (await here.lab.client.list(NextcloudPool)).items:
        await asyncio.sleep(1)
    assert [one.name for one in await here.instances()] == [taken.name]
    await here.patch(Nextcloud, "main", {"spec": {"version": "33"}})
    await here.lab.until(NextcloudInstance, taken.name, lambda found: found.spec.version == "33")


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        ({"tier": "small"}, FREE),
        ({"tier": "small", "zone": "a"}, {**FREE, "zone": "a", **{f"label-{number}": "x" for number in range(8)}}),
        ({"tier": "small", PoolsLabel.ASSIGNED: PoolsLabel.FALSE}, FREE),
    ],
    ids=["one-label", "two-labels-of-an-instance-with-many", "the-label-of-idle-instances"],
)
async def test_waiting_claims_are_served_by_age_once_an_instance_is_ready(
    clouds: Clouds, selector: dict[str, str], labels: dict[str, str]
) -> None:
    here = await clouds.start()
    for name in ("c", "a", "b"):
        await here.claim(name, tier=None, poolSelector={"matchLabels": selector})
        await here.says(name, "False", "PoolExhausted")
        await asyncio.sleep(2)
    served: list[str] = []
    for number in range(3):
        await here.member(f"one-{number}", labels)
        await asyncio.sleep(2)
        served += [
            name
            for name in ("a", "b", "c")
            if name not in served and (await here.lab.get(Nextcloud, name)).status.instance_ref is not None
        ]
    assert served == ["c", "a", "b"]


async def test_younger_claim_leaves_the_instance_to_a_slow_older_claim(clouds: Clouds) -> None:
    here = await clouds.start(ready=False)
    await here.claim("old")
    await here.says("old", "False", "PoolExhausted")
    await here.member("one", FREE)
    await here.lab.settled()
    slow = Match(verbs=("patch",), resources=("nextcloudinstances.k8s.bnerd.com",), subresource="")
    here.lab.server.faults.add(Rule(slow, Delay(seconds=3), count=1))
    await here.phase("one", "Ready")
    await asyncio.sleep(1)
    await here.claim("young")
    await here.says("young", "False", "PoolExhausted")
    await here.says("old", "True", "Assigned")
    await asyncio.sleep(70)
    await here.says("young", "False", "PoolExhausted")


async def test_failed_instances_are_replaced_more_and_more_slowly(clouds: Clouds) -> None:
    here = await clouds.start(ready=False)
    await here.pool(replicas=2)
    seen: set[str] = set()
    for _ in range(30):
        for one in await here.instances():
            seen.add(one.name)
            if not one.metadata.deleting and one.get("status", "phase", default="") != "Failed":
                await here.phase(one.name, "Failed")
        await asyncio.sleep(10)
    assert 6 <= len(seen) <= 10, "after 60, 120 and 240 seconds"
    pool = await here.lab.client.get(NextcloudPool, "small")
    assert (pool.condition("Ready").status, pool.condition("Ready").reason) == ("False", "Exhausted")


async def test_degraded_spare_is_replaced_unless_it_recovers_in_time(clouds: Clouds) -> None:
    here = await clouds.start(ready=False)
    await here.pool(replicas=2)
    await asyncio.sleep(1)
    lost, kept = [one.name for one in await here.instances()]
    for name in (lost, kept):
        await here.phase(name, "Ready", conditions=[condition("True")])
    await here.filled()
    await asyncio.sleep(3600)
    for name in (lost, kept):
        await here.phase(name, "Degraded", conditions=[condition("False")])
    await asyncio.sleep(1000)
    assert {one.name for one in await here.instances()} == {lost, kept}, "it may still recover"
    await here.phase(kept, "Ready", conditions=[condition("True")])
    await asyncio.sleep(850)
    names = {one.name for one in await here.instances()}
    assert (kept in names, lost in names, len(names)) == (True, False, 2)


def condition(status: str) -> dict[str, str]:
    """Return the condition Ready of an instance, as of now."""
    now = rfc3339(wall_clock())
    return {"type": "Ready", "status": status, "reason": "X", "message": "", "lastTransitionTime": now}


async def test_a_pool_whose_instances_are_refused_says_why_once(clouds: Clouds) -> None:
    here = await clouds.start()
    # Profile and template are valid separately: only the instance has both parts.
    await here.profile(database={"type": "mysql"})
    await here.pool(replicas=1, profileRef={"name": "base"}, template={"database": {"managed": True}})

    def refused(found: NextcloudPool) -> bool:
        said = found.find_condition("Progressing")
        return said is not None and said.reason == "CreateFailed"

    pool = await here.pool_until("small", refused)
    assert "only PostgreSQL can be managed" in pool.condition("Progressing").message
    await asyncio.sleep(600)
    assert (
        await here.lab.client.get(NextcloudPool, "small")
    ).metadata.resource_version == pool.metadata.resource_version
    fixed = {"spec": {"template": {"spec": {"database": {"managed": False}}}}}
    await here.patch(NextcloudPool, "small", fixed, "")
    await here.filled()


async def test_pool_with_a_missing_namespace_reports_it_and_fills_up_later(clouds: Clouds) -> None:
    here = await clouds.start(settings=PoolSettings(namespaces=("later",)))
    await here.pool(replicas=2, instanceNamespace="later")

    def refused(found: NextcloudPool) -> bool:
        said = found.find_condition("Progressing")
        return said is not None and said.reason == "CreateFailed"

    pool = await here.pool_until("small", refused)
    assert 'namespaces "later" not found' in pool.condition("Progressing").message
    await asyncio.sleep(300)
    value = here.lab.manager.metrics.registry.get_sample_value
    failures = value("konverge_nextcloud_pool_create_failures_total", {"pool": "small"})
    assert failures is not None
    assert 3 <= failures <= 7, "it is tried once a minute"
    await here.lab.client.create(NAMESPACE.new("later"))
    await asyncio.sleep(65)
    assert [one.namespace for one in await here.instances()] == ["later", "later"]


async def test_nextcloud_with_a_deleted_instance_reports_it_and_takes_no_other(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=1)
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.lab.delete(INSTANCE, taken.name)
    lost = await here.says("main", "False", "InstanceLost")
    await asyncio.sleep(120)
    assert [one.spec.get("claimRef") for one in await here.instances()] == [None]
    assert (lost.status.phase, lost.condition("Ready").status, lost.condition("Ready").reason) == (
        *("Failed", "False", "InstanceLost"),
    )


async def test_condition_that_the_instance_no_longer_reports_becomes_unknown(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.member("one", FREE)
    await here.claim()
    await here.says("main", "True", "Assigned")
    await here.lab.until(Nextcloud, "main", lambda one: one.find_condition("Ready") is not None)
    # As after a restored backup: the instance without its status.
    await here.lab.stop()
    lost = {"status": {"phase": None, "conditions": None, "url": None}}
    await here.lab.patch(INSTANCE, "one", lost, subresource="status")
    here.leave_instances_alone()
    await here.run()
    await here.lab.settled()
    shown = await here.lab.get(Nextcloud, "main")
    assert (shown.status.phase, shown.condition("Ready").status, shown.condition("Ready").reason) == (
        *("Pending", "Unknown", "NotReported"),
    )


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_an_instance_that_is_bound_by_name_keeps_its_own_policy(clouds: Clouds, policy: str) -> None:
    here = await clouds.start()
    await here.instance("one", reclaimPolicy=policy)
    await here.claim(tier=None, instanceRef={"name": "one"})
    await here.says("main", "True", "Bound")
    assert (await here.lab.get(NextcloudInstance, "one")).spec.reclaim_policy == policy
    await here.lab.delete(Nextcloud, "main")
    await here.lab.until_gone(Nextcloud, "main")
    assert len(await here.instances()) == (1 if policy == "Retain" else 0)


async def test_instances_of_a_pool_that_lost_its_finalizer_are_not_handed_out(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=1)
    await here.filled()
    [instance] = await here.instances()
    await here.lab.stop()
    await here.patch(NextcloudPool, "small", {"metadata": {"finalizers": None}}, "")
    await here.lab.client.delete(NextcloudPool, "small")
    await here.run()
    await here.claim()
    await here.says("main", "False", "PoolExhausted")
    assert [one.metadata.uid for one in await here.instances()] == [instance.metadata.uid]


async def test_the_metrics_count_what_a_pool_and_its_claims_do(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=2)
    await here.filled()
    await here.claim(version="33")
    served = await here.assigned()
    assert served.status.instance_ref is not None
    await here.filled()
    await here.patch(INSTANCE, served.status.instance_ref.name, {"spec": {"version": "1"}})
    await here.lab.until(NextcloudInstance, served.status.instance_ref.name, lambda one: one.spec.version == "33")
    value = here.lab.manager.metrics.registry.get_sample_value
    of_pool = {"pool": "small"}
    for state, number in {"ready": 2, "assigned": 1, "failed": 0, "provisioning": 0}.items():
        assert value("konverge_nextcloud_pool_instances", {**of_pool, "state": state}) == number, state
    assert value("konverge_nextcloud_pool_replicas", of_pool) == 2
    assert value("konverge_nextcloud_pool_creates_total", of_pool) == 3
    assert value("konverge_nextcloud_pool_create_failures_total", of_pool) == 0
    assert value("konverge_nextcloud_claim_wait_seconds_count") == 1
    assert value("konverge_nextcloud_drift_corrections_total") == 1


async def test_wait_of_a_claim_is_counted_once_despite_two_status_writes(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.member("one", FREE)
    await here.lab.until(NextcloudInstance, "one", lambda found: found.status.phase == "Ready")
    status = Match(verbs=("apply",), resources=("nextclouds.k8s.bnerd.com",), subresource="status")
    here.lab.server.faults.add(Rule(status, Refuse(status=403), count=1))
    await here.claim()
    await here.assigned()
    value = here.lab.manager.metrics.registry.get_sample_value
    assert value("konverge_nextcloud_claim_wait_seconds_count") == 1


async def test_a_process_that_does_not_lead_any_more_shows_no_pool(clouds: Clouds) -> None:
    here = await clouds.start(election=ElectionSettings(enabled=True, name="konverge", namespace=clouds.lab.namespace))
    await here.pool(replicas=2)
    await here.filled()
    registry, of_pool = here.lab.manager.metrics.registry, {"pool": "small"}

    def shown() -> dict[str, float | None]:
        return {
            "ready": registry.get_sample_value("konverge_nextcloud_pool_instances", {**of_pool, "state": "ready"}),
            "wanted": registry.get_sample_value("konverge_nextcloud_pool_replicas", of_pool),
            "creates": registry.get_sample_value("konverge_nextcloud_pool_creates_total", of_pool),
        }

    assert shown() == {"ready": 2, "wanted": 2, "creates": 2}
    await here.patch(LEASE, "konverge", {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 60}})
    await asyncio.sleep(40)
    assert (here.lab.manager.leads, set(shown().values())) == (False, {None})
    await asyncio.sleep(60)
    assert shown() == {"ready": 2, "wanted": 2, "creates": 0}
