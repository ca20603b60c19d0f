"""The real core controller of Cluster API beside the operator, as `clusterctl init` installs both: with their accounts, rights and webhooks.

The servers are the double, as a process. The test plays the kubelets.
"""

import asyncio
from pathlib import Path

import pytest
from capi_management import introduce, management_cluster
from capi_nodes import join_node, phase, report_node, shows
from nstance_server import NstanceProcess

from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool
from konverge.errors import KonvergeError
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE, MACHINE_POOL, NODE
from konverge_testing import Lab

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(400)]

NAME = "acme--blue"


async def nodes(lab: Lab) -> set[str]:
    return {one.name for one in (await lab.client.list(NODE)).items}


async def until_nodes(lab: Lab, *names: str) -> None:
    async with asyncio.timeout(90):
        while await nodes(lab) != set(names):
            await asyncio.sleep(0.2)


async def test_core_adopts_cluster_pool_and_machine_and_operator_cleans_up_leftovers(tmp_path: Path) -> None:
    async with (
        NstanceProcess.run("a", "b") as servers,
        management_cluster(tmp_path / "cluster") as (lab, management),
        management.operator.running_for(),
    ):
        await introduce(lab, servers)
        await play(lab, servers)


async def play(lab: Lab, servers: NstanceProcess) -> None:
    """Scale a pool up and down, give the Cluster a machine, and delete both."""
    for condition in ("InfrastructureReady", "ControlPlaneInitialized", "RemoteConnectionProbe", "Available"):
        await lab.until(CLUSTER, NAME, shows(condition), timeout=120)
    await lab.until(MACHINE_POOL, "workers", lambda one: one.spec["replicas"] == 0, timeout=60)
    with pytest.raises(KonvergeError, match=r"admission webhook .* field is immutable"):  # the core's webhooks run
        await lab.patch(MACHINE_POOL, "workers", {"spec": {"clusterName": "another"}})
    await lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 3}})
    pool = await lab.until(NstanceMachinePool, "workers", lambda one: len(one.spec.provider_id_list) == 3, timeout=60)
    names = {f"n-{one}": f"aws:///z/{one}" for one in pool.spec.provider_id_list}
    for name, provider_id in names.items():
        await join_node(lab, name, provider_id)
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
    await join_node(lab, "n-m1", f"aws:///z/{machine.status.provider_id}")
    await lab.until(MACHINE, "m1", phase("Running"), timeout=60)
    await lab.until(MACHINE, "m1", shows("Ready"), timeout=60)
    await lab.delete(MACHINE, "m1")
    await lab.until_gone(MACHINE, "m1", timeout=90)
    await until_nodes(lab, *left)
    assert set((await servers.instances()).values()) <= {"deleting", "deleted"}

    await lab.delete(MACHINE_POOL, "workers")
    await lab.until_gone(MACHINE_POOL, "workers", timeout=90)
    for name in left:
        await report_node(lab, name, [])  # its kubelet has ended, and the controller of Nodes does not run here
    await until_nodes(lab)
