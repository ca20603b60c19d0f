"""The two servers that conformance cases run on: one interface for raw requests, no client in between.

Guarantees: `send` returns status, content type, warnings and body unchanged; `watch` yields the lines of a stream. Both servers get the
same headers, the same User-Agent and the same impersonation, as an administrator who may impersonate.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol

import aiohttp
from conformance.hooks import HookServer
from yarl import URL

from konverge_testing import ApiServer
from konverge_testing.apiserver.requests import ADMIN, Call
from konverge_testing.apiserver.shells import answered, refusal, warning_headers
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.control_plane import ControlPlane

AGENT: Final = "conformance/1.0"
_FIRST_VERSION: Final = 1_000_000
"""Versions of the server in memory begin here, so that none looks like another number in a text."""


@dataclass(slots=True)
class Reply:
    """A response."""

    status: int
    content_type: str = ""
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


class Target(Protocol):
    """A server."""

    name: str
    hooks: HookServer

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a request and return the whole response."""

    def watch(self, target: str, headers: Mapping[str, str]) -> AsyncIterator[Reply | bytes]:
        """Yield the head of the response, then its lines."""


class RealTarget:
    """kube-apiserver over HTTPS."""

    name = "control plane"

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.hooks = HookServer()

    def _at(self, target: str) -> URL:
        return URL(self._url + target, encoded=True)

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        async with self._session.request(method, self._at(target), headers=headers, data=body or None) as response:
            return _reply(response, await response.read())

    async def watch(self, target: str, headers: Mapping[str, str]) -> AsyncIterator[Reply | bytes]:
        async with self._session.get(self._at(target), headers=headers) as response:
            if response.status != 200:
                yield _reply(response, await response.read())
                return
            yield _reply(response, b"")
            async for line in response.content:
                yield line


def _reply(response: aiohttp.ClientResponse, body: bytes) -> Reply:
    headers = {name: response.headers[name] for name in ("Retry-After", "Allow") if name in response.headers}
    warnings = response.headers.getall("Warning", [])
    return Reply(response.status, response.headers.get("Content-Type", ""), body, list(warnings), headers)


class MemoryTarget:
    """`ApiServer`, called without HTTP."""

    name = "memory"

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.hooks = HookServer()

    async def _answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Any:
        try:
            call = Call.of(method, target, body)
        except StatusError as error:
            return refusal(error)
        call.headers = {name.lower(): value for name, value in headers.items()}
        call.user = ADMIN
        return await answered(self.server.handle, call)

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        answer = await self._answer(method, target, headers, body)
        assert answer.stream is None, "a watch is not a request"
        return _memory_reply(answer)

    async def watch(self, target: str, headers: Mapping[str, str]) -> AsyncIterator[Reply | bytes]:
        answer = await self._answer("GET", target, headers, b"")
        yield _memory_reply(answer)
        if answer.stream is not None:
            try:
                async for chunk in answer.stream:
                    for line in chunk.splitlines():
                        yield line
            finally:
                await answer.stream.aclose()


def _memory_reply(answer: Any) -> Reply:
    warnings = warning_headers(answer.warnings)
    headers = {name: value for name, value in answer.headers.items() if name in ("Retry-After", "Allow")}
    return Reply(answer.status, answer.content_type, answer.body, warnings, headers)


@asynccontextmanager
async def real_target(plane: ControlPlane) -> AsyncIterator[RealTarget]:
    """Enter a connection pool to the control plane, as its administrator."""
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    pki = plane.ca_file.parent
    context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, skip_auto_headers=["Content-Type"]
    ) as session:
        await asyncio.sleep(0)
        target = RealTarget(session, plane.url)
        try:
            yield target
        finally:
            await target.hooks.close()


@asynccontextmanager
async def memory_target() -> AsyncIterator[MemoryTarget]:
    """Enter a server in memory."""
    async with ApiServer(random=Random(1)) as server:
        server.store.jump(_FIRST_VERSION)
        target = MemoryTarget(server)
        try:
            yield target
        finally:
            await target.hooks.close()
