"""The family on a real control plane: an operator and servers that are processes, through a proxy that can interrupt the operator's writes."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

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
from konverge.reconcilers.machines.kinds import CONFIG_MAP, MACHINE, MACHINE_POOL, NODE, SECRET
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge_testing import ControlPlane, FaultProxy, Lab, install_crds
from konverge_testing.capi import CapiCore, definitions
from konverge_testing.capi.kinds import CLUSTER_LABEL
from konverge_testing.proxy import Moment, ProxiedRequest, is_write

INFRASTRUCTURE = (NstanceCluster, NstanceMachinePool, NstanceMachine)
CLUSTER = "acme--blue"
_AFTERWARDS = 1.0
"""Seconds after the end of a step in which its last writes are made."""
BINDING = kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", namespaced=False, plural="clusterrolebindings")


class MachinesPlane:
    """An operator, servers and a core that share a namespace."""

    def __init__(self, lab: Lab, operator: Operator, servers: NstanceProcess, proxy: FaultProxy) -> None:
        self.lab, self.operator, self.servers, self.proxy = lab, operator, servers, proxy

    async def write(self) -> None:
        """Create the objects that the operator expects."""
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

    async def remove_pool(self) -> None:
        """Delete the pool: the operator of the next test sees all namespaces, and a group belongs to its oldest pool."""
        await self.lab.delete(MACHINE_POOL, "workers")
        await self.lab.until_gone(NstanceMachinePool, "workers", timeout=30)

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
        await self.revive()

    async def revive(self) -> None:
        """Start the operator again once it has ended."""
        await self.operator.ended()
        await self.operator.start()

    def kill_at(self, number: int, moment: Moment, rule: Callable[[ProxiedRequest], bool]) -> asyncio.Event:
        """Let the operator be killed at a write; `number` counts the writes that match the rule, from 1."""
        return self.proxy.at_write(
            number, moment, self.operator.kill, rule=lambda call: is_write(call) and bool(rule(call))
        )

    async def struck(self, struck: asyncio.Event, end: Callable[[], Awaitable[object]]) -> bool:
        """Wait for `end`, and start the operator again if it is killed in the meantime; returns whether it was killed."""
        killed = asyncio.create_task(struck.wait())
        ended = asyncio.ensure_future(end())
        try:
            await asyncio.wait([killed, ended], return_when=asyncio.FIRST_COMPLETED)
            if not struck.is_set():  # the last writes follow the end
                await asyncio.wait([killed], timeout=_AFTERWARDS)
            if struck.is_set():
                await self.revive()
            else:
                self.proxy.disarm()
            await ended
        finally:
            killed.cancel()
            ended.cancel()
        return struck.is_set()

    async def gone(self, name: str) -> None:
        """Wait until an NstanceMachine and its Machine are deleted."""
        await self.lab.until_gone(NstanceMachine, name, timeout=60)
        await self.lab.until_gone(MACHINE, name, timeout=60)

    async def instances_of(self, name: str) -> list[str]:
        """Return the live instances, and assert that the NstanceMachine's instance is among them."""
        place = (await self.lab.get(NstanceMachine, name)).metadata.annotation(MachinesAnnotation.INSTANCE)
        found = {one for one, status in (await self.servers.instances()).items() if status in ("pending", "running")}
        assert place in found
        return sorted(found)


@asynccontextmanager
async def machines_plane(lab: Lab, control_plane: ControlPlane, folder: Path) -> AsyncIterator[MachinesPlane]:
    """Run the operator with two shards and the double of Cluster API's core."""
    await install_crds(lab.client, [*definitions(), *(crd(model) for model in (*INFRASTRUCTURE, NstanceShardGroup))])
    token = await control_plane.service_account_token(lab.namespace, "operator")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": lab.namespace}
    await lab.client.create(BINDING.new(lab.namespace, roleRef=role, subjects=[subject]))
    # Free ports: another process of a test run may have an operator of its own at the same time.
    ports = ("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0", "--debug", "127.0.0.1:0")
    arguments = ("tests/support/machines_operator.py:build", "--name", "konverge", *ports)
    async with (
        ForkServer() as forkserver,
        NstanceProcess.run("a", "b") as servers,
        CapiCore(lab.config, infrastructure=INFRASTRUCTURE),
        FaultProxy(control_plane.url, control_plane.ca_file) as proxy,
    ):
        kubeconfig = proxy.kubeconfig(folder / "kubeconfig", token, namespace=lab.namespace)
        environment = {"KUBECONFIG": str(kubeconfig), "MACHINES_NAMESPACE": lab.namespace}
        operator = Operator(arguments, folder / "operator.log", environment=environment, forkserver=forkserver)
        made = MachinesPlane(lab, operator, servers, proxy)
        await made.write()
        await operator.start()
        try:
            yield made
        except BaseException as error:
            error.add_note(
                f"the operator's log:\n{operator.story()}\nits last writes:\n" + "\n".join(proxy.writes[-40:])
            )
            raise
        finally:
            print(f"the operator's log:\n{operator.story()}")  # shown if the test fails
            if operator.running:
                operator.kill()
                await operator.ended()
            for name in await made.nodes():
                await lab.client.delete(NODE, name)
            await lab.client.delete(BINDING, lab.namespace)
