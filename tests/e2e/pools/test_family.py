"""The whole family on a real control plane and a real S3 server: real finalizers, garbage collection and protection of volume claims."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, Final

import pytest
from patience import PATIENCE
from pools.family import Family
from pools.materials import FULL
from pools.servers import moto_server

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool
from konverge.errors import NotFound
from konverge.reconcilers.pools.buckets import S3Buckets
from konverge.reconcilers.pools.buckets.act import HttpS3Connections
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.kinds import INSTANCE, VOLUME_CLAIM
from konverge.reconcilers.shared.helm_release.kinds import HELM_REPOSITORY
from konverge_testing import Lab

pytestmark = pytest.mark.control_plane

SECONDS: Final = 120 * PATIENCE
KEPT: Final = {"Secret/*-admin", "Secret/*-redis", "Secret/*-db-app", "Cluster/*-db", "PersistentVolumeClaim/*-data"}


@pytest.fixture
async def family(lab: Lab) -> AsyncIterator[Family]:
    """The kit with moto for the buckets; at the end nothing of it blocks other tests of the same server."""
    connections = HttpS3Connections()
    here = Family(lab)
    here.below.databases.seconds = 0.5
    here.below.settings = MaterialSettings(retry=1)
    here.below.buckets = S3Buckets(connections, Random(3))
    yield here
    await lab.stop()
    await connections.close()
    for what in (Nextcloud, NextcloudInstance, NextcloudPool):
        for found in (await lab.client.list(what)).items:
            try:
                free = {"metadata": {"finalizers": None}}
                await lab.client.patch(what, found.name, found.namespace, patch=free, style="merge")
                await lab.client.delete(what, found.name, found.namespace)
            except NotFound:
                continue


async def until(test: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await test():
            await asyncio.sleep(0.2)


async def test_p13_p14_p15_deletion_is_ordered_and_garbage_collector_spares_retained_data(family: Family) -> None:
    here, lab = family, family.lab
    tier = lab.namespace[:40]
    with moto_server() as server:
        await here.start()
        keys = {"enabled": True, "credentialsSecret": "s3-keys", "endpoint": server.endpoint}
        spec: dict[str, Any] = {**FULL, "s3": keys}
        await here.pool(tier, template=spec, replicas=1, lifecycle={"reclaimPolicy": "Retain"})
        await here.claim("kept", tier=tier)
        kept = await here.ready("kept")
        await here.patch(NextcloudPool, tier, {"spec": {"lifecycle": {"reclaimPolicy": "Delete"}}}, "")
        await here.pool_until(tier, lambda pool: pool.status.observed_generation == pool.generation, SECONDS)
        await here.claim("deleted", tier=tier)
        deleted = await here.ready("deleted")
        buckets = {name: await _bucket(here, name) for name in (kept, deleted)}
        for name, bucket in buckets.items():
            server.put(bucket, "file", versions=3)
            await here.below.volume(f"{name}-data", app_kubernetes_io__instance=name)

        # P13: the Nextcloud is removed after its instance, and the instance after each of its parts, in order.
        await _hold(here, f"{deleted}-data", ["example.com/hold"])
        await lab.client.delete(Nextcloud, "deleted", lab.namespace)

        async def waits_for_volumes() -> bool:
            found = await lab.client.get(NextcloudInstance, deleted, lab.namespace)
            ready = found.find_condition("Ready")
            return ready is not None and ready.reason == "DeletingVolumes"

        await until(waits_for_volumes)
        left = await here.parts(deleted)
        assert left - {"Secret/*-db-app"} == {"PersistentVolumeClaim/*-data"}, "the garbage collector takes *-db-app"
        assert buckets[deleted] not in server.buckets()
        assert (await lab.client.get(Nextcloud, "deleted", lab.namespace)).deleting
        await _hold(here, f"{deleted}-data", None)
        await lab.until_gone(Nextcloud, "deleted", timeout=SECONDS)
        assert await lab.find(INSTANCE, deleted) is None

        async def nothing_is_left() -> bool:
            return await here.parts(deleted) == set()

        await until(nothing_is_left)

        # P14: with Retain everything but the release stays, and the instance is not free again.
        password = await here.password(kept)
        await lab.client.delete(Nextcloud, "kept", lab.namespace)
        await lab.until_gone(Nextcloud, "kept", timeout=SECONDS)

        def is_released(one: NextcloudInstance) -> bool:
            return one.status.phase == "Released" and "are kept" in one.condition("Ready").message

        await lab.until(NextcloudInstance, kept, is_released, timeout=SECONDS)
        assert await here.parts(kept) == KEPT
        await here.filled(tier)

        # P15: nor does the garbage collector delete it after the instance's end: it deletes the source of the chart, which has an owner.
        assert await lab.find(HELM_REPOSITORY, kept) is not None
        await lab.client.delete(INSTANCE, kept, lab.namespace)
        await lab.until_gone(INSTANCE, kept, timeout=SECONDS)
        await lab.until_gone(HELM_REPOSITORY, kept, timeout=SECONDS)
        assert await here.parts(kept) == KEPT
        assert await here.password(kept) == password
        assert server.versions(buckets[kept]) == 3
        await lab.client.delete(NextcloudPool, tier)


async def _bucket(here: Family, instance: str) -> str:
    found = await here.lab.get(INSTANCE, instance)
    return str(found.status["appliedS3Config"]["bucket"])


async def _hold(here: Family, volume: str, finalizers: list[str] | None) -> None:
    await here.patch(VOLUME_CLAIM, volume, {"metadata": {"finalizers": finalizers}})
