"""A toy server of ConfigMaps to put shells around; it calls the hooks of faults like the in-memory server.

The shells (HTTP, transport, faults) are tested without their in-memory API server, so that a bug in the server does not fail a test of a
shell; `testkit/tests/conformance` tests both together.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from konverge_testing.apiserver import statuses
from konverge_testing.apiserver.faults import Faults
from konverge_testing.apiserver.faults.rules import about_call
from konverge_testing.apiserver.requests import Call, Response

DISCOVERY = {
    "kind": "APIResourceList",
    "resources": [{"name": "configmaps", "namespaced": True, "kind": "ConfigMap", "verbs": ["get", "list", "watch"]}],
}


class Toy:
    """ConfigMaps of all namespaces, by name."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[Call] = []
        self.watchers: list[asyncio.Queue[bytes | None]] = []
        self.closed = 0
        self.faults = Faults(lambda: self.version)

    async def handle(self, call: Call) -> Response:
        self.calls.append(call)
        about = about_call(call)
        if not about.resource:
            return self.discovery(call)
        orders = await self.faults.before(call, about)
        self.version += orders.jump
        if about.verb == "watch":
            return Response(stream=self.faults.stream(call, about, self.watch(), orders.view))
        answer = self.decide(about.verb, call)
        await self.faults.after(call, about, answer)
        return answer

    def discovery(self, call: Call) -> Response:
        if call.path == "/api/v1":
            return Response(body=msgspec.json.encode(DISCOVERY))
        return Response(404, b"404 page not found\n", "text/plain")

    def decide(self, verb: str, call: Call) -> Response:
        if verb == "list":
            return self.said({"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": []})
        if verb in ("create", "patch"):
            return self.said(self.store(json.loads(call.body)), 201)
        name = call.path.rpartition("/")[2]
        if name not in self.objects:
            raise statuses.not_found("", "configmaps", name)
        if verb == "delete":
            self.tell("DELETED", self.objects.pop(name))
            return self.said({"kind": "Status", "status": "Success"})
        return self.said(self.objects[name])

    def said(self, data: dict[str, Any], status: int = 200) -> Response:
        return Response(status, msgspec.json.encode(data))

    def store(self, data: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        name = data["metadata"]["name"]
        data["metadata"] |= {"resourceVersion": str(self.version), "uid": f"u-{name}"}
        known = name in self.objects
        self.objects[name] = data
        self.tell("MODIFIED" if known else "ADDED", data)
        return data

    def tell(self, type_: str, data: dict[str, Any]) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(msgspec.json.encode({"type": type_, "object": data}) + b"\n")

    def bookmark(self, **annotations: str) -> None:
        self.version += 1
        metadata = {"resourceVersion": str(self.version), "annotations": annotations}
        self.tell("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})

    def end(self) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(None)

    async def watch(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.watchers.append(queue)
        try:
            while (line := await queue.get()) is not None:
                yield line
        finally:
            self.watchers.remove(queue)
            await asyncio.sleep(0)
            self.closed += 1


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "web"}, "data": data}


def names(lines: bytes) -> list[str]:
    """Type and name (or version, for bookmarks) of each whole line."""
    found = []
    for line in lines.splitlines():
        event = json.loads(line)
        metadata = event["object"].get("metadata", {})
        found.append(f"{event['type']} {metadata.get('name') or metadata.get('resourceVersion', '')}".strip())
    return found
