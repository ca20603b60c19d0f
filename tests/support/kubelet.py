"""A kubelet for a real API server that serves only commands and ports, by functions of a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import konverge as kv
from konverge.client import Client
from konverge_testing.apiserver.http import HttpShell
from konverge_testing.apiserver.pod_sessions import PodCommands, PodPorts
from konverge_testing.apiserver.requests import Call, Query, Response

NODE = kv.kind("v1", "Node")
_NO_OBJECTS: Any = None


class Kubelet:
    """Serves `/exec/NAMESPACE/POD/CONTAINER` and `/portForward/NAMESPACE/POD`, as the kubelet does for kube-apiserver."""

    def __init__(self) -> None:
        self.commands = PodCommands()
        self.ports = PodPorts()

    @asynccontextmanager
    async def running(self, client: Client, node: str) -> AsyncIterator[None]:
        """Register the kubelet as a node. The declared feature lets kube-apiserver 1.36 pass websockets on, in place of SPDY."""
        async with HttpShell(self._handle, tls=True) as shell:
            await client.create(NODE.new(node))
            status = {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": urlsplit(shell.url).port}},
                "declaredFeatures": ["ExtendWebSocketsToKubelet"],
            }
            await client.patch(NODE, node, patch={"status": status}, style="merge", subresource="status")
            try:
                yield
            finally:
                await client.delete(NODE, node)

    async def _handle(self, call: Call) -> Response:
        verb, namespace, pod, *containers = call.path.strip("/").split("/")
        spec = {"nodeName": "n", "containers": [{"name": name} for name in containers or ["app"]]}
        described = {"metadata": {"name": pod, "namespace": namespace}, "spec": spec}
        if verb == "exec":
            call.query = Query([*call.query.pairs, ("stdin", call.query.get("input", "0"))])
            return self.commands.open(call, described, _NO_OBJECTS)
        call.query = Query([("ports", call.query.get("port"))])
        return self.ports.open(call, described, _NO_OBJECTS)
