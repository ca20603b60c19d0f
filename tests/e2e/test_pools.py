"""Rows of the family of pools that concern conflicts, garbage collection and real deletion, on a real control plane."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from pools.lab import Clouds

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool
from konverge.errors import NotFound
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel
from konverge_testing import ControlPlane, ControlPlaneError, Lab

pytestmark = pytest.mark.control_plane

CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
PATIENCE = 300


@pytest_asyncio.fixture
async def clouds(lab: Lab) -> AsyncIterator[Clouds]:
    """The kit; at the end nothing of it is left for other tests of the same server."""
    here = Clouds(lab)
    yield here
    await lab.stop()
    for what in (Nextcloud, NextcloudInstance, NextcloudPool):
        for found in (await lab.client.list(what)).items:
            try:
                patch = {"metadata": {"finalizers": None}}
                await lab.client.patch(what, found.name, found.namespace, patch=patch, style="merge")
                await lab.client.delete(what, found.name, found.namespace)
            except NotFound:
                continue


async def gone(lab: Lab, what: type[Nextcloud | NextcloudInstance], name: str, namespace: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await lab.client.get(what, name, namespace)
            except NotFound:
                return
            await asyncio.sleep(0.2)


async def test_p13_p14_p15_real_deletion_and_garbage_collection(clouds: Clouds) -> None:
    here, lab = clouds, clouds.lab
    tier, tenant = lab.namespace[:40], await lab.namespace_also("tenant")
    await here.start()
    await here.pool(tier, replicas=1, lifecycle={"reclaimPolicy": "Retain"})

    async def claim(name: str) -> Nextcloud:
        spec = {"poolSelector": {"matchLabels": {"tier": tier}}}
        await lab.client.create(Nextcloud.decode({"metadata": {"name": name, "namespace": tenant}, "spec": spec}))
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await lab.client.get(Nextcloud, name, tenant)
                if found.status.instance_ref is not None:
                    return found
                await asyncio.sleep(0.2)

    kept = (await claim("kept")).status.instance_ref
    await here.patch(NextcloudPool, tier, {"spec": {"lifecycle": {"reclaimPolicy": "Delete"}}}, "")
    await asyncio.sleep(1)
    deleted = (await claim("deleted")).status.instance_ref
    assert kept is not None
    assert deleted is not None
    # P15: the garbage collector deletes an object whose owner is in another namespace, and leaves an object without an owner.
    owner = await lab.client.get(Nextcloud, "kept", tenant)
    reference = {"apiVersion": "k8s.bnerd.com/v1alpha1", "kind": "Nextcloud", "name": "kept", "uid": owner.uid}
    canary = {"metadata": {"name": "canary", "namespace": lab.namespace, "ownerReferences": [reference]}}
    await lab.client.create(CONFIG_MAP.decode({"apiVersion": "v1", "kind": "ConfigMap", **canary}))
    async with asyncio.timeout(PATIENCE):
        while await _there(lab, "canary"):
            await asyncio.sleep(0.5)
    for ref in (kept, deleted):
        found = await lab.client.get(INSTANCE, ref.name, lab.namespace)
        assert (found.metadata.deleting, found.metadata.owner_references) == (False, ())
    # P13: with Delete the Nextcloud is removed after its instance.
    hold = {"metadata": {"finalizers": ["k8s.bnerd.com/instance", "example.com/hold"]}}
    await here.patch(INSTANCE, deleted.name, hold)
    await lab.client.delete(Nextcloud, "deleted", tenant)
    async with asyncio.timeout(PATIENCE):
        while not (await lab.client.get(INSTANCE, deleted.name, lab.namespace)).metadata.deleting:
            await asyncio.sleep(0.2)
    assert (await lab.client.get(Nextcloud, "deleted", tenant)).deleting
    await here.patch(INSTANCE, deleted.name, {"metadata": {"finalizers": None}})
    await gone(lab, NextcloudInstance, deleted.name, lab.namespace)
    await gone(lab, Nextcloud, "deleted", tenant)
    # P14: with Retain the instance stays, marked, and is not free again.
    await lab.client.delete(Nextcloud, "kept", tenant)
    await gone(lab, Nextcloud, "kept", tenant)
    stays: Object = await lab.client.get(INSTANCE, kept.name, lab.namespace)
    assert stays.metadata.annotation(PoolsAnnotation.RELEASED) == owner.uid
    assert stays.metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.TRUE
    await here.filled(tier)
    await lab.client.delete(NextcloudPool, tier)


async def _there(lab: Lab, name: str) -> bool:
    try:
        await lab.client.get(CONFIG_MAP, name, lab.namespace)
    except NotFound:
        return False
    return True


async def test_a_pool_is_scaled_by_kubectl_and_printed_with_its_columns(
    clouds: Clouds, control_plane: ControlPlane
) -> None:
    here, name = clouds, f"scaled-{clouds.lab.namespace}"[:60]
    await here.start()
    await here.pool(name, replicas=1)
    await here.filled(name)
    await control_plane.kubectl("scale", "ncp", name, "--replicas=2")
    await here.filled(name)
    [head, line] = (await control_plane.kubectl("get", "ncp", name)).strip().splitlines()
    assert head.split() == ["NAME", "DESIRED", "READY", "PROVISIONING", "ASSIGNED", "PROFILE", "AGE"]
    assert line.split()[:5] == [name, "2", "2", "0", "0"]
    # An autoscaler requests its target in its own namespace, where a cluster-wide kind is not served.
    where = f"namespaces/{here.lab.namespace}/nextcloudpools/{name}/scale"
    with pytest.raises(ControlPlaneError, match="NotFound"):
        await control_plane.kubectl("get", "--raw", f"/apis/k8s.bnerd.com/v1alpha1/{where}")
    await here.lab.client.delete(NextcloudPool, name)
