"""WorkspaceClaims that daemons share as processes on a real control plane: a daemon is killed at work, and nothing is lost."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from forkserver import ForkServer
from kcp_server import KcpServer, kcp_server
from operators import Operator
from patience import PATIENCE
from widgets import SECRET

from konverge.client import Client, ClientConfig
from konverge.crds import crd
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.runtime.sharding.stamp import annotation_of
from konverge_testing import ControlPlane, install_crds

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(400)]

NAMESPACE = "claims"
STAMP = annotation_of("claims")
TIMES = {"lease": 6.0, "renew": 4.0, "retry": 1.5, "join": 2.0}
CLAIMS = 30
JOINED = "this replica is a member of the ring"


def daemon(name: str, kubeconfig: Path, kcp: KcpServer, folder: Path, fork: ForkServer) -> Operator:
    sets = {
        "workspaces.kubeconfig": kcp.kubeconfig,
        "workspaces.namespace": NAMESPACE,
        "workspaces.poll": 0.5,
        "workspaces.retry": 1.0,
        "sharding.namespace": NAMESPACE,
        "sharding.ring": "claims",
        **{f"sharding.{what}_seconds": seconds for what, seconds in TIMES.items()},
    }
    return Operator(
        (
            *("--controllers", "workspaces", "--sharding", "hash", "--kubeconfig", str(kubeconfig)),
            *("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0", "--debug", "127.0.0.1:0", "--log-format", "json"),
            *(word for key, value in sets.items() for word in ("--set", f"{key}={value}")),
        ),
        folder / f"{name}.log",
        forkserver=fork,
    )


async def until(client: Client, count: int, test: Callable[[WorkspaceClaim], bool]) -> list[WorkspaceClaim]:
    """Wait until there are so many claims, and all meet the test."""
    async with asyncio.timeout(60 * PATIENCE):
        while True:
            found = list(await client.list(WorkspaceClaim))
            if len(found) == count and all(test(one) for one in found):
                return found
            await asyncio.sleep(0.2)


def ready(claim: WorkspaceClaim) -> bool:
    return claim.status.phase == "Ready"


def owners(claims: list[WorkspaceClaim]) -> set[str]:
    return {one.metadata.annotation(STAMP).rpartition("/")[0] for one in claims}


async def test_no_claim_is_lost_or_served_twice_if_a_replica_dies(control_plane: ControlPlane, tmp_path: Path) -> None:
    await control_plane.create_namespace(NAMESPACE)
    config = await ClientConfig.from_kubeconfig(control_plane.kubeconfig)
    async with AsyncExitStack() as stack:
        kcp = await stack.enter_async_context(kcp_server(tmp_path, seconds=5.0))
        client = await stack.enter_async_context(Client(config, name="test-user"))
        fork = await stack.enter_async_context(ForkServer())
        await install_crds(client, [crd(WorkspaceClaim)])
        daemons = [daemon(name, control_plane.kubeconfig, kcp, tmp_path, fork) for name in "abc"]
        for one in daemons:
            await stack.enter_async_context(one.running_for())
        await asyncio.gather(*(one.ready() for one in daemons))
        for number in range(CLAIMS):
            await client.create(WorkspaceClaim.new(f"claim-{number}"))
        async with asyncio.timeout(60 * PATIENCE):
            while len(owners(list(await client.list(WorkspaceClaim))) - {""}) < 3:
                await asyncio.sleep(0.05)
        victim = daemons[0].said(JOINED)
        assert victim is not None
        found = await client.list(WorkspaceClaim)
        assert any(owners([one]) == {victim["identity"]} and not ready(one) for one in found), "it is at work"
        daemons[0].kill()
        await daemons[0].ended()
        for number in range(CLAIMS, CLAIMS + 6):
            await client.create(WorkspaceClaim.new(f"claim-{number}"))
        members = {said["identity"] for one in daemons[1:] if (said := one.said(JOINED))}
        claims = await until(client, CLAIMS + 6, lambda one: ready(one) and owners([one]) <= members)
        assert owners(claims) == members
        for number in range(4):
            await client.delete(WorkspaceClaim, f"claim-{number}")
        await until(client, CLAIMS + 2, ready)
        secrets = {one.name for one in await client.list(SECRET, NAMESPACE)}
        assert secrets == {f"ws-claim-{number}-kubeconfig" for number in range(4, CLAIMS + 6)}
        for one in daemons[1:]:
            assert await one.stop() == 0
    assert sorted(kcp.created) == sorted(f"claim-{number}" for number in range(CLAIMS + 6)), "each once"
    assert sorted(kcp.deleted) == [f"claim-{number}" for number in range(4)]
    assert all(epochs == sorted(epochs) for epochs in kcp.epochs.values()), "no owner of before wrote after the next"
