"""The provider of kcp on two API servers in memory: the root with its Workspaces, and one workspace; the test plays kcp."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from kcp_wire import DEFINITION, Wire, over

from konverge.client import Client, ClientConfig
from konverge.clock import wall_clock
from konverge.errors import NotLeading, RetryAfter, Unreachable
from konverge.objects import Object
from konverge.reconcilers.workspaces import (
    ClaimOfWorkspace,
    ProviderUnavailable,
    WorkspacePhase,
    WorkspaceRefused,
    WorkspaceTaken,
)
from konverge.reconcilers.workspaces.kcp import WORKSPACE, KcpWorkspaces, kcp_state
from konverge.runtime.election.fence import LeaseFence
from konverge_testing import ApiServer, install_crds

ROOT = "https://kcp.example.com/clusters/root"
URL = f"{ROOT}:acme"
CLAIM = ClaimOfWorkspace("acme", "uid-of-claim")


class Kcp:
    """kcp, with the part that a provider uses."""

    def __init__(self, root: ApiServer, workspace: ApiServer) -> None:
        self.servers = {"": root, URL: workspace}
        self.asked: list[str] = []
        self.away = False
        self.wire = Wire()
        self.fence = LeaseFence(asyncio.get_running_loop().time)
        self.fence.extend(math.inf)
        self.provider = KcpWorkspaces(self.find, fence=self.fence)
        self.client = Client(root.config(), name="kcp", random=Random(1))

    async def find(self, name: str, url: str) -> ClientConfig:
        self.asked.append(url)
        if self.away:
            raise Unreachable("connection refused")
        return over(self.servers[url], self.wire, url or ROOT)

    async def shows(self, phase: str, *conditions: dict[str, Any]) -> None:
        status = {"phase": phase, "conditions": list(conditions)}
        await self.client.patch(WORKSPACE, "acme", patch={"status": status}, style="merge", subresource="status")

    async def ready(self, url: str = URL) -> None:
        await self.client.patch(WORKSPACE, "acme", patch={"spec": {"URL": url}}, style="merge")
        await self.shows("Ready")


@pytest_asyncio.fixture
async def kcp() -> AsyncIterator[Kcp]:
    async with ApiServer(random=Random(1), rbac=False) as root, ApiServer(random=Random(2), rbac=False) as workspace:
        made = Kcp(root, workspace)
        await install_crds(made.client, [DEFINITION])
        yield made
        await made.provider.close()
        await made.client.close()


def condition(type_: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": type_, "status": "False", "severity": "Error", "reason": reason, "message": message}


async def test_a_workspace_is_made_once_and_bears_the_uid_of_its_claim(kcp: Kcp) -> None:
    first, second = await kcp.provider.ensure(CLAIM), await kcp.provider.ensure(CLAIM)
    assert first == second
    assert first.phase is WorkspacePhase.PREPARING
    found = await kcp.client.get(WORKSPACE, "acme")
    assert found.metadata.annotation("cloudapi.team-orca.dev/workspace-claim-uid") == "uid-of-claim"
    assert first.identity == found.metadata.uid


async def test_ready_takes_a_url_and_is_lost_again_with_the_reason(kcp: Kcp) -> None:
    await kcp.provider.ensure(CLAIM)
    await kcp.shows("Ready")
    assert (await kcp.provider.ensure(CLAIM)).phase is WorkspacePhase.PREPARING
    await kcp.ready()
    found = await kcp.provider.ensure(CLAIM)
    assert (found.phase, found.url) == (WorkspacePhase.READY, URL)
    await kcp.shows(
        "Unavailable", condition("WorkspaceScheduled", "Unschedulable", "no shard"), condition("Other", "A", "b")
    )
    found = await kcp.provider.ensure(CLAIM)
    assert (found.phase, found.message) == (WorkspacePhase.UNAVAILABLE, "Unschedulable: no shard")


@pytest.mark.parametrize(
    ("phase", "means"),
    [
        ("", WorkspacePhase.PREPARING),
        ("Scheduling", WorkspacePhase.PREPARING),
        ("Initializing", WorkspacePhase.PREPARING),
        ("Ready", WorkspacePhase.READY),
        ("Unavailable", WorkspacePhase.UNAVAILABLE),
        ("Inactive", WorkspacePhase.UNAVAILABLE),
        ("Terminating", WorkspacePhase.DELETING),
        ("Deleting", WorkspacePhase.DELETING),
        ("Invented", WorkspacePhase.PREPARING),
    ],
)
def test_of_the_phases_of_kcp_ready_alone_is_ready(phase: str, means: WorkspacePhase) -> None:
    assert kcp_state(Object({"spec": {"URL": URL}, "status": {"phase": phase}})).phase is means


async def test_credential_is_a_service_account_token_with_the_lifetime_of_the_claim(kcp: Kcp) -> None:
    await kcp.provider.ensure(CLAIM)
    await kcp.ready()
    before = wall_clock()
    issued = await kcp.provider.credential(CLAIM, timedelta(hours=2))
    assert abs((issued.expires - before).total_seconds() - 7200) < 5
    config = json.loads(issued.kubeconfig)
    assert config["clusters"][0]["cluster"] == {"server": URL}
    token = config["users"][0]["user"]["token"]
    assert token
    assert token not in repr(issued)
    async with Client(kcp.servers[URL].config(), name="test", random=Random(3)) as inside:
        answer = await inside.raw("GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/workspace-claim")
    assert json.loads(answer)["roleRef"]["name"] == "cluster-admin"
    again = await kcp.provider.credential(CLAIM, timedelta(hours=2))
    assert again.kubeconfig != issued.kubeconfig


async def test_no_credential_is_asked_for_before_the_workspace_is_ready(kcp: Kcp) -> None:
    await kcp.provider.ensure(CLAIM)
    with pytest.raises(ProviderUnavailable, match="not ready"):
        await kcp.provider.credential(CLAIM, timedelta(hours=2))
    assert URL not in kcp.asked


async def test_a_workspace_of_another_is_neither_used_nor_deleted(kcp: Kcp) -> None:
    await kcp.client.create(WORKSPACE.new("acme", spec={}))
    for verb in (kcp.provider.ensure(CLAIM), kcp.provider.credential(CLAIM, timedelta(hours=2))):
        with pytest.raises(WorkspaceTaken, match="was not made for this claim"):
            await verb
    assert (await kcp.provider.delete(CLAIM)).phase is WorkspacePhase.GONE
    assert not (await kcp.client.get(WORKSPACE, "acme")).metadata.deleting


async def test_deletion_waits_for_the_content_tells_what_remains_and_removes_no_finalizer(kcp: Kcp) -> None:
    await kcp.provider.ensure(CLAIM)
    finalizers = {"metadata": {"finalizers": ["core.kcp.io/logicalcluster"]}}
    await kcp.client.patch(WORKSPACE, "acme", patch=finalizers, style="merge")
    await kcp.ready()
    assert (await kcp.provider.delete(CLAIM)).phase is WorkspacePhase.DELETING
    await kcp.shows("Deleting", condition("WorkspaceContentDeleted", "ContentDeletionFailed", "3 objects remain"))
    found = await kcp.provider.delete(CLAIM)
    assert (found.phase, found.message) == (WorkspacePhase.DELETING, "ContentDeletionFailed: 3 objects remain")
    assert (await kcp.provider.ensure(CLAIM)).phase is WorkspacePhase.DELETING
    await kcp.client.patch(WORKSPACE, "acme", patch={"metadata": {"finalizers": None}}, style="merge")
    assert (await kcp.provider.delete(CLAIM)).phase is WorkspacePhase.GONE


async def test_silent_kcp_is_a_provider_error_and_the_call_is_repeated(kcp: Kcp) -> None:
    kcp.away = True
    with pytest.raises(ProviderUnavailable, match="connection refused"):
        await kcp.provider.ensure(CLAIM)
    kcp.away = False
    assert (await kcp.provider.ensure(CLAIM)).phase is WorkspacePhase.PREPARING


async def test_an_api_server_without_workspaces_is_an_error_of_the_provider(kcp: Kcp) -> None:
    kcp.servers[""] = kcp.servers[URL]
    with pytest.raises(ProviderUnavailable, match="kcp: "):
        await kcp.provider.ensure(CLAIM)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.net/clusters/root:acme",
        "http://kcp.example.com/clusters/root:acme",
        "https://kcp.example.com:8443/clusters/root:acme",
        ROOT,
        f"{ROOT}:victim",
    ],
)
async def test_workspace_with_a_foreign_url_is_refused_before_any_request_to_it(kcp: Kcp, url: str) -> None:
    await kcp.provider.ensure(CLAIM)
    await kcp.ready(url)
    for verb in (kcp.provider.ensure(CLAIM), kcp.provider.credential(CLAIM, timedelta(hours=2))):
        with pytest.raises(WorkspaceRefused, match=r"workspaces\.(hosts|kubeconfig)|not used"):
            await verb
    assert kcp.asked == [""]
    assert (await kcp.provider.delete(CLAIM)).phase is WorkspacePhase.GONE


async def test_workspace_on_a_listed_shard_is_used(kcp: Kcp) -> None:
    shard = "https://shard.example.com:6443/clusters/root:acme"
    kcp.servers[shard] = kcp.servers[URL]
    provider = KcpWorkspaces(kcp.find, hosts=("shard.example.com:6443",), fence=kcp.fence)
    await provider.ensure(CLAIM)
    await kcp.ready(shard)
    issued = await provider.credential(CLAIM, timedelta(hours=2))
    assert json.loads(issued.kubeconfig)["clusters"][0]["cluster"] == {"server": shard}
    await provider.close()


EPOCH = "cloudapi.team-orca.dev/workspace-claim-epoch"
OLD, NEW = replace(CLAIM, epoch=5), replace(CLAIM, epoch=9)


async def epoch(kcp: Kcp) -> str:
    return (await kcp.client.get(WORKSPACE, "acme")).metadata.annotation(EPOCH)


@pytest.mark.parametrize("verb", ["create", "take over", "credential", "delete"])
async def test_nothing_is_written_to_kcp_behind_the_fence(kcp: Kcp, verb: str) -> None:
    if verb != "create":
        await kcp.provider.ensure(OLD)
        await kcp.ready()
    kcp.fence.close()
    kcp.wire.writes.clear()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "create": lambda: kcp.provider.ensure(OLD),
        "take over": lambda: kcp.provider.ensure(NEW),
        "credential": lambda: kcp.provider.credential(OLD, timedelta(hours=2)),
        "delete": lambda: kcp.provider.delete(OLD),
    }
    with pytest.raises(NotLeading):
        await calls[verb]()
    assert kcp.wire.writes == []


async def test_workspace_has_the_epoch_of_its_last_writer_without_writes_at_rest(kcp: Kcp) -> None:
    await kcp.provider.ensure(OLD)
    assert await epoch(kcp) == "5"
    await kcp.provider.ensure(NEW)
    assert await epoch(kcp) == "9"
    kcp.wire.writes.clear()
    await kcp.provider.ensure(NEW)
    assert kcp.wire.writes == []


async def test_replica_of_an_older_epoch_is_refused_and_epochs_need_sharding(kcp: Kcp) -> None:
    await kcp.provider.ensure(NEW)
    kcp.wire.writes.clear()
    for call in (kcp.provider.ensure(OLD), kcp.provider.delete(OLD)):
        with pytest.raises(ProviderUnavailable, match="a replica of epoch 9 owns the claim"):
            await call
    assert (await kcp.provider.ensure(CLAIM)).phase is WorkspacePhase.PREPARING
    assert kcp.wire.writes == []


@pytest.mark.parametrize("verb", ["delete", "take over"])
async def test_kcp_refuses_a_previous_owners_write_that_was_in_flight(kcp: Kcp, verb: str) -> None:
    await kcp.provider.ensure(OLD if verb == "delete" else replace(CLAIM, epoch=3))
    kcp.wire.hold()
    late = asyncio.create_task(kcp.provider.delete(OLD) if verb == "delete" else kcp.provider.ensure(OLD))
    await kcp.wire.held.wait()
    other = KcpWorkspaces(lambda _name, _url: _found(kcp.servers[""].config()))
    await other.ensure(NEW)
    kcp.wire.let_go()
    with pytest.raises(RetryAfter, match="changed since it was read"):
        await late
    found = await kcp.client.get(WORKSPACE, "acme")
    assert (found.metadata.deleting, found.metadata.annotation(EPOCH)) == (False, "9")
    await other.close()


async def _found(config: ClientConfig) -> ClientConfig:
    return config
