"""CloudNativePG's recordings through the whole reconciler: each recorded status is written to the Cluster of an instance, in its order."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest
from pools.materials import NAME, Materials
from recordings import lines

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.objects import Object
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.kinds import SECRET
from konverge_testing import Lab

CLUSTER: Final = f"{NAME}-db"
HEALTHY: Final = {
    "phase": "Cluster in healthy state",
    "instances": 1,
    "readyInstances": 1,
    "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterIsReady", "message": "Cluster is Ready"}],
}


def events(scenario: str) -> Iterator[tuple[float, str, Object]]:
    """Yield time, type and object of the recorded Cluster and of its application Secret."""
    for line in lines("cnpg", scenario):
        if line.is_of("Secret/db-app") or line.object.get("kind") == "Cluster":
            yield line.at, line.type, Object(line.object)


async def write_status(here: Materials, status: dict[str, Any]) -> None:
    found = await here.lab.get(CNPG_CLUSTER, CLUSTER)
    replaced = {**dict.fromkeys(found.get("status", default={}) or {}), **status}
    await here.lab.patch(CNPG_CLUSTER, CLUSTER, {"status": replaced}, subresource="status")


@pytest.mark.parametrize("scenario", ["created", "initdb-done", "own-secret"])
async def test_only_a_healthy_database_status_lets_an_instance_proceed(lab: Lab, scenario: str) -> None:
    here = Materials(lab)
    await here.start(databases=False)
    await here.create(redis=None, s3=None, persistence=None)
    await here.reason("DatabaseReady", "DatabaseProvisioning")
    seen: set[tuple[str, str]] = set()
    messages: list[str] = []
    before = 0.0
    for at, type_, found in events(scenario):
        await asyncio.sleep(max(0.0, at - before))
        before = at
        if type_ == "DELETED":
            break
        if found.kind_name == "Secret":
            if type_ == "ADDED":
                await here.secret(f"{CLUSTER}-app", {"username": "nextcloud"})
            continue
        await write_status(here, found.get("status", default={}) or {})
        await asyncio.sleep(0.1)
        instance = await lab.get(NextcloudInstance, NAME)
        seen.add((str(instance.status.phase), instance.condition("DatabaseReady").reason))
        messages.append(instance.condition("Ready").message)
        assert f"HelmRelease/{NAME}" not in await here.left()
    assert seen == {("Provisioning", "DatabaseProvisioning")}
    assert any("Setting up primary (Creating primary instance db-1)" in one for one in messages)
    assert (f"Secret/{CLUSTER}-app" in await here.left()) is (scenario != "own-secret")

    # The recorded cluster has no kubelet, so it never becomes healthy: the time limit reports it, and a healthy status is still accepted.
    instance = await here.reason("DatabaseReady", "DatabaseStalled")
    assert instance.status.phase == "Failed"
    await write_status(here, HEALTHY)
    if scenario == "own-secret":
        instance = await here.reason("DatabaseReady", "DatabaseSecretMissing")
        assert f"{CLUSTER}-app does not exist" in instance.condition("Ready").message
        await here.secret(f"{CLUSTER}-app", {"username": "nextcloud"})
    instance = await here.phase("Ready")
    assert instance.condition("DatabaseReady").reason == "DatabaseReady"


@pytest.mark.parametrize(
    ("status", "annotations", "reason", "phase"),
    [
        ({"phase": "Cluster is unrecoverable and needs manual intervention"}, {}, "DatabaseFailed", "Degraded"),
        ({"phase": "Failing over"}, {}, "DatabaseProvisioning", "Degraded"),
        ({}, {"cnpg.io/hibernation": "on"}, "DatabasePaused", "Degraded"),
        ({}, {"cnpg.io/reconciliationLoop": "disabled"}, "DatabasePaused", "Degraded"),
    ],
)
async def test_running_instance_is_degraded_while_its_database_is_unhealthy(
    lab: Lab, status: dict[str, Any], annotations: dict[str, str], reason: str, phase: str
) -> None:
    here = Materials(lab)
    await here.start()
    await here.create(redis=None, s3=None, persistence=None)
    await here.phase("Ready")
    await asyncio.sleep(1000)  # beyond the time limit of a new database, which starts again now
    release = (await here.left()) & {f"HelmRelease/{NAME}"}
    failing = {"type": "Ready", "status": "False", "reason": "ClusterIsNotReady", "message": ""}
    await lab.patch(CNPG_CLUSTER, CLUSTER, {"metadata": {"annotations": annotations}})
    await write_status(here, {**HEALTHY, "readyInstances": 0, "conditions": [failing], **status})
    instance = await here.reason("DatabaseReady", reason)
    assert (instance.status.phase, instance.condition("Ready").status) == (phase, "False")
    assert release <= await here.left(), "the release stays while the database is away"
    await lab.patch(CNPG_CLUSTER, CLUSTER, {"metadata": {"annotations": dict.fromkeys(annotations)}})
    await write_status(here, HEALTHY)
    await here.phase("Ready")
    assert await lab.find(SECRET, f"{CLUSTER}-app") is not None
