"""The credentials of kcp's root over real sockets: which servers receive them."""

from pathlib import Path
from typing import Any

import pytest

from konverge.client import Client
from konverge.errors import KonvergeError
from konverge.reconcilers.workspaces import WorkspaceRefused
from konverge.reconcilers.workspaces.kcp import root_of
from konverge_testing import files
from konverge_testing.apiserver.certificates import Authority
from konverge_testing.apiserver.http import HttpShell
from konverge_testing.apiserver.requests import Call, Response

TOKEN = "root-admin-token"  # a test's token
AUTHORITY = Authority.create("kcp")
"""Signs the certificates of all servers, so that verification does not hide a request."""
PATH = "/clusters/root:acme"


class Listener:
    """A server that notes the path and the Authorization header of each request."""

    def __init__(self, location: str = "") -> None:
        self.received: list[str] = []
        self.paths: list[str] = []
        self._location = location
        self.shell = HttpShell(self._handle, authority=AUTHORITY)

    async def _handle(self, call: Call) -> Response:
        self.paths.append(call.path)
        self.received.append(call.headers.get("authorization", ""))
        if self._location:
            return Response(307, b"", headers={"Location": self._location})
        return Response(403, b'{"kind": "Status", "status": "Failure", "code": 403}')


def kubeconfig(folder: Path, server: str, **cluster: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "root",
        "contexts": [{"name": "root", "context": {"cluster": "root", "user": "root"}}],
        "clusters": [{"name": "root", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "root", "user": {"token": TOKEN}}],
    }
    return str(files.write_kubeconfig(folder / "kubeconfig", document))


async def test_another_port_of_the_same_host_receives_no_credentials(tmp_path: Path) -> None:
    root, other = Listener(), Listener()
    async with root.shell, other.shell:
        find = root_of(kubeconfig(tmp_path, f"{root.shell.url}/clusters/root"))
        for url in (other.shell.url, other.shell.url.replace("https:", "http:")):
            with pytest.raises(WorkspaceRefused):
                await find("acme", f"{url}{PATH}")
    assert root.received == other.received == []


async def test_listed_host_is_verified_even_if_the_root_is_not(tmp_path: Path) -> None:
    root, shard = Listener(), Listener()
    async with root.shell, shard.shell:
        path = kubeconfig(
            tmp_path,
            f"{root.shell.url}/clusters/root",
            **{"insecure-skip-tls-verify": True, "tls-server-name": "kcp.example.com"},
        )
        find = root_of(path, hosts=(shard.shell.url.removeprefix("https://"),))
        own, listed = await find("acme", f"{root.shell.url}{PATH}"), await find("acme", f"{shard.shell.url}{PATH}")
        assert (own.tls.verify, own.tls.server_name) == (False, "kcp.example.com")
        assert (listed.tls.verify, listed.tls.server_name) == (True, "")
        async with Client(listed, name="test") as client:
            with pytest.raises(KonvergeError, match="certificate"):
                await client.raw("GET", "/api")
    assert shard.received == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_redirect_to_another_server_carries_no_credentials(tmp_path: Path, method: str) -> None:
    evil = Listener()
    async with evil.shell:
        root = Listener(location=f"{evil.shell.url}/steal")
        async with root.shell:
            path = kubeconfig(tmp_path, f"{root.shell.url}/clusters/root", **{"insecure-skip-tls-verify": True})
            async with Client(await root_of(path)("acme", f"{root.shell.url}{PATH}"), name="test") as client:
                with pytest.raises(KonvergeError):
                    await client.raw(method, "/api", body={} if method == "POST" else None)
    assert root.received == [f"Bearer {TOKEN}"]
    assert evil.received == []


@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "large"])
async def test_each_request_stays_below_the_path_of_its_workspace(tmp_path: Path, size: int) -> None:
    """A request without the path reaches another workspace of the same server, with the credentials of the root."""
    root = Listener()
    async with root.shell:
        path = kubeconfig(tmp_path, f"{root.shell.url}/clusters/root", **{"insecure-skip-tls-verify": True})
        async with Client(await root_of(path)("acme", f"{root.shell.url}{PATH}"), name="test") as client:
            for call in (client.raw("GET", "/api"), client.raw("POST", "/api/v1/namespaces", body={"a": "x" * size})):
                with pytest.raises(KonvergeError):
                    await call
    assert root.paths == [f"{PATH}/api", f"{PATH}/api/v1/namespaces"]
