"""Machine pools at their size: 5 shards with 200 groups and 5,000 instances, on the server in memory and the double of Nstance.

API server, Nstance servers, operator and client are one process on a loop whose time is virtual: seconds are virtual seconds, and costs are
CPU time, the servers' included. Writes and calls are counted as the servers receive them.
"""

import asyncio
import base64
import gc
import os
from collections import Counter
from random import Random
from typing import Final

from grpclib.client import Channel
from harness import PROCESS, Lap, Part, World, virtual
from peers.machine import memory
from rows import QUICK, Row

from konverge.client.credentials import TlsMaterial
from konverge.crds import crd
from konverge.crds.machines_v1beta1 import (
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachine,
    NstanceMachinePool,
    NstanceShardGroup,
)
from konverge.kinds import kind
from konverge.reconcilers import machines
from konverge.reconcilers.machines.kinds import CONFIG_MAP, MACHINE_POOL, NODE, POD
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.addresses import Address
from konverge.reconcilers.machines.shards.dialing import Dial
from konverge.runtime import Manager, ManagerSettings
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import About
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.capi import definitions
from konverge_testing.lab import install_crds
from konverge_testing.nstance import GroupSpec, NstanceWorld

SHARDS: Final = ("a", "b", "c", "d", "e")
GROUPS: Final = 10 if QUICK else 200
SIZE: Final = 5
"""Instances of a group on one shard."""
DRAINS: Final = 10 if QUICK else 100
STEPS: Final = 5 if QUICK else 20
REST: Final = 600.0
PATIENCE: Final = 300.0
TENANT: Final = "blue"
SECRET: Final = kind("v1", "Secret", namespaced=True, plural="secrets")
ANSWERS: Final = ("ListGroups", "WatchGroups", "WatchInstances", "WatchErrors")


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    return virtual(_measured)


class MachinesWorld(World):
    """A lab with the operator and its servers, and the time of the operator's last write."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.nstance = NstanceWorld(tenant=TENANT, random=Random(1))  # ids, no secret
        self.written_at = 0.0
        self.shown: set[str] = set()
        """Names of the objects whose status was written."""
        for name in SHARDS:
            self.nstance.add_shard(name)

    def wrote(self, call: Call, about: About, response: Response) -> None:
        """Count a successful write of anything but an Event."""
        if about.resource == "events" or response.status >= 300:
            return
        super().wrote(call, about, response)
        self.written_at = asyncio.get_running_loop().time()
        if about.subresource == "status":
            self.shown.add(about.name)

    def called(self) -> Counter[str]:
        return Counter(call.method for shard in self.nstance.shards.values() for call in shard.calls)

    async def start(self) -> None:
        """Put the groups on the servers, start the operator, and wait until it is idle."""
        kinds = (NstanceCluster, NstanceControlPlane, NstanceMachinePool, NstanceShardGroup, NstanceMachine)
        await install_crds(self.lab.client, [*definitions(), *(crd(model) for model in kinds)])
        # Without the kubeconfig, whose renewals would count as writes at rest.
        settings = MachineSettings(namespace=self.lab.namespace, cluster_id="acme", tenant=TENANT, workload_account="")
        names, space = settings.identity_names, self.lab.namespace
        ca = {"ca.crt": self.nstance.authority.certificate.decode()}
        await self.lab.client.create(CONFIG_MAP.new(names.ca_configmap, space, data=ca))
        nonce = base64.b64encode(self.nstance.nonce().encode()).decode()
        await self.lab.client.create(SECRET.new(names.nonce_secret, space, data={"nonce.jwt": nonce}))
        document = {name: f"{name}.nstance:8993" for name in SHARDS}
        await self.lab.client.create(CONFIG_MAP.new(settings.shards_configmap, space, data=document))

        async def dialed(tls: TlsMaterial) -> Dial:
            def dial(address: Address) -> Channel:
                return self.nstance.network.channel(address.host, address.port, tls)

            return dial

        def build(manager: Manager) -> None:
            machines.install(manager, settings, dial=dialed, random=Random(2))  # jitter

        await self.lab.start(build, name=PROCESS, settings=ManagerSettings(strict=True))

    async def quiet(self) -> None:
        """Wait until nothing was written for 35 s: a listing and what follows it."""
        loop = asyncio.get_running_loop()
        self.written_at = max(self.written_at, loop.time())
        while loop.time() - self.written_at < 35:
            await asyncio.sleep(1)

    def set_subnet(self, group: str, shard: str, subnet: str) -> None:
        """Change a group on a server, as its administrator does: the server sends an event, and the status shows it."""
        spec = GroupSpec("std", SIZE, subnet_pool=subnet)
        self.nstance.shards[shard].set_static(group, spec)


async def _measured() -> list[Row]:
    async with MachinesWorld.open() as world:
        before = memory([os.getpid()]).now
        for number in range(GROUPS):
            for shard in SHARDS:
                world.set_subnet(f"group-{number:03}", shard, "private")
        rows = await _imported(world, before)
        rows += await _at_rest(world)
        rows += await _events(world)
        rows += await _scaled(world)
        rows += await _drained(world)
        await world.lab.stop()
        await world.nstance.close()
        return rows


async def _imported(world: MachinesWorld, before: float) -> list[Row]:
    instances = GROUPS * SIZE * len(SHARDS)
    how = f"{len(SHARDS)} shards with {GROUPS} groups each, {instances:,} instances; servers in memory in the same process"
    part, began = Part(world, "import", how), asyncio.get_running_loop().time()
    await world.start()
    await world.quiet()
    part.stop()
    pools = (await world.lab.client.list(NstanceMachinePool, world.lab.namespace)).items
    gc.collect()
    part.add("pools", len(pools), "pools", GROUPS)
    part.add("published provider ids", sum(len(pool.spec.provider_id_list) for pool in pools), "ids", instances)
    remark = "an instance boots in 30 s"
    part.add("virtual time until the last write", world.written_at - began, "s", remark=remark)
    part.add("CPU", 1000 * part.cpu / GROUPS, "ms/pool")
    part.add_writes("writes", "", "writes/pool", per=GROUPS)
    part.add("calls that change a group", world.called()["UpsertGroup"], "calls")
    grown = memory([os.getpid()]).now - before
    part.add("memory of the process", grown, "MiB", remark="operator and servers together")
    return part


async def _at_rest(world: MachinesWorld) -> list[Row]:
    how = f"{REST:g} virtual s without a change, {GROUPS} groups in each listing of {len(SHARDS)} shards; the servers' CPU included"
    part, calls = Part(world, "rest", how), world.called()["ListGroups"]
    await asyncio.sleep(REST)
    part.stop()
    listings = (world.called()["ListGroups"] - calls) / len(SHARDS)
    part.add_writes("writes", "", "writes", 0)
    part.add("listings", listings, "listings/shard")
    part.add("CPU of a full sync", 1000 * part.cpu / listings, "ms", remark="one listing of every shard")
    return part


async def _events(world: MachinesWorld) -> list[Row]:
    waits = []
    for number in range(STEPS):
        group = f"group-{number:03}"
        world.shown.clear()
        lap = Lap()
        world.set_subnet(group, "b", "public")
        async with asyncio.timeout(PATIENCE):
            while f"{group}--b" not in world.shown:
                await asyncio.sleep(0.01)
        waits.append(lap.seconds)
        await asyncio.sleep(3)
    await world.quiet()
    world.shown.clear()
    how = "an event of a stream to the write of the status of its shard group, virtual time"
    part, calls = Part(world, "event", how), world.called()["ListGroups"]
    groups = [f"group-{number:03}" for number in range(GROUPS)]
    for group in groups:
        world.set_subnet(group, "c", "public")
    async with asyncio.timeout(PATIENCE):
        while not {f"{group}--c" for group in groups} <= world.shown:
            await asyncio.sleep(0.01)
    part.stop()
    listings = world.called()["ListGroups"] - calls
    await world.quiet()
    at_once = f"{GROUPS} events of one shard at once"
    part.add("seconds to the write, longest", max(waits), "s", "<= 1", remark=f"{STEPS} events one by one")
    part.add("seconds to the last write", part.seconds, "s", "<= 5", remark=at_once)
    part.add("listings", listings, "calls", remark=f"{at_once}: they share a listing")
    part.add("CPU", 1000 * part.cpu / GROUPS, "ms/event", remark=at_once)
    return part


async def _scaled(world: MachinesWorld) -> list[Row]:
    how = f"one replica more, {STEPS} pools after each other; an instance boots in 30 s and is listed then"
    part, before, waits = Part(world, "scale", how), world.called(), []
    for number in range(STEPS):
        name = f"group-{number:03}"
        lap = Lap()
        changed = {"spec": {"replicas": SIZE * len(SHARDS) + 1}}
        upserts = world.called()["UpsertGroup"]
        await world.lab.patch(MACHINE_POOL, name, changed)
        async with asyncio.timeout(PATIENCE):
            while world.called()["UpsertGroup"] == upserts:
                await asyncio.sleep(0.01)
        waits.append(lap.seconds)
        await asyncio.sleep(1)
    await world.quiet()
    part.stop()
    calls = {name: count - before[name] for name, count in world.called().items() if name not in ANSWERS}
    statuses = sum(count for name, count in world.writes.items() if name.endswith("/status"))
    part.add("seconds to the call, longest", max(waits), "s", "<= 1")
    part.add("calls that change a group", calls.get("UpsertGroup", 0) / STEPS, "calls/step", 1)
    part.add_writes("writes of specs", "nstanceshardgroups nstancemachinepools", "writes/step", per=STEPS)
    part.add("writes of statuses", statuses / STEPS, "writes/step")
    part.add("CPU", 1000 * part.cpu / STEPS, "ms/step", remark="listings meanwhile included")
    return part


async def _drained(world: MachinesWorld) -> list[Row]:
    """Drain instances that run at once, each with a Node and a pod that ends when it is evicted."""
    client, space, fleet = world.lab.client, world.lab.namespace, world.nstance.shards["a"].state.fleet
    running = [instance for instance in fleet.instances.values() if instance.counts and instance.provider_id][:DRAINS]
    for item in running:
        await client.create(NODE.new(item.id, spec={"providerID": f"aws:///us-west-2a/{item.provider_id}"}))
        spec = {
            "nodeName": item.id,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "busybox"}],
        }
        await client.create(POD.new(f"pod-{item.id}", space, spec=spec))
    await world.quiet()
    how = f"{len(running)} drains of one shard at once, a Node and a pod for each, no budget"
    part, before = Part(world, "drains", how), len(world.nstance.shards["a"].calls)
    for item in running:
        fleet.drain(item, "spot-interruption")
    acknowledged: set[str] = set()
    async with asyncio.timeout(PATIENCE):
        while len(acknowledged) < len(running):
            await asyncio.sleep(0.05)
            calls = world.nstance.shards["a"].calls[before:]
            acknowledged = {call.request.instance_id for call in calls if call.method == "AcknowledgeDrained"}  # type: ignore[attr-defined]  # the message of this method
    part.stop()
    pods = len((await client.list(POD, space)).items)
    part.add("seconds to the last acknowledgement", part.seconds, "s", "<= 30", remark="virtual time")
    part.add("pods that are left", pods, "pods", 0)
    part.add("CPU", 1000 * part.cpu / len(running), "ms/drain", remark="the servers' included")
    return part
