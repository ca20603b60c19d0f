"""The family on a real control plane, with Nstance servers as a process of their own over TLS, and the double of Cluster API's core.

The operator is a process that is ended by kill -9 in the middle of each step of the life of an NstanceMachine: at the write that stores the
id, and at each call, before and after the server acted. Every NstanceMachine ends with one instance, and every deleted one with none.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from forkserver import ForkServer
from machines_operator import settings
from nstance_server import NstanceProcess
from operators import Operator

from konverge.crds import crd
from konverge.crds.machines_v1beta1 import (
    NstanceCluster,
    NstanceMachine,
    NstanceMachinePool,
    NstanceShardGroup,
)
from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import CONFIG_MAP, MACHINE, MACHINE_POOL, NODE
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge.testing import ControlPlane, Lab, install_crds
from konverge.testing.capi import CapiCore, definitions
from konverge.testing.capi.kinds import CLUSTER_LABEL
from konverge.testing.nstance import CallFault

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(400)]

SECRET = kind("v1", "Secret", namespaced=True, plural="secrets")
INFRASTRUCTURE = (NstanceCluster, NstanceMachinePool, NstanceMachine)
CLUSTER = "acme--blue"


class Plane:
    """An operator, servers and a core that share a namespace."""

    def __init__(self, lab: Lab, operator: Operator, servers: NstanceProcess) -> None:
        self.lab, self.operator, self.servers = lab, operator, servers

    async def write(self) -> None:
        """Write what the operator expects to find."""
        space, names = self.lab.namespace, settings(self.lab.namespace).identity_names
        facts = self.servers.facts
        await self.lab.client.create(CONFIG_MAP.new(names.ca_configmap, space, data={"ca.crt": facts["ca"]}))
        nonce = base64.b64encode(facts["nonce"].encode()).decode()
        await self.lab.client.create(SECRET.new(names.nonce_secret, space, data={"nonce.jwt": nonce}))
        document = {"cluster_id": "acme", "tenant": "blue", "shards": facts["addresses"]}
        data = {"config.yaml": json.dumps(document)}
        await self.lab.client.create(CONFIG_MAP.new("nstance-shards", space, data=data))
        kubeconfig = {"value": base64.b64encode(b"kubeconfig").decode()}
        labels = {CLUSTER_LABEL: CLUSTER}
        await self.lab.client.create(SECRET.new(f"{CLUSTER}-kubeconfig", space, labels=labels, data=kubeconfig))

    async def order(self, name: str) -> None:
        """Create an NstanceMachine and its Machine."""
        await self.lab.create(NstanceMachine.decode({"metadata": {"name": name}, "spec": {"groupRef": "workers"}}))
        reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NstanceMachine", "name": name}
        spec = {"clusterName": CLUSTER, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}
        await self.lab.create(MACHINE.new(name, spec=spec))

    async def runs(self, name: str) -> NstanceMachine:
        return await self.lab.until(
            NstanceMachine, name, lambda one: one.status.ready is True and bool(one.spec.provider_id), timeout=60
        )

    async def pool_of(self, count: int) -> NstanceMachinePool:
        """Wait until the pool has so many instances."""
        return await self.lab.until(
            NstanceMachinePool, "workers", lambda one: len(one.spec.provider_id_list) == count, timeout=90
        )

    async def register(self, pool: NstanceMachinePool) -> None:
        """Create a Node for each instance, as its kubelet does."""
        for one in pool.spec.provider_id_list:
            name = f"{self.lab.namespace}-{one}"
            await self.lab.client.create(NODE.new(name, spec={"providerID": f"aws:///z/{one}"}))

    async def nodes(self) -> list[str]:
        """Return the Nodes of this test."""
        found = (await self.lab.client.list(NODE)).items
        return sorted(one.name for one in found if one.name.startswith(f"{self.lab.namespace}-"))

    async def paired(self, count: int) -> None:
        """Wait until Cluster API has paired so many Nodes with the pool."""
        await self.lab.until(
            MACHINE_POOL, "workers", lambda one: len(one.status.get("nodeRefs") or ()) == count, timeout=90
        )

    async def kill(self) -> None:
        """End the operator by SIGKILL, and start it again."""
        self.operator.kill()
        await self.operator.ended()
        await self.operator.start()

    async def instances_of(self, name: str) -> list[str]:
        """Return the instances that live, if one is that of this NstanceMachine."""
        place = (await self.lab.get(NstanceMachine, name)).metadata.annotation(MachinesAnnotation.INSTANCE)
        found = {one for one, status in (await self.servers.instances()).items() if status in ("pending", "running")}
        assert place in found
        return sorted(found)


@pytest_asyncio.fixture
async def plane(lab: Lab, control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Plane]:
    kinds = (*INFRASTRUCTURE, NstanceShardGroup)
    await install_crds(lab.client, [*definitions(), *(crd(model) for model in kinds)])
    environment = {"KUBECONFIG": str(control_plane.admin_kubeconfig), "MACHINES_NAMESPACE": lab.namespace}
    arguments = ("tests/support/machines_operator.py:build", "--name", "konverge")
    async with (
        ForkServer() as forkserver,
        NstanceProcess.run("a", "b") as servers,
        CapiCore(lab.config, infrastructure=INFRASTRUCTURE),
    ):
        operator = Operator(arguments, tmp_path / "operator.log", environment=environment, forkserver=forkserver)
        made = Plane(lab, operator, servers)
        await made.write()
        await operator.start()
        try:
            yield made
        finally:
            if operator.running:
                operator.kill()
                await operator.ended()


async def test_the_operator_may_be_killed_in_the_middle_of_each_step_of_a_machine(plane: Plane) -> None:
    lab, servers = plane.lab, plane.servers
    await plane.order("m0")
    await lab.until(
        NstanceMachine, "m0", lambda one: bool(one.metadata.annotation(MachinesAnnotation.INSTANCE)), timeout=120
    )
    await plane.kill()  # the id is stored; the call may or may not have been made
    await plane.runs("m0")
    alive = 1
    assert len(await plane.instances_of("m0")) == alive
    for method in ("CreateInstance", "GetInstanceStatus"):
        for fault in (CallFault.HANG, CallFault.HANG_AFTER):
            name = f"m{alive}"
            await servers.hold(method, fault)
            await plane.order(name)
            await servers.next("held")
            await plane.kill()
            await plane.runs(name)
            alive += 1
            assert len(await plane.instances_of(name)) == alive, f"killed at {method}, {fault.value}"
    for number, fault in enumerate((CallFault.HANG, CallFault.HANG_AFTER)):
        await servers.hold("DeleteInstance", fault)
        await lab.delete(MACHINE, f"m{number}")
        await servers.next("held")
        await plane.kill()
        await lab.until_gone(NstanceMachine, f"m{number}", timeout=60)
        await lab.until_gone(MACHINE, f"m{number}", timeout=60)
        alive -= 1
        assert len(await plane.instances_of("m2")) == alive
    provider_id = (await plane.runs("m2")).status.provider_id
    await lab.client.create(NODE.new(f"{lab.namespace}-n2", spec={"providerID": f"aws:///z/{provider_id}"}))
    try:
        await lab.until(
            MACHINE, "m2", lambda one: one.status.get("nodeRef") == {"name": f"{lab.namespace}-n2"}, timeout=60
        )
    finally:
        await lab.client.delete(NODE, f"{lab.namespace}-n2")
    for number in range(2, 5):
        await lab.delete(MACHINE, f"m{number}")
    for number in range(2, 5):
        await lab.until_gone(MACHINE, f"m{number}", timeout=60)
    assert set((await servers.instances()).values()) <= {"deleting", "deleted"}
    assert plane.operator.starts == 8


async def test_the_operator_may_be_killed_in_the_middle_of_each_step_of_scaling(plane: Plane) -> None:
    lab, servers = plane.lab, plane.servers
    await lab.until(MACHINE_POOL, "workers", lambda one: one.spec["replicas"] == 0, timeout=120)
    try:
        await servers.hold("UpsertGroup", CallFault.HANG)
        await lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 3}})
        await servers.next("held")
        await plane.kill()
        await plane.register(await plane.pool_of(3))
        await lab.until(
            NstanceMachinePool,
            "workers",
            lambda one: all(name.startswith("aws:") for name in one.spec.provider_id_list),
            timeout=90,
        )
        await lab.patch(NstanceMachinePool, "workers", {"metadata": {"annotations": {"touched": "yes"}}})
        await plane.paired(3)
        before = await plane.nodes()
        await servers.hold("UpsertGroup", CallFault.HANG_AFTER)
        await lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 1}})
        await servers.next("held")
        await plane.kill()
        pool = await plane.pool_of(1)
        await plane.paired(1)
        left = [f"{lab.namespace}-{one.rpartition('/')[2]}" for one in pool.spec.provider_id_list]
        assert await plane.nodes() == left
        assert set(left) < set(before)
        assert (await lab.get(MACHINE_POOL, "workers")).spec["replicas"] == 1
    finally:
        for name in await plane.nodes():
            await lab.client.delete(NODE, name)
