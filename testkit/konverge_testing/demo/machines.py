"""`konverge demo --machines`: a pool of machines over three shards is spread, scaled, and one of its Nodes is drained.

Guarantees: the operator runs in this process with exactly the rights that `konverge rbac` prints. The servers of Nstance are doubles of
`konverge_testing.nstance`, which the operator reaches over TLS on loopback; stand-ins replace the core of Cluster API and the kubelets. No
machine is created anywhere.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any, Final

import click

from konverge.client import Client
from konverge.crds import crd
from konverge.crds.machines_v1beta1 import (
    GROUP,
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachine,
    NstanceMachinePool,
    NstanceMachinePoolSpec,
    NstanceShardGroup,
)
from konverge.daemon import engine, logs
from konverge.daemon.crds import apply_all
from konverge.daemon.families import installed_settings
from konverge.daemon.programs import NAME
from konverge.daemon.rbac import manifests, rules_for
from konverge.daemon.settings import Settings
from konverge.kinds import kind
from konverge.reconcilers import machines
from konverge.reconcilers.machines import MachineSettings
from konverge.runtime import Manager, ManagerSettings
from konverge_testing.demo.stages import Stage
from konverge_testing.demo.table import Row, Table, machines_row

if TYPE_CHECKING:
    from konverge_testing.nstance import Instance, NstanceWorld

__all__ = ["demo_of_machines"]

HOME: Final = "konverge"
"""The namespace of the operator, and of the Cluster with its pool."""
POOL: Final = "workers"
SHARDS: Final = ("us-west-2a", "us-west-2b", "us-west-2c")
_SETTINGS: Final = MachineSettings(
    namespace=HOME, cluster_id="acme", tenant="blue", retire_after=2.0, drain_poll=1.0, poll=2.0
)
"""Shorter times than the defaults, so that an end is shown within seconds."""
_INFRASTRUCTURE: Final = (NstanceCluster, NstanceMachinePool, NstanceMachine)
_OTHERS: Final = (NstanceControlPlane, NstanceShardGroup)
_CONFIG_MAP: Final = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
_SECRET: Final = kind("v1", "Secret", namespaced=True, plural="secrets")
_NODE: Final = kind("v1", "Node", namespaced=False, plural="nodes")
_POD: Final = kind("v1", "Pod", namespaced=True, plural="pods")
_MACHINE_POOL: Final = kind("cluster.x-k8s.io/v1beta2", "MachinePool", namespaced=True, plural="machinepools")
_LOOK_SECONDS: Final = 0.2


async def demo_of_machines(stage: Stage, admin: Client, timeout: float, *, stay: bool) -> bool:
    """Run the demo of machines; returns whether each step ended in time."""
    if find_spec("grpclib") is None:
        raise click.ClickException(
            "konverge demo --machines needs gRPC, which comes with an extra: pip install 'konverge[machines]'"
        )
    from konverge_testing.nstance import NstanceWorld

    world = NstanceWorld(cluster_id=_SETTINGS.cluster_id, tenant=_SETTINGS.tenant, random=Random())  # noqa: S311  # ids and keys of a demo
    for name in SHARDS:
        pace = world.add_shard(name).state.fleet.pace
        pace.boot, pace.delete, pace.drain_timeout = 1.0, 0.5, 60.0
    with (stage.directory / "konverge.log").open("w", encoding="utf-8", buffering=1) as file:
        engine.set_up(Settings())
        logs.configure(form="console", stream=file)
        try:
            await _prepare(admin)
            async with world.serve(), _operator(stage, admin, world):
                return await _Story(admin, world, timeout).play(stage, stay=stay)
        finally:
            logs.configure()


async def _prepare(admin: Client) -> None:
    from konverge_testing.capi import definitions

    click.echo("==> applying CustomResourceDefinitions (ours, and short ones of Cluster API's kinds) and RBAC")
    await apply_all(admin, [*definitions(), *(crd(model) for model in (*_INFRASTRUCTURE, *_OTHERS))])
    chosen: dict[str, Any] = {"controllers": ("machines",), "machines": _SETTINGS}
    rules = await rules_for(None, installed_settings()(**chosen), NAME)
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    for document in (home, *manifests(NAME, rules, "", f"{HOME}/{NAME}")):
        namespaced = bool(document["metadata"].get("namespace"))
        await admin.apply(kind(document["apiVersion"], document["kind"], namespaced=namespaced), document)


@asynccontextmanager
async def _operator(stage: Stage, admin: Client, world: NstanceWorld) -> AsyncIterator[None]:
    """Run the operator as its ServiceAccount, with what an administrator gives it, beside the stand-in for Cluster API."""
    from konverge_testing.capi import CapiCore

    names = _SETTINGS.identity_names
    addresses = {
        name: {"operator_addr": shard.address.operator, "registration_addr": shard.address.registration}
        for name, shard in world.shards.items()
    }
    document = {"cluster_id": _SETTINGS.cluster_id, "tenant": _SETTINGS.tenant, "shards": addresses}
    authority = {"ca.crt": world.authority.certificate.decode()}
    for config_map in (
        _CONFIG_MAP.new(names.ca_configmap, HOME, data=authority),
        _CONFIG_MAP.new(_SETTINGS.shards_configmap, HOME, data={"config.yaml": json.dumps(document)}),
    ):
        await admin.create(config_map)
    cluster = _SETTINGS.cluster_name
    labels = {"cluster.x-k8s.io/cluster-name": cluster}
    await admin.create(_SECRET.new(names.nonce_secret, HOME, data={"nonce.jwt": _encoded(world.nonce())}))
    await admin.create(
        _SECRET.new(f"{cluster}-kubeconfig", HOME, labels=labels, data={"value": _encoded("this API server")})
    )
    click.echo(f"==> starting servers of Nstance for {', '.join(SHARDS)}, a stand-in for Cluster API, and the operator")
    account = await stage.act_as(f"system:serviceaccount:{HOME}:{NAME}", ("system:serviceaccounts",))
    manager = Manager(NAME, account, settings=ManagerSettings())
    machines.install(manager, _SETTINGS)
    async with CapiCore(stage.config, infrastructure=_INFRASTRUCTURE):
        await manager.start()
        try:
            yield
        finally:
            await manager.stop()


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class _Story:
    """The steps, with a table between them. It replaces the kubelets too: it creates a Node for each running instance."""

    def __init__(self, admin: Client, world: NstanceWorld, timeout: float) -> None:
        self._admin = admin
        self._world = world
        self._timeout = timeout

    async def play(self, stage: Stage, *, stay: bool) -> bool:
        """Spread, scale and drain; False if a step did not end in time."""
        with Table() as table:
            try:
                click.echo(f"==> a pool of 3 over {len(SHARDS)} shards\n")
                await self._create_pool(3)
                await self._until(table, lambda: self._shows(dict.fromkeys(SHARDS, 1)))
                click.echo("==> the MachinePool is scaled to 7")
                await self._admin.patch(_MACHINE_POOL, POOL, HOME, patch={"spec": {"replicas": 7}}, style="merge")
                await self._until(table, lambda: self._shows(dict(zip(SHARDS, (3, 2, 2), strict=True))))
                await self._drain(table)
            except TimeoutError:
                click.echo("\na step did not end in time. The log ends:", err=True)
                lines = (stage.directory / "konverge.log").read_text(encoding="utf-8").splitlines()
                click.echo("\n".join(lines[-30:]), err=True)
                return False
            click.echo(f"\n  export KUBECONFIG={stage.kubeconfig}")
            if stage.kubectl:
                click.echo(f"  {stage.kubectl} -n {HOME} get machinepools,nstancemachinepools,nstanceshardgroups")
            click.echo(f"  log        {stage.directory / 'konverge.log'}\n")
            if stay:
                click.echo("Ctrl-C ends it and removes everything.\n")
            while stay:
                await self._look(table)
                await asyncio.sleep(_LOOK_SECONDS)
            return True

    async def _create_pool(self, replicas: int) -> None:
        spec = NstanceMachinePoolSpec(group=POOL, shards=SHARDS, template="std")
        await self._admin.create(NstanceMachinePool.new(POOL, HOME, spec=spec))
        cluster = _SETTINGS.cluster_name
        reference = {"apiGroup": GROUP, "kind": "NstanceMachinePool", "name": POOL}
        machine = {"clusterName": cluster, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}
        whole: dict[str, Any] = {"clusterName": cluster, "replicas": replicas, "template": {"spec": machine}}
        await self._admin.create(_MACHINE_POOL.new(POOL, HOME, spec=whole))

    async def _drain(self, table: Table) -> None:
        shard = self._world.shards[SHARDS[0]]
        item = self._running(SHARDS[0])[0]
        node = _node_name(item)
        click.echo(f"==> the server of {SHARDS[0]} replaces the instance of {node}, on which pod web runs")
        container = {"name": "main", "image": "busybox"}
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
        await self._admin.create(_POD.new("web", HOME, spec=spec))
        shard.state.fleet.replace(item.id, "instance-expiry")

        async def replaced() -> bool:
            pods = {pod.name for pod in (await self._admin.list(_POD, HOME)).items}
            nodes = {item.name for item in (await self._admin.list(_NODE)).items}
            full = await self._shows(dict(zip(SHARDS, (3, 2, 2), strict=True)))
            return full and "web" not in pods and node not in nodes

        await self._until(table, replaced)
        acknowledged = shard.called("AcknowledgeDrained")
        click.echo(f"    {node} was drained, acknowledged ({acknowledged}), and its id left the pool")

    def _running(self, shard: str) -> list[Instance]:
        from konverge_testing.nstance.instances import RUNNING

        result = self._world.shards[shard].state.fleet.counting(self._world.tenant, POOL)
        return [item for item in result if item.status == RUNNING]

    async def _shows(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the pool is Ready, and has so many instances on each shard, each with a Node."""
        pool = await self._admin.get(NstanceMachinePool, POOL, HOME)
        ready, total = pool.find_condition("Ready"), sum(sizes.values())
        result = {name: len(self._running(name)) for name in sizes}
        return (
            result == sizes
            and ready is not None
            and ready.is_true
            and (pool.status.replicas, pool.status.nodes, len(pool.spec.provider_id_list)) == (total,) * 3
        )

    async def _until(self, table: Table, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(self._timeout):
            while not await holds():
                await self._look(table)
                await asyncio.sleep(_LOOK_SECONDS)
        await self._look(table)

    async def _look(self, table: Table) -> None:
        present = {node.name for node in (await self._admin.list(_NODE)).items}
        for shard in SHARDS:
            for item in self._running(shard):
                if _node_name(item) not in present:
                    provider_id = f"aws:///{shard}/{item.provider_id}"
                    await self._admin.create(_NODE.new(_node_name(item), spec={"providerID": provider_id}))
        table.show(await self._rows())

    async def _rows(self) -> list[Row]:
        groups = (await self._admin.list(NstanceShardGroup, HOME)).items
        pools = (await self._admin.list(NstanceMachinePool, HOME)).items
        owners = {item.name: item for item in (await self._admin.list(_MACHINE_POOL, HOME)).items}
        return [machines_row(pool, owners.get(pool.name), groups) for pool in pools]


def _node_name(instance: Instance) -> str:
    return f"node-{instance.provider_id[-6:]}"
