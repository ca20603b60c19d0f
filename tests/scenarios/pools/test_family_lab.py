"""The whole family on the stand-ins: pools, claims and instances with database, bucket and release; `pytest --lab=quick` adds the faults.

After every write, also of other programs: an instance has one tenant, the data of a retained or living instance and of users stay, and no
password changes.
"""

import asyncio
from typing import Final

import pytest
from pools.family import Family, whole_family
from pools.materials import TakenDownInOrder

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool
from konverge.reconcilers.pools.buckets.failures import failure_of
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import About
from konverge_testing.apiserver.requests import Call, Response

FEW: Final = 6
"""Plans of quick mode for each: with two stand-ins below three controllers a run is dear."""
STEPS: Final = ("Ready", "SecretsReady", "DatabaseReady", "BucketReady", "BackupsReady", "ReleaseReady")
KEPT: Final = {"Secret/*-admin", "Secret/*-redis", "Secret/*-db-app", "Cluster/*-db", "PersistentVolumeClaim/*-data"}
_HOUR: Final = 3600


async def until_full(here: Family, replicas: int = 1) -> None:
    def is_full(pool: NextcloudPool) -> bool:
        return pool.status.ready == pool.status.unassigned == replicas

    await here.pool_until("small", is_full, 6 * _HOUR)


@pytest.mark.scenario(foreign=False, quick=FEW)
async def test_p13_deleted_nextcloud_removes_its_instance_and_the_pool_refills(lab: Lab) -> None:
    here = await whole_family(lab).start()
    order = TakenDownInOrder(lab, here.below.s3)
    lab.always.append(order)
    await here.below.users_objects()
    await here.full_pool()
    await here.claim()
    taken = await here.ready()
    shown = await lab.get(Nextcloud, "main")
    said = {one.type: one.status for one in shown.conditions}
    assert said == dict.fromkeys(("InstanceAssigned", *STEPS), "True")
    uid, bucket = (await lab.get(INSTANCE, taken)).metadata.uid, await here.fill(taken)
    here.below.s3.fail(failure_of("DeleteObjects", "SlowDown", 503), "DeleteObjects", times=6)
    await lab.delete(Nextcloud, "main")
    await lab.until_gone(Nextcloud, "main", timeout=6 * _HOUR)
    assert uid not in {one.metadata.uid for one in await here.instances()}
    assert bucket not in here.below.s3.buckets
    assert order.steps[taken] == {0, 2, 3, 4, 5}
    await until_full(here)
    [spare] = [one.name for one in await here.instances()]
    assert {one for one in await here.below.left() if spare not in one} == {"Secret/s3-keys"}


@pytest.mark.scenario(foreign=False, quick=FEW)
async def test_p14_retain_keeps_readable_data_and_next_nextcloud_gets_another_instance(lab: Lab) -> None:
    here = await whole_family(lab).start()
    await here.below.users_objects()
    await here.full_pool(policy="Retain")
    await here.claim()
    taken = await here.ready()
    bucket, password = await here.fill(taken, 10), await here.password(taken)
    await lab.delete(Nextcloud, "main")
    await lab.until_gone(Nextcloud, "main", timeout=_HOUR)

    def is_released(one: NextcloudInstance) -> bool:
        return one.status.phase == "Released" and "are kept" in one.condition("Ready").message

    await lab.until(NextcloudInstance, taken, is_released, timeout=_HOUR)
    assert await here.parts(taken) == {*KEPT, f"Bucket/{bucket}".replace(taken, "*")}
    assert await here.password(taken) == password
    assert len(here.below.s3.buckets[bucket].versions) == 10
    await here.claim("next")
    assert await here.ready("next") != taken
    await until_full(here)


@pytest.mark.scenario(foreign=False, quick=FEW)
async def test_deleted_pool_removes_spare_instances_with_databases_and_keeps_assigned_instances(lab: Lab) -> None:
    here = await whole_family(lab).start()
    await here.below.users_objects()
    await here.full_pool(policy="Retain", database={"type": "postgresql", "managed": True})
    await here.claim()
    taken = await here.ready()
    bucket = await here.fill(taken, 10)
    await lab.client.delete(NextcloudPool, "small")

    async def pool_is_gone() -> bool:
        return not (await lab.client.list(NextcloudPool)).items

    await here.wait(pool_is_gone, 6 * _HOUR)
    assert [one.name for one in await here.instances()] == [taken]
    assert await here.parts(taken) == {*KEPT, "HelmRelease/*", f"Bucket/{bucket}".replace(taken, "*")}
    assert here.below.s3.made == [bucket]
    await here.patch(Nextcloud, "main", {"spec": {"replicas": 3}})
    await lab.until(NextcloudInstance, taken, lambda one: one.spec.replicas == 3)


@pytest.mark.scenario(foreign=False, quick=3)
async def test_instances_whose_database_never_becomes_ready_are_replaced_until_one_does(lab: Lab) -> None:
    here = whole_family(lab)
    here.below.databases.stuck.add("*")
    here.below.settings = MaterialSettings(database_deadline=120)
    await here.start()
    await here.full_pool()
    await here.claim()

    def is_exhausted(pool: NextcloudPool) -> bool:
        return pool.status.failed > 0 and pool.condition("Ready").reason == "Exhausted"

    await here.pool_until("small", is_exhausted, _HOUR)
    await here.says("main", "False", "PoolExhausted")
    here.below.databases.stuck.clear()
    await here.ready()
    await until_full(here)

    async def only_the_living_have_parts() -> bool:
        alive = {one.name for one in await here.instances()}
        clusters = {
            one.removeprefix("Cluster/").removesuffix("-db")
            for one in await here.below.left()
            if "-db" in one and one.startswith("Cluster/")
        }
        return clusters == alive and len(here.below.s3.buckets) == len(alive)

    # The pool's status may date from before an outage, while the last instance was created.
    await here.wait(only_the_living_have_parts, _HOUR)


async def test_a_deleted_nextcloud_says_which_step_its_instance_waits_for(lab: Lab) -> None:
    here = await whole_family(lab).start()
    await here.full_pool()
    await here.claim()
    await here.fill(await here.ready())
    here.below.s3.down = failure_of("ListObjectVersions", "SlowDown", 503)
    await lab.delete(Nextcloud, "main")

    def waits(found: Nextcloud) -> bool:
        ready = found.condition("Ready")
        return (found.status.phase, ready.status, ready.reason) == ("Deleting", "False", "BucketServerBusy")

    held = await lab.until(Nextcloud, "main", waits, timeout=_HOUR)
    await asyncio.sleep(600)
    again = await lab.get(Nextcloud, "main")
    assert again.metadata.resource_version == held.metadata.resource_version, "it is said once"
    here.below.s3.down = None
    await lab.until_gone(Nextcloud, "main", timeout=_HOUR)


async def test_at_rest_the_whole_family_writes_nothing_in_ten_minutes(lab: Lab) -> None:
    here = await whole_family(lab).start()
    await here.full_pool(replicas=2)
    await here.claim()
    await here.ready()
    await until_full(here, 2)
    await asyncio.sleep(900)  # the last counts of repeated Events are sent
    writes: list[str] = []

    def note(_: Call, about: About, __: Response) -> None:
        if about.writes and about.user_agent.startswith("konverge"):
            writes.append(f"{about.verb} {about.qualified} {about.name}")

    lab.server.on_call.append(note)
    await asyncio.sleep(600)
    assert writes == []


async def test_instance_bound_by_name_shows_its_steps_and_keeps_its_assignment(lab: Lab) -> None:
    here = whole_family(lab)
    here.below.databases.stuck.add("*")
    await here.start()
    await here.instance("one", version="33.0.1", database={"type": "postgresql", "managed": True})
    ingress = {"enabled": True, "host": "cloud.example.com", "tls": {"enabled": True}}
    await here.claim(tier=None, instanceRef={"name": "one"}, ingress=ingress)

    def shows(found: Nextcloud) -> bool:
        said = found.find_condition("DatabaseReady")
        return said is not None and said.reason == "DatabaseProvisioning"

    shown = await lab.until(Nextcloud, "main", shows, timeout=_HOUR)
    assert shown.condition("InstanceAssigned").is_true
    assert (shown.status.phase, shown.condition("Ready").reason) == ("Provisioning", "DatabaseProvisioning")
    here.below.databases.stuck.clear()
    await here.ready()
    shown, instance = await lab.get(Nextcloud, "main"), await lab.get(NextcloudInstance, "one")
    assert shown.condition("InstanceAssigned").is_true
    below = instance.status
    assert (shown.status.phase, shown.status.helm_release, shown.status.url, shown.status.version) == (
        *("Ready", below.helm_release, below.url, below.version),
    )
    assert (below.helm_release is not None, below.url, below.version) == (True, "https://cloud.example.com", "33.0.1")
    assert below.claim_ref is not None
    assert below.claim_ref == instance.spec.claim_ref
    assert below.claim_ref.uid == shown.uid
    assert (bool(below.assigned_at), bool(below.ready_at), bool(shown.status.assigned_at)) == (True, True, True)
    assert below.observed_generation == instance.generation
