"""Claims and volumes in memory go when nothing uses them any more, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from konverge.client import Client
from konverge.errors import NotFound
from konverge.kinds import kind
from konverge.testing.apiserver import ApiServer
from konverge.testing.apiserver.controllers.protection import uses_claim

CLAIM = kind("v1", "PersistentVolumeClaim")
VOLUME = kind("v1", "PersistentVolume", namespaced=False)
POD = kind("v1", "Pod")
STORAGE: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CONTAINER = {"name": "c", "image": "registry.example.com/c:1"}
USES = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    async with (
        ApiServer(random=Random(1)) as server,
        Client(server.config(), name="somebody", random=Random(2)) as opened,
    ):
        yield opened


async def gone(client: Client, what: Any, name: str, namespace: str = "") -> bool:
    """Tell whether an object is gone a moment later."""
    await asyncio.sleep(1)
    try:
        await client.get(what, name, namespace)
    except NotFound:
        return True
    return False


async def test_an_unused_claim_is_deleted_at_once(client: Client) -> None:
    made = await client.create(CLAIM.new("data", "default", spec=STORAGE))
    assert made.metadata.finalizers == ("kubernetes.io/pvc-protection",)
    await client.delete(CLAIM, "data", "default")
    assert await gone(client, CLAIM, "data", "default")


async def test_a_claim_stays_while_a_pod_on_a_node_names_it(client: Client) -> None:
    await client.create(CLAIM.new("data", "default", spec=STORAGE))
    spec = {"nodeName": "one", "terminationGracePeriodSeconds": 0, "containers": [CONTAINER], "volumes": [USES]}
    await client.create(POD.new("user", "default", spec=spec))
    await client.delete(CLAIM, "data", "default")
    assert not await gone(client, CLAIM, "data", "default")
    await client.delete(POD, "user", "default")
    assert await gone(client, CLAIM, "data", "default")


async def test_a_claim_does_not_wait_for_a_pod_without_a_node(client: Client) -> None:
    await client.create(CLAIM.new("data", "default", spec=STORAGE))
    await client.create(POD.new("user", "default", spec={"containers": [CONTAINER], "volumes": [USES]}))
    await client.delete(CLAIM, "data", "default")
    assert await gone(client, CLAIM, "data", "default")


async def test_a_volume_stays_while_it_is_bound(client: Client) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    await client.create(VOLUME.new("disk", spec=spec))
    await client.patch(VOLUME, "disk", patch={"status": {"phase": "Bound"}}, style="merge", subresource="status")
    await client.delete(VOLUME, "disk")
    assert not await gone(client, VOLUME, "disk")
    await client.patch(VOLUME, "disk", patch={"status": {"phase": "Released"}}, style="merge", subresource="status")
    assert await gone(client, VOLUME, "disk")


def pod(volume: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": "1", **metadata}, "spec": {"nodeName": "one", "volumes": [volume]}}


OWNED = {"ownerReferences": [{"uid": "1", "controller": True}]}
ENDING = {"deletionTimestamp": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("user", "claim", "used"),
    [
        (pod({"name": "v", "persistentVolumeClaim": {"claimName": "data"}}), {"name": "data"}, True),
        (pod({"name": "v", "persistentVolumeClaim": {"claimName": "other"}}), {"name": "data"}, False),
        (pod({"name": "v", "ephemeral": {}}), {"name": "p-v", **OWNED}, True),
        (pod({"name": "v", "ephemeral": {}}), {"name": "p-v"}, False),
        (pod({"name": "v", "ephemeral": {}}, **ENDING, deletionGracePeriodSeconds=0), {"name": "p-v", **OWNED}, False),
        (pod({"name": "v", "ephemeral": {}}, **ENDING, deletionGracePeriodSeconds=30), {"name": "p-v", **OWNED}, True),
    ],
)
def test_a_pod_uses_the_claims_of_its_volumes(user: dict[str, Any], claim: dict[str, Any], used: bool) -> None:
    assert uses_claim(user, {"metadata": claim}) is used
