"""The real core controller of Cluster API beside the operator, which runs by what clusterctl makes of our components: their account and rights.
The core has its own role and the one that the components add to it.

The servers are the double, as a process. The test plays the kubelets.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from capi_core_runner import core_manifests, core_running
from clusterctl_runner import Clusterctl, container_of
from go_programs import CAPI_CORE, CLUSTERCTL, go_program
from nstance_server import NstanceProcess
from operators import Operator
from patience import PATIENCE

from konverge.client import Client, ClientConfig
from konverge.clock import rfc3339, wall_clock
from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool
from konverge.errors import AlreadyExists
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import CLUSTER, CONFIG_MAP, MACHINE, MACHINE_POOL, NODE, SECRET
from konverge.testing import ControlPlane, ControlPlaneConfig, Lab, install_crds
from konverge.testing.failures import BinariesMissing

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(400)]

NAMESPACE = "nstance-system"
NAME = "acme--blue"
QUICK = {"POLL": "2", "RETIRE_AFTER": "2", "INSTANCE_START_POLL": "0.3", "DRAIN_POLL": "0.5"}


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    try:
        return {name: go_program(name, os.environ, tell=None) for name in (CAPI_CORE, CLUSTERCTL)}
    except BinariesMissing:
        pytest.skip("no core controller in the cache: python tools/go_programs.py cluster-api")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster of its own: the core reconciles the Clusters of all namespaces."""
    with ControlPlane(ControlPlaneConfig(controllers=True)) as running:
        yield running


@pytest_asyncio.fixture
async def lab(plane: ControlPlane) -> AsyncIterator[Lab]:
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    async with Client(config, name="test") as client, Lab(client, config, NAMESPACE, patience=PATIENCE) as made:
        yield made


@pytest_asyncio.fixture
async def servers(
    lab: Lab, plane: ControlPlane, programs: dict[str, Path], tmp_path: Path
) -> AsyncIterator[NstanceProcess]:
    """Run servers, operator and core, as `clusterctl init` leaves them."""
    definitions, role = core_manifests(programs[CAPI_CORE])
    await install_crds(lab.client, definitions)
    clusterctl = Clusterctl(programs[CLUSTERCTL], tmp_path)
    components = await clusterctl.generate(NSTANCE_CLUSTER_ID="acme", NSTANCE_TENANT="blue")
    await plane.kubectl("apply", "--server-side", "-f", "-", stdin=components)
    await plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(role))
    for name in (role["metadata"]["name"], "nstance-cluster-api"):  # the second is aggregated to the first by its label
        await plane.kubectl("create", "clusterrolebinding", f"core-{name}", "--clusterrole", name, "--user", "core")
    mount = tmp_path / "serviceaccount"
    container = container_of(components)
    await plane.service_account_files(mount, namespace=NAMESPACE, name="nstance")
    environment = {
        **plane.environment,
        **{one["name"]: one.get("value", NAMESPACE if "valueFrom" in one else "") for one in container["env"]},
        **{f"KONVERGE_MACHINES__{name}": value for name, value in QUICK.items()},
        "KONVERGE_SERVICE_ACCOUNT": str(mount),
        "KONVERGE_METRICS": "127.0.0.1:0",
        "KONVERGE_HEALTH": "127.0.0.1:0",
    }
    operator = Operator(container["args"][1:], tmp_path / "operator.log", environment=environment)
    async with NstanceProcess.run("a", "b") as running:
        await introduce(lab, running)
        async with (
            core_running(programs[CAPI_CORE], plane.user_kubeconfig("core"), tmp_path / "core") as log,
            operator.running_for(),
        ):
            try:
                yield running
            except BaseException as error:
                error.add_note(f"the core:\n{log.read_text()[-6000:]}\nthe operator:\n{operator.story()}")
                raise
            finally:
                print(f"the core:\n{log.read_text()[-6000:]}\nthe operator:\n{operator.story()}")


async def introduce(lab: Lab, servers: NstanceProcess) -> None:
    """Create what an administrator gives the operator."""
    nonce = base64.b64encode(servers.facts["nonce"].encode()).decode()
    document = {"cluster_id": "acme", "tenant": "blue", "shards": servers.facts["addresses"]}
    await lab.create(CONFIG_MAP.new("nstance-cluster-ca", data={"ca.crt": servers.facts["ca"]}))
    await lab.create(SECRET.new("nstance-operator-nonce", data={"nonce.jwt": nonce}))
    await lab.create(CONFIG_MAP.new("nstance-shards", data={"config.yaml": json.dumps(document)}))


def shows(type_: str) -> Callable[[Object], bool]:
    def test(found: Object) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and condition.is_true

    return test


def phase(wanted: str) -> Callable[[Object], bool]:
    return lambda found: found.get("status", "phase", default="") == wanted


async def join(lab: Lab, name: str, provider_id: str) -> None:
    """Create a Node that is ready, as its kubelet does."""
    try:
        await lab.client.create(NODE.new(name, spec={"providerID": provider_id}))
    except AlreadyExists:
        return
    now = rfc3339(wall_clock())
    kinds = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    common = {"reason": "Kubelet", "message": "it says so", "lastHeartbeatTime": now, "lastTransitionTime": now}
    await report(lab, name, [{"type": type_, "status": status, **common} for type_, status in kinds.items()])


async def report(lab: Lab, name: str, conditions: list[dict[str, Any]]) -> None:
    await lab.client.patch(
        NODE, name, patch={"status": {"conditions": conditions}}, style="merge", subresource="status"
    )


async def nodes(lab: Lab) -> set[str]:
    return {one.name for one in (await lab.client.list(NODE)).items}


async def until_nodes(lab: Lab, *names: str) -> None:
    async with asyncio.timeout(90):
        while await nodes(lab) != set(names):
            await asyncio.sleep(0.2)


async def test_the_core_takes_cluster_pool_and_machine_and_the_operator_removes_what_it_leaves(
    lab: Lab, servers: NstanceProcess
) -> None:
    for condition in ("InfrastructureReady", "ControlPlaneInitialized", "RemoteConnectionProbe", "Available"):
        await lab.until(CLUSTER, NAME, shows(condition), timeout=120)
    await lab.until(MACHINE_POOL, "workers", lambda one: one.spec["replicas"] == 0, timeout=60)
    await lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 3}})
    pool = await lab.until(NstanceMachinePool, "workers", lambda one: len(one.spec.provider_id_list) == 3, timeout=60)
    names = {f"n-{one}": f"aws:///z/{one}" for one in pool.spec.provider_id_list}
    for name, provider_id in names.items():
        await join(lab, name, provider_id)
    await lab.until(MACHINE_POOL, "workers", lambda one: len(one.status.get("nodeRefs") or ()) == 3, timeout=90)
    await lab.until(MACHINE_POOL, "workers", phase("Running"), timeout=90)
    await lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 2}})
    pool = await lab.until(NstanceMachinePool, "workers", lambda one: len(one.spec.provider_id_list) == 2, timeout=90)
    left = [name for name, provider_id in names.items() if provider_id in pool.spec.provider_id_list]
    await until_nodes(lab, *left)

    await lab.create(NstanceMachine.decode({"metadata": {"name": "m1"}, "spec": {"groupRef": "workers"}}))
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NstanceMachine", "name": "m1"}
    spec = {"clusterName": NAME, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}
    await lab.create(MACHINE.new("m1", spec=spec))
    machine = await lab.until(NstanceMachine, "m1", lambda one: one.status.ready is True, timeout=60)
    await join(lab, "n-m1", f"aws:///z/{machine.status.provider_id}")
    await lab.until(MACHINE, "m1", phase("Running"), timeout=60)
    await lab.until(MACHINE, "m1", shows("Ready"), timeout=60)
    await lab.delete(MACHINE, "m1")
    await lab.until_gone(MACHINE, "m1", timeout=90)
    await until_nodes(lab, *left)
    assert set((await servers.instances()).values()) <= {"deleting", "deleted"}

    await lab.delete(MACHINE_POOL, "workers")
    await lab.until_gone(MACHINE_POOL, "workers", timeout=90)
    for name in left:
        await report(lab, name, [])  # its kubelet is gone, and the controller of Nodes does not run here
    await until_nodes(lab)
