"""charts/konverge on both servers: installed, upgraded, rolled back, tested and removed, with the objects that stay after an
uninstallation.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from helm_template import CHART, Template
from kubectl_runner import Kubectl
from operators import Operator

from konverge.charts.values import with_value
from konverge.client import Client, ClientConfig
from konverge.errors import NotFound
from konverge.kinds import Kind, kind
from konverge_testing import install_crds
from konverge_testing.flux import flux_crds

if TYPE_CHECKING:
    from tests.e2e.apiserver.conftest import Place

pytestmark = pytest.mark.timeout(90, func_only=True)  # the build in the first test has its own limit

RELEASE = "chart"
NAME = "chart-konverge"
DEPLOYMENT = kind("apps/v1", "Deployment")
POD = kind("v1", "Pod")
SECRET = kind("v1", "Secret")
ROLE = kind("rbac.authorization.k8s.io/v1", "ClusterRole", namespaced=False)
DEFINITION = kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False, plural="customresourcedefinitions"
)
WEBHOOKS = kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", namespaced=False)
APPS = "applicationinstances.apps.vworkspace.io"
POOLS = "resourcepools.capsule.clastix.io"
MORE = (
    "--set=replicas=3,webhooks.enabled=true,networkPolicy.enabled=true,dashboards.enabled=true"
    ",userRoles.aggregateToEdit=true,priorityClassName=system-cluster-critical,podDisruptionBudget.minAvailable=1"
    ",hostNetwork=true,dnsConfig.searches[0]=a.example,hostAliases[0].ip=10.0.0.1,hostAliases[0].hostnames[0]=a"
    ",runtimeClassName=gvisor,automountServiceAccountToken=false,revisionHistoryLimit=3,strategy.type=Recreate"
    ",initContainers[0].name=a,initContainers[0].image=a,extraContainers[0].name=b,extraContainers[0].image=b"
)
"""Switches whose kinds every API server has."""
TAKE = "--take-ownership"
"""Another test may have left definitions on the control plane, which all tests of a session share: helm takes them over."""


IN_MEMORY = pytest.mark.parametrize("place", ["memory"], indirect=True)
"""For tests whose requests the conformance cases send to both servers."""


@pytest.fixture
def helm(helm_program: Path, place: Place) -> Kubectl:
    return Kubectl(helm_program, place.kubeconfig, place.home, place.namespace)


@pytest.fixture
async def client(place: Place) -> Any:
    config = await ClientConfig.from_kubeconfig(place.kubeconfig)
    async with Client(config, name="test") as client:
        yield client


async def find(client: Client, what: Kind[Any], name: str, namespace: str = "") -> Any:
    try:
        return await client.get(what, name, namespace)
    except NotFound:
        return None


async def test_helm_release_lifecycle_keeps_the_custom_resource_definitions(
    helm: Kubectl, client: Client, tmp_path: Path
) -> None:
    said = await helm("install", RELEASE, str(CHART), TAKE)
    assert "STATUS: deployed" in said
    assert f"rollout status deployment/{NAME}" in said
    assert "settings.apps.service_account is not set" in said
    before = await client.get(DEPLOYMENT, NAME, namespace=helm.namespace)
    assert {APPS, POOLS} <= {one.metadata.name for one in (await client.list(DEFINITION)).items}
    pool = await client.get(DEFINITION, POOLS)

    newer = chart_of_version(tmp_path, "0.2.0")
    assert "REVISION: 2" in await helm("upgrade", RELEASE, str(newer), MORE, "--set=families.quota.enabled=false", TAKE)
    upgraded = await client.get(DEPLOYMENT, NAME, namespace=helm.namespace)
    assert (upgraded.metadata.uid, upgraded.metadata.generation) == (before.metadata.uid, 2)
    assert (await client.get(DEFINITION, POOLS)).metadata.uid == pool.metadata.uid, (
        "a family that is switched off keeps its objects"
    )
    assert "capsule.clastix.io" not in str((await client.get(ROLE, NAME)).get("rules"))
    assert (await client.get(DEFINITION, APPS)).metadata.label("helm.sh/chart") == "konverge-0.2.0"

    refused = await helm.refused("upgrade", RELEASE, str(CHART), "--set=podSecurityContext.runAsNobody=true")
    assert "runAsNobody" in refused, "fields are validated strictly"
    assert "Rollback was a success" in await helm("rollback", RELEASE, "1")
    assert "capsule.clastix.io" in str((await client.get(ROLE, NAME)).get("rules"))
    listed = json.loads(await helm("history", RELEASE, "-o", "json"))
    assert [(one["revision"], one["status"]) for one in listed] == [
        (1, "superseded"),
        (2, "superseded"),
        (3, "failed"),
        (4, "deployed"),
    ]

    assert f'release "{RELEASE}" uninstalled' in await helm("uninstall", RELEASE, "--wait", "--timeout=60s")
    assert await find(client, DEPLOYMENT, NAME, helm.namespace) is None
    assert await find(client, ROLE, NAME) is None
    assert (await client.get(DEFINITION, POOLS)).metadata.uid == pool.metadata.uid, "and with it every pool"
    assert "STATUS: deployed" in await helm("install", RELEASE, str(CHART))
    await helm("uninstall", RELEASE)


def chart_of_version(folder: Path, version: str) -> Path:
    """Return a copy of the chart with another version."""
    for path in CHART.rglob("*"):
        if path.is_file():
            copy = folder / "newer" / path.relative_to(CHART)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    described = folder / "newer" / "Chart.yaml"
    described.write_text(with_value(described.read_text(), "version", version))
    return folder / "newer"


@IN_MEMORY
async def test_upgrade_keeps_data_that_the_daemon_wrote_to_secret_and_webhooks(helm: Kubectl, client: Client) -> None:
    served = "--set=webhooks.enabled=true"
    await helm("install", RELEASE, str(CHART), served, TAKE)
    secret = f"{NAME}-webhooks"
    [entry, *_] = (await client.get(WEBHOOKS, NAME)).get("webhooks")
    trusted = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    bundle = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": trusted}]
    await client.patch(SECRET, secret, namespace=helm.namespace, patch={"data": {"ca.crt": "YQ=="}}, style="merge")
    await client.patch(WEBHOOKS, NAME, patch=bundle, style="json")
    for side in ("true", "false"):
        await helm("upgrade", RELEASE, str(CHART), served, f"--server-side={side}", "--set=podLabels.side=s" + side)
        kept = await client.get(SECRET, secret, namespace=helm.namespace)
        assert kept.get("data") == {"ca.crt": "YQ=="}
        [first, *_] = (await client.get(WEBHOOKS, NAME)).get("webhooks")
        assert (first["name"], first["clientConfig"]["caBundle"]) == (entry["name"], trusted)
    await helm("uninstall", RELEASE)


@IN_MEMORY
async def test_the_test_of_a_release_asks_the_daemon_whether_it_is_ready(
    helm: Kubectl, client: Client, place: Place, template: Template, tmp_path: Path
) -> None:
    await helm("install", RELEASE, str(CHART), TAKE)
    testing = asyncio.create_task(helm("test", RELEASE, "--timeout=60s"))
    async with asyncio.timeout(60):
        while (pod := await find(client, POD, f"{NAME}-test", helm.namespace)) is None:
            await asyncio.sleep(0.05)
    assert not testing.done()
    [container] = pod.get("spec", "containers")
    program, url = container["command"][2], container["command"][3]
    assert url == f"http://{NAME}.{helm.namespace}:8081/readyz?verbose"
    await client.patch(
        POD,
        pod.metadata.name,
        namespace=helm.namespace,
        patch={"status": {"phase": "Succeeded"}},
        style="merge",
        subresource="status",
    )
    assert "Phase:          Succeeded" in await testing
    await install_crds(client, flux_crds())
    environment = {
        **template().environment,
        "KONVERGE_KUBECONFIG": str(place.kubeconfig),
        "KONVERGE_ELECTION__NAMESPACE": helm.namespace,
        "KONVERGE_METRICS": "127.0.0.1:0",
        "KONVERGE_HEALTH": "127.0.0.1:0",
        "KONVERGE_DEBUG": "127.0.0.1:0",
    }
    daemon = Operator((), tmp_path / "log", environment=environment)
    await daemon.start()
    try:
        await daemon.ready()
        serving = daemon.said("serving")
        assert serving is not None
        asked = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, f"{serving['health']}/readyz?verbose"), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await asked.communicate()
        assert (asked.returncode, "controller/applicationinstance" in out.decode()) == (0, True), out
    finally:
        assert await daemon.stop() == 0
    await helm("uninstall", RELEASE)


@IN_MEMORY
async def test_without_keeping_the_definitions_go_with_the_release(helm: Kubectl, client: Client) -> None:
    assert "crds.keep is false" in await helm("install", RELEASE, str(CHART), "--set=crds.keep=false")
    await helm("uninstall", RELEASE, "--wait", "--timeout=60s")
    assert await find(client, DEFINITION, POOLS) is None
