"""WorkspaceClaims that replicas share: no call of a former owner reaches the provider after one of the next."""

from __future__ import annotations

import asyncio

from replicas import NAMESPACE, Replicas
from shards import HASH

from konverge.crds import crd
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.reconcilers.workspaces import MemoryWorkspaces, WorkspaceSettings
from konverge.reconcilers.workspaces.install import controller
from konverge.testing import install_crds


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
