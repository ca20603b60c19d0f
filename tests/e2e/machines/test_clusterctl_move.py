"""`clusterctl move` between two real control planes with Cluster API and our provider: the servers do not notice it."""

import base64
from pathlib import Path

import pytest
from capi_management import NAMESPACE, introduce, management_cluster
from capi_nodes import join_node, phase, shows
from nstance_server import NstanceProcess

from konverge.crds.machines_v1beta1 import NstanceCluster, NstanceMachine, NstanceMachinePool, NstanceShardGroup
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE, MACHINE_POOL, SECRET

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(400)]

NAME = "acme--blue"
IDENTITY = ("nstance-operator-key", "nstance-operator-cert")


def text_of(kubeconfig: Object) -> str:
    return base64.b64decode(kubeconfig.get("data", "value")).decode()


async def test_cluster_moved_by_clusterctl_keeps_its_instances_and_can_be_scaled(tmp_path: Path) -> None:
    async with (
        NstanceProcess.run("a", "b") as servers,
        management_cluster(tmp_path / "old") as (old, before),
        management_cluster(tmp_path / "new", ADOPT_INSTANCES="true") as (new, after),
    ):
        await introduce(old, servers)
        async with before.operator.running_for():
            await old.until(MACHINE_POOL, "workers", lambda one: one.spec["replicas"] == 0, timeout=60)
            await old.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 3}})
            pool = await old.until(NstanceMachinePool, "workers", lambda one: len(one.spec.provider_id_list) == 3)
            await old.create(NstanceMachine.decode({"metadata": {"name": "m1"}, "spec": {"groupRef": "workers"}}))
            reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NstanceMachine", "name": "m1"}
            spec = {"clusterName": NAME, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}
            await old.create(MACHINE.new("m1", spec=spec))
            machine = await old.until(NstanceMachine, "m1", lambda one: one.status.ready is True, timeout=60)
            for lab in (old, new):  # the cluster is recreated, and its kubelets join it
                await join_node(lab, "n-m1", f"aws:///z/{machine.status.provider_id}")
            await old.until(MACHINE, "m1", phase("Running"), timeout=60)
            machine = await old.get(NstanceMachine, "m1")
            instances = await servers.instances()
            await before.operator.stop()

        for name in IDENTITY:
            await new.create(SECRET.new(name, data=(await old.get(SECRET, name)).get("data")))
        await introduce(new, servers, nonce=False)
        await before.clusterctl.move(before.plane.admin_kubeconfig, after.plane.admin_kubeconfig, NAMESPACE)
        for model in (NstanceCluster, NstanceMachinePool, NstanceShardGroup, NstanceMachine):
            assert not (await old.client.list(model, NAMESPACE)).items, model

        async with after.operator.running_for():
            await new.until(CLUSTER, NAME, shows("InfrastructureReady"), timeout=60)
            moved = await new.until(NstanceMachine, "m1", lambda one: one.status.ready is True, timeout=60)
            assert moved.spec.provider_id == machine.spec.provider_id
            ready = await new.until(NstanceMachinePool, "workers", shows("Ready"), timeout=60)
            assert ready.spec.provider_id_list == pool.spec.provider_id_list
            assert await servers.instances() == instances
            kubeconfig = await new.until(SECRET, f"{NAME}-kubeconfig", lambda one: new.config.server in text_of(one))
            assert old.config.server not in text_of(kubeconfig)
            await new.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 4}})
            ready = await new.until(
                NstanceMachinePool, "workers", lambda one: len(one.spec.provider_id_list) == 4, timeout=60
            )
            assert set(pool.spec.provider_id_list) < set(ready.spec.provider_id_list)
            await new.delete(MACHINE, "m1")
            await new.until_gone(MACHINE, "m1", timeout=90)
            assert set((await servers.instances()).values()) <= {"deleting", "deleted"}
