"""helm on both servers: a release with an object of each kind that needs no node, from its installation to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubectl_runner
import pytest
from kubectl_runner import Kubectl
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Pod, Secret, Service, ServiceAccount
from lightkube.resources.rbac_authorization_v1 import Role, RoleBinding
from lightkube.types import PatchType

if TYPE_CHECKING:
    from tests.e2e.apiserver.conftest import Place

pytestmark = pytest.mark.timeout(90, func_only=True)  # the build in the first test has its own limit

CHART = str(Path(kubectl_runner.__file__).with_name("chart"))
ROBOT = create_namespaced_resource("chart.example.com", "v1", "Robot", "robots")
OURS = (ConfigMap, Secret, Service, ServiceAccount, Deployment, Role, RoleBinding, ROBOT)
SERVED = [
    *("autoscaling/v1", "autoscaling/v1/HorizontalPodAutoscaler", "autoscaling/v2"),
    *("batch/v1/CronJob", "policy/v1"),
]
"""Of the versions and kinds that the chart asks `.Capabilities.APIVersions` for, those that Kubernetes serves."""
CHANGED = ("--set=color=blue,replicas=3,service=false,task=paint",)


@pytest.fixture
async def client(place: Place) -> AsyncIterator[Any]:
    found = KubeConfig.from_file(place.kubeconfig)
    async with AsyncClient(found, namespace=place.namespace, field_manager="somebody") as client:
        yield client
        # The CRD belongs to the whole cluster; helm documents that it leaves the CRD.
        with pytest.raises(ApiError, match="not found"):
            async with asyncio.timeout(60):
                await client.delete(CustomResourceDefinition, "robots.chart.example.com")
                while True:
                    await client.get(CustomResourceDefinition, "robots.chart.example.com")
                    await asyncio.sleep(0.05)


@pytest.fixture
def helm(helm_program: Path, place: Place, client: Any) -> Kubectl:
    return Kubectl(helm_program, place.kubeconfig, place.home, place.namespace)


async def read(client: Any, kind: Any) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = (await client.get(kind, "shop")).to_dict()
    except ApiError as error:
        if error.status.code != 404:
            raise
        return None
    return found


async def state(client: Any) -> dict[str, Any]:
    """The effect of the chart's values."""
    found = {kind.__name__: await read(client, kind) for kind in OURS}
    config, deployment, robot = (found[name] or {} for name in ("ConfigMap", "Deployment", "Robot"))
    return {
        "color": config["data"]["color"],
        "replicas": deployment["spec"]["replicas"],
        "env": deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"],
        "service": found["Service"] is not None,
        "robot": robot["spec"],
        "missing": sorted(name for name, one in found.items() if one is None and name != "Service"),
    }


def states(color: str, replicas: int, task: str, *, service: bool) -> dict[str, Any]:
    robot = {"task": task, "speed": 3}
    return {"color": color, "replicas": replicas, "env": color, "service": service, "robot": robot, "missing": []}


RED = states("red", 1, "weld", service=True)
BLUE = states("blue", 3, "paint", service=False)


async def revisions(helm: Kubectl) -> list[tuple[int, str]]:
    return [(one["revision"], one["status"]) for one in json.loads(await helm("history", "shop", "-o", "json"))]


@pytest.mark.parametrize("side", ["true", "false"])
async def test_a_release_is_installed_upgraded_rolled_back_and_removed(helm: Kubectl, client: Any, side: str) -> None:
    server_side = f"--server-side={side}"
    assert "STATUS: deployed" in await helm("install", "shop", CHART, server_side)
    assert await state(client) == RED
    made = await client.get(ConfigMap, "shop")
    assert made.metadata.labels == {"app": "shop", "app.kubernetes.io/managed-by": "Helm"}
    assert made.metadata.annotations == {
        "meta.helm.sh/release-name": "shop",
        "meta.helm.sh/release-namespace": helm.namespace,
    }
    [owner] = made.metadata.managedFields
    assert (owner.manager, owner.operation) == ("helm", "Apply" if side == "true" else "Update")
    assert (made.data["kubernetes"], made.data["before"]) == ("36", "none")
    assert made.data["served"].split() == SERVED
    deployment = await client.get(Deployment, "shop")

    assert "REVISION: 2" in await helm("upgrade", "shop", CHART, *CHANGED, server_side)
    assert await state(client) == BLUE
    upgraded = await client.get(Deployment, "shop")
    assert (upgraded.metadata.uid, upgraded.metadata.generation) == (deployment.metadata.uid, 2)
    assert ((await client.get(ConfigMap, "shop")).data or {})["before"] == "red"
    hook = await client.get(ConfigMap, "shop-hook")
    assert hook.data == {"revision": "2"}

    assert "Rollback was a success" in await helm("rollback", "shop", "1", server_side)
    assert await state(client) == RED
    assert await revisions(helm) == [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    stored = [one async for one in client.list(Secret, labels={"owner": "helm"})]
    assert {one.type for one in stored} == {"helm.sh/release.v1"}

    assert 'release "shop" uninstalled' in await helm("uninstall", "shop", "--wait", "--timeout=60s")
    assert [await read(client, kind) for kind in OURS] == [None] * len(OURS)
    assert [one async for one in client.list(Secret, labels={"owner": "helm"})] == []
    assert await client.get(CustomResourceDefinition, "robots.chart.example.com")


async def test_fields_that_another_manager_took_over_stop_an_upgrade_unless_forced(helm: Kubectl, client: Any) -> None:
    await helm("install", "shop", CHART)
    await client.patch(ConfigMap, "shop", {"data": {"color": "green"}}, patch_type=PatchType.MERGE)
    told = await helm.refused("upgrade", "shop", CHART, *CHANGED)
    assert 'conflict with "somebody" using v1: .data.color' in told
    assert await revisions(helm) == [(1, "deployed"), (2, "failed")]
    await helm("upgrade", "shop", CHART, *CHANGED, "--force-conflicts")
    assert await state(client) == BLUE


async def test_a_wrong_object_fails_a_release_that_the_next_one_mends(helm: Kubectl, client: Any) -> None:
    await helm("install", "shop", CHART)
    told = await helm.refused("upgrade", "shop", CHART, "--set=task=")
    assert "spec.task" in told
    await helm("upgrade", "shop", CHART, "--reset-values")
    assert await state(client) == RED
    assert 'release "shop" uninstalled' in await helm("uninstall", "shop", "--cascade=foreground")


async def test_a_dry_run_on_the_server_changes_nothing(helm: Kubectl, client: Any) -> None:
    await helm("install", "shop", CHART)
    told = await helm("upgrade", "shop", CHART, *CHANGED, "--dry-run=server")
    assert 'before: "red"' in told
    assert await state(client) == RED
    listed = json.loads(await helm("list", "-o", "json"))
    assert [(one["name"], one["revision"], one["status"]) for one in listed] == [("shop", "1", "deployed")]
    assert "kind: RoleBinding" in await helm("get", "manifest", "shop")
    told = json.loads(await helm("status", "shop", "-o", "json"))
    assert told["info"]["status"] == "deployed"


async def test_a_test_of_the_release_waits_until_its_pod_has_ended(helm: Kubectl, client: Any) -> None:
    await helm("install", "shop", CHART)
    testing = asyncio.create_task(helm("test", "shop", "--timeout=60s"))
    async for _, pod in client.watch(Pod):
        assert pod.metadata.name == "shop-test"
        break
    assert not testing.done()
    await client.patch(Pod.Status, "shop-test", {"status": {"phase": "Succeeded"}}, patch_type=PatchType.MERGE)
    assert "Phase:          Succeeded" in await testing
    with pytest.raises(ApiError, match="not found"):
        await client.get(Pod, "shop-test")
