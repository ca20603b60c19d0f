"""Instances are only in the namespaces of the setting: elsewhere nothing is created or deleted, and the status names the setting."""

import asyncio

from pools.lab import Clouds
from pools.materials import NAME, Materials

from konverge.crds.pools_v1alpha1 import NextcloudInstance, NextcloudPool
from konverge.reconcilers.pools import PoolSettings
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.namespaces import InstanceNamespaces
from konverge_testing import Lab

ELSEWHERE = InstanceNamespaces(("nextcloud-instances",))


def is_refused(pool: NextcloudPool) -> bool:
    found = pool.find_condition("Progressing")
    return found is not None and found.reason == "NamespaceNotListed"


async def test_a_pool_in_an_unlisted_namespace_makes_nothing_and_names_the_setting(clouds: Clouds) -> None:
    here = await clouds.start()
    elsewhere = await here.lab.namespace_also("elsewhere")
    await here.pool(replicas=2, instanceNamespace=elsewhere)
    pool = await here.pool_until("small", is_refused)
    message = pool.condition("Progressing").message
    assert "pools.namespaces (families.pools.namespaces of the chart)" in message
    assert f"add {elsewhere} to it" in message
    await asyncio.sleep(300)
    assert await here.instances() == []


async def test_a_pool_fills_up_once_its_namespace_is_listed(clouds: Clouds) -> None:
    here = await clouds.start()
    elsewhere = await here.lab.namespace_also("elsewhere")
    await here.pool(replicas=2, instanceNamespace=elsewhere)
    await here.pool_until("small", is_refused)
    await here.lab.stop()
    here.settings = PoolSettings(instance_namespace=here.lab.namespace, namespaces=(elsewhere,))
    await here.run()
    await here.filled()
    assert {one.namespace for one in await here.instances()} == {elsewhere}


async def test_pool_keeps_its_instances_of_a_namespace_removed_from_the_list(clouds: Clouds) -> None:
    here = await clouds.start(settings=PoolSettings(namespaces=("*",)))
    elsewhere = await here.lab.namespace_also("elsewhere")
    await here.pool(replicas=2, instanceNamespace=elsewhere)
    await here.filled()
    before = {one.metadata.uid for one in await here.instances()}
    await here.lab.stop()
    here.settings = PoolSettings(instance_namespace=here.lab.namespace)
    await here.run()
    await here.patch(NextcloudPool, "small", {"spec": {"replicas": 1}}, "")
    await here.pool_until("small", is_refused)
    await asyncio.sleep(300)
    assert {one.metadata.uid for one in await here.instances()} == before


def says_so(instance: NextcloudInstance) -> bool:
    found = instance.find_condition("Ready")
    return found is not None and found.reason == "NamespaceNotListed"


async def test_an_instance_in_an_unlisted_namespace_is_left_alone(lab: Lab) -> None:
    here = Materials(lab)
    here.namespaces = ELSEWHERE
    await here.start()
    before = await here.left()
    await here.create()
    instance = await here.until(says_so)
    assert f"add {lab.namespace} to it" in instance.condition("Ready").message
    await asyncio.sleep(300)
    assert await here.left() == before
    assert not (await lab.client.get(INSTANCE, NAME, lab.namespace)).metadata.finalizers
    await here.deleted()
    assert await here.left() == before


async def test_a_deleted_instance_waits_while_its_namespace_is_not_listed(lab: Lab) -> None:
    here = await Materials(lab).start()
    before = await here.left()
    await here.create()
    await here.phase("Ready")
    await lab.stop()
    here.namespaces = ELSEWHERE
    await lab.start(here.build, name="konverge")
    everything = await here.left()
    await lab.delete(NextcloudInstance, NAME)
    await here.until(
        lambda one: says_so(one) and one.condition("Ready").message.startswith("nothing of the instance is deleted: ")
    )
    await asyncio.sleep(300)
    assert await here.left() == everything
    await lab.stop()
    here.namespaces = InstanceNamespaces((lab.namespace,))
    await lab.start(here.build, name="konverge")
    await lab.until_gone(NextcloudInstance, NAME, timeout=3600)
    assert await here.left() == before
