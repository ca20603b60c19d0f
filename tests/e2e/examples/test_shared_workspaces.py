"""examples/shared_workspaces.py runs unchanged, as several processes, on an API server and a kcp in memory."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import shared_workspaces
from kcp_server import kcp_server
from shared_workspaces import Onboarding, OnboardingSpec

from konverge.client import Client
from konverge.crds import crd
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.runtime.sharding.stamp import annotation_of
from konverge_testing import ApiServer, install_crds
from konverge_testing.kubeconfigs import write_kubeconfig

PROGRAM = Path(shared_workspaces.__file__)
STAMP = annotation_of("workspace-operator")
SHORT = {"LEASE": 4.0, "RENEW": 3.0, "RETRY": 1.0, "JOIN": 1.0}


@contextlib.asynccontextmanager
async def replica(name: str, folder: Path, environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, PROGRAM, env={**os.environ, **environment}, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            await process.wait()


async def onboard(client: Client, *numbers: int) -> None:
    for number in numbers:
        spec = OnboardingSpec(id=f"customer-{number}")
        await client.create(Onboarding.new(f"onboarding-{number}", spec=spec))


async def served(client: Client, count: int) -> None:
    """Wait until so many Onboardings are ready."""
    async with asyncio.timeout(90):
        while True:
            found = await client.list(Onboarding)
            ready = [one for one in found if (said := one.find_condition("Ready")) is not None and said.is_true]
            if len(found) == len(ready) == count:
                return
            await asyncio.sleep(0.1)


async def owners(client: Client, kind: Any) -> dict[str, str]:
    return {one.name: one.metadata.annotation(STAMP).rpartition("/")[0] for one in await client.list(kind)}


@pytest.mark.timeout(240)
async def test_replicas_share_onboardings_and_a_killed_replica_leaves_no_orphan(tmp_path: Path) -> None:
    async with (
        kcp_server(tmp_path) as kcp,
        ApiServer(random=Random(5), rbac=False) as server,
        server.http(tls=True) as shell,
        Client(server.config(), name="test", random=Random(6)) as client,
    ):
        await install_crds(client, [crd(Onboarding), crd(WorkspaceClaim)])
        environment = {
            "KUBECONFIG": str(write_kubeconfig(tmp_path / "kubeconfig", shell)),
            "KCP_KUBECONFIG": str(kcp.kubeconfig),
            "KONVERGE_METRICS": "127.0.0.1:0",
            "KONVERGE_HEALTH": "127.0.0.1:0",
            "KONVERGE_DEBUG": "127.0.0.1:0",
            "KONVERGE_DRAIN": "5",
            **{f"KONVERGE_SHARDING__{name}_SECONDS": str(seconds) for name, seconds in SHORT.items()},
        }
        async with replica("a", tmp_path, environment) as first, replica("b", tmp_path, environment):
            await onboard(client, *range(16))
            await served(client, 16)
            async with asyncio.timeout(60):
                while len(set((await owners(client, Onboarding)).values())) < 2:
                    await asyncio.sleep(0.1)
            await served(client, 16)
            assert await owners(client, WorkspaceClaim) == await owners(client, Onboarding)
            first.kill()
            await onboard(client, *range(16, 24))
            await served(client, 24)
            async with asyncio.timeout(60):
                while len(set((await owners(client, Onboarding)).values())) > 1:
                    await asyncio.sleep(0.1)
        assert sorted(kcp.created) == sorted(f"customer-{number}" for number in range(24)), "each once"
