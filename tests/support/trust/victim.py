"""The objects of administrators and of the victim before an attack: of every family, at rest, with data behind them."""

import asyncio
from typing import Any, Final

from machines_lab import settled
from pull_kit import TOKEN
from trust.stage import ATTACKER, HOME, INSTANCES, PRIVATE, VELERO, VICTIM, Stage

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Cluster, Operation
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudPool, NextcloudProfile
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge_testing.velero import KINDS as VELERO_KINDS

APP: Final[dict[str, Any]] = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
    "values": {"source": "inline", "inline": {"replicas": 1}},
}
ENGINES: Final = {
    "ops.vworkspace.io/backup": "velero,volsync",
    "ops.vworkspace.io/restore": "velero,volsync",
    "ops.vworkspace.io/runcommand": "job,helmHookJob",
    "ops.vworkspace.io/runbook": "job,workflow",
    "ops.vworkspace.io/upgrade": "helm",
    "ops.vworkspace.io/migration": "job,workflow,helmHookJob",
}
POOL_TIERS: Final = ("shared", "private")
BACKUP: Final = "nightly"
ADMIN_BUCKET: Final = "archive"
"""A bucket of the administrators' S3 account that no Nextcloud names."""
_KEYS: Final = {"AWS_ACCESS_KEY_ID": "platform", "AWS_SECRET_ACCESS_KEY": "hunter2"}


def operation(type_: str, engine: str, target: str = "shop", **spec: Any) -> dict[str, Any]:
    """Return the spec of an Operation."""
    ref = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": target}
    return {"targetRef": ref, "type": type_, "engine": engine, "parameters": {}, **spec}


async def furnish(stage: Stage) -> None:
    """Create everything, and wait until it is at rest."""
    client = stage.lab.client
    stage.s3.fill(ADMIN_BUCKET, 5, account="platform")
    for namespace in (INSTANCES, PRIVATE):
        await stage.secret(namespace, "s3-keys", data=_KEYS)
        await stage.secret(namespace, "smtp-of-victim", data={"password": "hunter2"})
    await stage.secret(VICTIM, "values", data={"values.yaml": "replicas: 1"})
    await stage.secret(HOME, "registration", data={"registrationToken": TOKEN})
    location = VELERO_KINDS["BackupStorageLocation"]
    await client.create(location.new("default", VELERO, spec={"provider": "aws"}))
    await client.create(NextcloudProfile.decode({"metadata": {"name": "base"}, "spec": {"defaults": {"replicas": 1}}}))
    for tier in POOL_TIERS:
        await client.create(NextcloudPool.decode({"metadata": {"name": tier}, "spec": _pool(tier)}))
    hard = {"requests.cpu": "8", "requests.memory": "16Gi"}
    selectors = [{"matchLabels": {"capsule.clastix.io/tenant": "shared"}}]
    await client.create(
        ResourcePool.decode({"metadata": {"name": "shared"}, "spec": {"quota": {"hard": hard}, "selectors": selectors}})
    )
    claim = {"pool": "shared", "claim": {"requests.cpu": "2"}}
    await client.create(ResourcePoolClaim.decode(_named("main", claim)))
    await client.create(WorkspaceClaim.decode({"metadata": {"name": "victim"}, "spec": {"id": "treasure"}}))
    plane = {
        "clusterId": "east",
        "controlPlaneEndpoint": "https://plane.example.com",
        "registrationTokenSecretRef": {"name": "registration"},
    }
    await client.create(Cluster.decode({"metadata": {"name": "east"}, "spec": plane}))
    app = {**APP, "release": {"name": "shop", "namespace": VICTIM}}
    await client.create(ApplicationInstance.decode(_named("shop", app, annotations=ENGINES)))
    await stage.farm.create_pool(replicas=2)
    await stage.farm.create_machine("own")
    await _until(stage, NextcloudPool, "shared", lambda one: one.status.ready == 2)
    await _until(stage, NextcloudPool, "private", lambda one: one.status.ready == 2)
    for name, tier in (("main", "shared"), ("own", "private")):
        spec = {"poolSelector": {"matchLabels": {"tier": tier}}}
        await client.create(Nextcloud.decode(_named(name, spec)))
    await _until(stage, ApplicationInstance, "shop", lambda one: _is_true(one, "Ready"))
    await client.create(Operation.decode(_named(BACKUP, operation("Backup", "velero"))))
    command = operation("RunCommand", "job", parameters={"image": "busybox", "command": ["true"]})
    await client.create(Operation.decode(_named("command", command)))
    for name in (BACKUP, "command"):
        await _until(stage, Operation, name, lambda one: one.status.phase == "Succeeded")
    for name in ("main", "own"):
        await _until(stage, Nextcloud, name, lambda one: one.status.phase == "Ready")
    for tier in POOL_TIERS:
        await _until(stage, NextcloudPool, tier, lambda one: one.status.ready == 2)
    await _until(stage, WorkspaceClaim, "victim", lambda one: one.status.phase == "Ready")
    await _until(stage, Cluster, "east", lambda one: one.status.phase == "Connected")
    await stage.farm.pool(test=settled)
    await stage.farm.machine("own", lambda one: one.status.ready is True)
    for bucket in stage.s3.buckets:
        stage.s3.fill(bucket, 3, account="platform")
    await asyncio.sleep(180)
    await stage.lab.settled(timeout=600)


def _pool(tier: str) -> dict[str, Any]:
    template: dict[str, Any] = {
        "database": {"type": "postgresql", "managed": True},
        "s3": {"enabled": True, "credentialsSecret": "s3-keys"},
    }
    serves = [VICTIM, ATTACKER] if tier == "shared" else [VICTIM]
    spec: dict[str, Any] = {
        "replicas": 2,
        "profileRef": {"name": "base"},
        "template": {"metadata": {"labels": {"tier": tier}}, "spec": template},
    }
    spec["allowedNamespaces"] = {"from": "Names", "names": serves}
    return spec if tier == "shared" else {**spec, "instanceNamespace": PRIVATE}


def _named(name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": VICTIM, **metadata}, "spec": spec}


def _is_true(found: Any, type_: str) -> bool:
    condition = found.find_condition(type_)
    return condition is not None and condition.is_true


async def _until(stage: Stage, model: type[Any], name: str, test: Any) -> None:
    namespaced = model not in (NextcloudPool, WorkspaceClaim, Cluster)
    found = None
    try:
        async with asyncio.timeout(3600):
            while True:
                found = await stage.lab.client.get(model, name, VICTIM if namespaced else "")
                if test(found):
                    return
                await asyncio.sleep(1)
    except TimeoutError:
        raise AssertionError(f"the stage is not at rest: {found.to_dict() if found else name}") from None
