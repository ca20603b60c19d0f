"""WorkspaceClaims that replicas share: no call of a former owner reaches the provider after a call of the next owner."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from kcp_wire import DEFINITION, Wire, over
from replicas import NAMESPACE, Replicas
from shards import COORDINATOR, HASH

from konverge.client import Client, ClientConfig
from konverge.client.requests import Request
from konverge.crds import crd
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.reconcilers.workspaces import KcpWorkspaces, MemoryWorkspaces, WorkspaceSettings
from konverge.reconcilers.workspaces.installation import controller
from konverge.reconcilers.workspaces.kcp import WORKSPACE
from konverge.reconcilers.workspaces.words import CONTROLLER, WorkspaceAnnotation
from konverge.runtime import Manager
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.runtime.sharding.stamp import annotation_of, read_stamp
from konverge_testing import ApiServer, VirtualTimeLoop, install_crds


async def phases(replicas: Replicas) -> set[str | None]:
    return {one.status.phase for one in await replicas.client.list(WorkspaceClaim)}


async def until(replicas: Replicas, wanted: set[str | None], within: float = 60.0) -> None:
    async with asyncio.timeout(within):
        while await phases(replicas) != wanted:
            await asyncio.sleep(0.25)


async def test_each_claim_gets_one_workspace_while_replicas_come_die_and_stop() -> None:
    memory = MemoryWorkspaces()
    settings = WorkspaceSettings(namespace=NAMESPACE)
    async with Replicas(lambda manager: manager.add(controller(settings, memory)), sharding=HASH) as replicas:
        await install_crds(replicas.client, [crd(WorkspaceClaim)])
        await asyncio.gather(replicas.start("a"), replicas.start("b"))
        for number in range(24):
            await replicas.client.create(WorkspaceClaim.new(f"claim-{number}"))
        await replicas.start("c")
        await until(replicas, {"Ready"})
        replicas.kill("a")
        for number in range(24, 36):
            await replicas.client.create(WorkspaceClaim.new(f"claim-{number}"))
        await until(replicas, {"Ready"})
        await replicas.stop("b")
        for number in range(12):
            await replicas.client.delete(WorkspaceClaim, f"claim-{number}")
        async with asyncio.timeout(60):
            while len(await replicas.client.list(WorkspaceClaim)) > 24:
                await asyncio.sleep(0.25)
        assert sorted(memory.created) == sorted(f"claim-{number}" for number in range(36))
        assert sorted(memory.issued) == sorted(memory.created), "one credential each"
        assert len(memory.names()) == 24
        assert memory.late == []


@pytest.mark.parametrize("sharding", [HASH, COORDINATOR, ShardingSettings(mode="leader")], ids=lambda one: one.mode)
async def test_replica_paused_between_a_kcp_read_and_write_writes_nothing_on_waking(sharding: ShardingSettings) -> None:
    settings = WorkspaceSettings(namespace=NAMESPACE)
    wires = {"a": Wire(), "b": Wire()}
    async with ApiServer(random=Random(3), rbac=False) as kcp:

        def build(manager: Manager) -> None:
            async def find(_name: str, url: str) -> ClientConfig:
                return over(kcp, wires[manager.settings.instance], url or "https://kcp.example.com/clusters/root")

            provider = KcpWorkspaces(find, fence=manager.fence_of(CONTROLLER))
            manager.closes(provider.close)
            manager.add(controller(settings, provider))

        async with (
            Client(kcp.config(), name="test", random=Random(4)) as root,
            Replicas(build, sharding=sharding) as replicas,
        ):
            await install_crds(root, [DEFINITION])
            await install_crds(replicas.client, [crd(WorkspaceClaim)])
            await asyncio.gather(replicas.start("a"), replicas.start("b"))
            await asyncio.sleep(20)
            woke = list[float]()
            for wire in wires.values():
                wire.read = pausing(wire, woke)
            await replicas.client.create(WorkspaceClaim.new("acme"))
            async with asyncio.timeout(120):
                while not woke:
                    await asyncio.sleep(0.25)
            await asyncio.sleep(2)
            assert [write for wire in wires.values() for write in wire.writes] == []
            async with asyncio.timeout(120):
                while not any(wire.writes for wire in wires.values()):
                    await asyncio.sleep(0.25)
            await asyncio.sleep(60)
            (found,) = await root.list(WORKSPACE)
            claim = (await replicas.client.get(WorkspaceClaim, "acme")).metadata
            stamp = read_stamp(claim.annotations, annotation_of("operator"), claim.resource_version)
            epoch = "" if stamp is None else str(stamp.epoch)
            assert found.metadata.annotation(WorkspaceAnnotation.EPOCH) == epoch


def pausing(wire: Wire, woke: list[float]) -> Callable[[Request], None]:
    """Stop the process for a minute once it has read that the Workspace does not exist."""

    def read(request: Request) -> None:
        if request.path.endswith("/workspaces/acme") and not woke:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualTimeLoop)
            loop.advance(60)
            woke.append(loop.time())

    return read


@pytest.mark.parametrize("sharding", [HASH, COORDINATOR], ids=["hash", "coordinator"])
async def test_replica_caches_only_its_own_claims_and_conditions_are_counted_once(sharding: ShardingSettings) -> None:
    memory = MemoryWorkspaces()
    settings = WorkspaceSettings(namespace=NAMESPACE)

    def build(manager: Manager) -> None:
        manager.add(controller(settings, memory))

    async with Replicas(build, sharding=sharding) as replicas:
        await install_crds(replicas.client, [crd(WorkspaceClaim)])
        await asyncio.gather(replicas.start("a"), replicas.start("b"))
        for number in range(24):
            await replicas.client.create(WorkspaceClaim.new(f"claim-{number}"))
        await until(replicas, {"Ready"})
        await asyncio.sleep(20)
        whole, available = dict[str, set[str]](), dict[str, float]()
        labels = {"controller": CONTROLLER, "condition": "Available", "status": "True"}
        for name, replica in replicas.replicas.items():
            store = replica.manager.runner(CONTROLLER)._watches.primary.store
            cached = (store.get(*path) for path in store.keys())  # noqa: SIM118  # no dict
            whole[name] = {one.metadata.name for one in cached if one is not None and not one.metadata_only}
            available[name] = replica.metrics.registry.get_sample_value("konverge_status_conditions", labels) or 0.0
        assert not whole["a"] & whole["b"]
        assert len(whole["a"] | whole["b"]) == 24
        assert available == {name: len(claims) for name, claims in whole.items()}
