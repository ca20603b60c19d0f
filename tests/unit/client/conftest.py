"""A scripted server behind the client's seam: responses, failures and hangs in the order of a test's script."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from konverge.client import Client, ClientConfig, ClientSettings, OpenStream, Response
from konverge.client.requests import Request
from konverge.metrics import Metrics

CORE = [
    {"name": "configmaps", "singularName": "configmap", "namespaced": True, "kind": "ConfigMap", "verbs": ["get"]},
    {"name": "namespaces", "namespaced": False, "kind": "Namespace", "verbs": ["get"]},
]


class Stream:
    def __init__(self, status: int, parts: list[Any], content_type: str = "application/json") -> None:
        self.status = status
        self.content_type = content_type
        self.retry_after = None
        self._parts: Iterator[Any] = iter(parts)

    async def read(self) -> bytes:
        part = next(self._parts, b"")
        if isinstance(part, float):
            await asyncio.sleep(part)
            return await self.read()
        if isinstance(part, Exception):
            raise part
        assert isinstance(part, bytes)
        return part


class Server:
    """Plays `script` in order; discovery has its own responses and its own record."""

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.seen: list[Request] = []
        self.times: list[float] = []
        self.discoveries: list[str] = []
        self.prepared = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.closed = False
        self.delay = 0.0
        self.resources: dict[str, list[dict[str, Any]]] = {"/api/v1": CORE}

    async def prepare(self) -> None:
        self.prepared += 1

    async def send(self, request: Request) -> Response:
        if request.path in {"/api/v1", "/apis/example.com/v1"}:
            self.discoveries.append(request.path)
            if request.path in self.resources:
                return answer({"kind": "APIResourceList", "resources": self.resources[request.path]})
            return Response(404, b"404 page not found\n", "text/plain")
        self.seen.append(request)
        self.times.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.delay)
            return await self._step(self.script.pop(0))
        finally:
            self.in_flight -= 1

    async def _step(self, step: Any) -> Response:
        if isinstance(step, float):  # respond after that many seconds
            await asyncio.sleep(step)
            return await self._step(self.script.pop(0))
        if isinstance(step, BaseException):
            raise step
        assert isinstance(step, Response)
        return step

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[OpenStream]:
        self.seen.append(request)
        step = self.script.pop(0)
        if isinstance(step, float):
            await asyncio.sleep(step)
            step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        try:
            yield step
        finally:
            self.closed = True

    async def close(self) -> None:
        self.closed = True


def answer(body: Any, status: int = 200, retry_after: float | None = None) -> Response:
    return Response(status, json.dumps(body).encode(), "application/json", retry_after)


def status(code: int, reason: str, message: str = "no", **details: Any) -> Response:
    return answer(
        {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}, status=code
    )


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def connect(server: Server, metrics: Metrics) -> Callable[..., Client]:
    """Make clients of the scripted server; keywords are settings."""

    def make(**settings: Any) -> Client:
        config = ClientConfig.over(lambda *_: server, server="http://fake:1")
        return Client(config, name="tester", settings=ClientSettings(**settings), metrics=metrics, random=Random(1))

    return make


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return connect()


@pytest.fixture
def say() -> Callable[..., Response]:
    return answer


@pytest.fixture
def refuse() -> Callable[..., Response]:
    return status


@pytest.fixture
def streaming() -> type[Stream]:
    return Stream
