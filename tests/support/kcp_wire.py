"""kcp on an API server in memory: its definition of a Workspace, and a connection to it whose writes are recorded and can be held back."""

import asyncio
from collections.abc import Callable
from typing import Any

from forwarding_transport import ForwardingTransport

from konverge.client import ClientConfig, Response, Transport
from konverge.client.requests import Request
from konverge_testing import ApiServer

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "workspaces.tenancy.kcp.io"},
    "spec": {
        "group": "tenancy.kcp.io",
        "scope": "Cluster",
        "names": {"kind": "Workspace", "listKind": "WorkspaceList", "plural": "workspaces", "singular": "workspace"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Wire:
    """The connection of a replica to kcp."""

    def __init__(self) -> None:
        self.writes: list[tuple[float, str]] = []
        """Each write that was sent: when, and its method and path."""
        self.read: Callable[[Request], None] = lambda _request: None
        """Called when the response to a read has come."""
        self.held = asyncio.Event()
        """Set when a write waits."""
        self._free = asyncio.Event()
        self._free.set()

    def hold(self) -> None:
        """Hold back writes until `let_go`."""
        self._free.clear()

    def let_go(self) -> None:
        self._free.set()

    async def send(self, inner: Transport, request: Request) -> Response:
        if not request.writes:
            found = await inner.send(request)
            self.read(request)
            return found
        self.writes.append((asyncio.get_running_loop().time(), f"{request.method} {request.path}"))
        if not self._free.is_set():
            self.held.set()
            await self._free.wait()
        return await inner.send(request)


class _Wired(ForwardingTransport):
    def __init__(self, inner: Transport, wire: Wire) -> None:
        super().__init__(inner)
        self._wire = wire

    async def send(self, request: Request) -> Response:
        return await self._wire.send(self._inner, request)


def over(server: ApiServer, wire: Wire, url: str) -> ClientConfig:
    """Return a configuration of a server over a wire, under this URL."""
    config = server.config()

    def make(_: ClientConfig, settings: Any, user_agent: str) -> Transport:
        return _Wired(config.open(settings, user_agent), wire)

    return ClientConfig.over(make, server=url)
