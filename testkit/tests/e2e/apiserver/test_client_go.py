"""client-go on both servers: a shared informer with its lister, and leader election, in JSON and in protobuf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import go_clients_runner
import pytest
from go_clients_runner import GoClient, go_client
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.models.coordination_v1 import LeaseSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import ConfigMap
from lightkube.types import PatchType

from konverge_testing.binaries import KUBERNETES_VERSION

if TYPE_CHECKING:
    from tests.e2e.apiserver.conftest import Place

Start = Callable[..., AbstractAsyncContextManager[GoClient]]

pytestmark = pytest.mark.timeout(90, func_only=True)  # the build in the first test has its own limit


@pytest.fixture
def start(go_clients: Path, place: Place) -> Start:
    return lambda *arguments: go_client(go_clients, place.environment, f"-namespace={place.namespace}", *arguments)


@pytest.fixture
async def client(place: Place) -> AsyncIterator[Any]:
    async with AsyncClient(KubeConfig.from_file(place.kubeconfig), namespace=place.namespace) as client:
        yield client


def test_the_clients_are_as_young_as_the_control_plane() -> None:
    """Equal versions let an install of both compile the libraries once."""
    module = (Path(go_clients_runner.__file__).with_name("go_clients") / "go.mod").read_text()
    assert f"k8s.io/client-go v0{KUBERNETES_VERSION.removeprefix('1')}\n" in module


async def heard(go: GoClient, said: str, name: str) -> dict[str, str]:
    """The program's next report, which must be about `name`; skips the object that a real control plane creates in every namespace."""
    while (found := await go.hears()).get("name") == "kube-root-ca.crt":
        pass
    assert (found["said"], found.get("name")) == (said, name), found
    data: dict[str, str] = found.get("data", {})
    return data


async def synced(go: GoClient) -> None:
    while (await go.hears())["said"] != "synced":
        pass


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_a_shared_informer_sees_every_change_and_its_lister_reads_them(
    start: Start, client: Any, encoding: str
) -> None:
    await client.create(ConfigMap(metadata=ObjectMeta(name="before"), data={"value": "0"}))
    async with start("-what=inform", *(["-protobuf"] if encoding == "protobuf" else [])) as go:
        assert await heard(go, "added", "before") == {"value": "0"}
        await synced(go)
        await go.order("create", "ours", "1")
        assert await heard(go, "added", "ours") == {"value": "1"}
        await go.order("get", "ours")
        assert await heard(go, "read", "ours") == {"value": "1"}
        await go.order("update", "ours", "2")
        assert await heard(go, "updated", "ours") == {"value": "2"}
        await client.patch(ConfigMap, "ours", {"data": {"value": "3"}}, patch_type=PatchType.MERGE)
        assert await heard(go, "updated", "ours") == {"value": "3"}
        await client.create(ConfigMap(metadata=ObjectMeta(name="theirs", labels={"made": "here"})))
        await heard(go, "added", "theirs")
        await go.order("list")
        assert (await go.hears("listed"))["names"] == ["ours", "theirs"]
        await go.order("create", "theirs", "1")
        assert (await go.hears("refused"))["reason"] == 'AlreadyExists: configmaps "theirs" already exists'
        await go.order("delete", "ours")
        assert await heard(go, "deleted", "ours") == {"value": "3"}
        await go.order("get", "ours")
        assert (await go.hears("refused"))["reason"].startswith("NotFound: ")
        assert await go.end() == 0


async def lease(client: Any) -> LeaseSpec:
    found: LeaseSpec = (await client.get(Lease, "election")).spec
    return found


async def test_a_leader_renews_and_hands_over_when_it_goes(start: Start, client: Any) -> None:
    with pytest.raises(ApiError, match="not found"):
        await lease(client)
    async with start("-what=elect", "-identity=one") as one, start("-what=elect", "-identity=two") as two:
        first, second = one, two
        names = "one", "two"
        said = {(await one.hears())["name"], (await two.hears())["name"]}
        if said == {"two"}:
            first, second, names = two, one, ("two", "one")
        held = await lease(client)
        assert (held.holderIdentity, held.leaseDurationSeconds, held.leaseTransitions or 0) == (names[0], 2, 0)
        async with asyncio.timeout(60):
            while (renewed := await lease(client)).renewTime == held.renewTime:
                await asyncio.sleep(0.05)
        assert (renewed.holderIdentity, renewed.acquireTime) == (names[0], held.acquireTime)
        assert await first.end() == 0
        while (await second.hears())["said"] != "leads":
            pass
        handed = await lease(client)
        assert (handed.holderIdentity, handed.leaseTransitions) == (names[1], 1)


async def test_a_leader_that_dies_is_followed_when_its_lease_has_run_out(start: Start, client: Any) -> None:
    async with start("-what=elect", "-identity=one") as one:
        assert {(await one.hears())["said"], (await one.hears())["said"]} == {"leads", "follows"}
        async with start("-what=elect", "-identity=two") as two:
            assert (await two.hears("follows"))["name"] == "one"
            await one.kill()
            assert (await lease(client)).holderIdentity == "one"
            assert {(await two.hears())["said"], (await two.hears())["said"]} == {"leads", "follows"}
            assert (await lease(client)).holderIdentity == "two"


async def test_a_leader_whose_lease_is_taken_stops_leading(start: Start, client: Any) -> None:
    async with start("-what=elect", "-identity=one") as one:
        assert {(await one.hears())["said"], (await one.hears())["said"]} == {"leads", "follows"}
        await client.patch(Lease, "election", {"spec": {"holderIdentity": "thief"}}, patch_type=PatchType.MERGE)
        said = [await one.hears() for _ in range(2)]
        assert {(line["said"], line["name"]) for line in said} == {("stopped", "one"), ("follows", "thief")}
        # The thief does not renew.
        assert {(await one.hears())["said"], (await one.hears())["said"]} == {"leads", "follows"}
        assert (await lease(client)).holderIdentity == "one"
