"""Connections to S3 servers that tenants name, over real sockets: no private address, no redirect, no proxy."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from konverge.reconcilers.pools.buckets import BucketFailure, BucketReason, S3Access
from konverge.reconcilers.pools.buckets.act import HttpS3Connections
from konverge.reconcilers.shared.resolver import PublicResolver


@dataclass
class Server:
    """A server on the loopback address with one response to each request; `requests` has their first lines."""

    port: int = 0
    status: str = "200 OK"
    headers: str = ""
    requests: list[str] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which has one request."""
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head.split(b"\r\n", 1)[0].decode())
            reply = f"HTTP/1.1 {self.status}\r\n{self.headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
            writer.write(reply.encode())
            await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Server]:
    server = Server(**options)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await listener.wait_closed()


class Loopback(AbstractResolver):
    """Resolves every name to the loopback address."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        flags = socket.AI_NUMERICHOST
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=flags)]

    async def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
async def connections() -> AsyncIterator[HttpS3Connections]:
    made = HttpS3Connections(seconds=5, resolver=PublicResolver(Loopback()))
    yield made
    await made.close()


def account(endpoint: str, **options: Any) -> S3Access:
    return S3Access(endpoint=endpoint, access_key="key", secret_key="hunter2", **options)


@pytest.mark.parametrize("path_style", [True, False])
async def test_name_with_a_private_address_gets_no_connection(
    connections: HttpS3Connections, *, path_style: bool
) -> None:
    async with serving() as server:
        access = account(f"http://s3.example.com:{server.port}", public_only=True, path_style=path_style)
        async with connections.of(access) as api:
            with pytest.raises(BucketFailure) as raised:
                await api.head("nc-a")
    assert raised.value.reason == BucketReason.ENDPOINT
    assert not raised.value.transient
    assert "pools.instances.s3_endpoints" in str(raised.value)
    assert server.requests == []


async def test_server_of_the_administrators_may_have_a_private_address(connections: HttpS3Connections) -> None:
    async with serving() as server, connections.of(account(f"http://localhost:{server.port}")) as api:
        assert await api.head("nc-a")
    assert server.requests == ["HEAD /nc-a HTTP/1.1"]


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent"])
async def test_redirect_to_another_host_is_not_followed(connections: HttpS3Connections, status: str) -> None:
    async with serving() as target:
        location = f"Location: http://127.0.0.1:{target.port}/latest/meta-data\r\n"
        async with (
            serving(status=status, headers=location) as server,
            connections.of(account(f"http://127.0.0.1:{server.port}")) as api,
        ):
            with pytest.raises(BucketFailure):
                await api.head("nc-a")
            with pytest.raises(BucketFailure):
                await api.create("nc-a")
    assert len(server.requests) == 2
    assert target.requests == []


async def test_no_proxy_resolves_the_name_of_a_tenants_server(
    connections: HttpS3Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        async with connections.of(account("http://s3.example.com", public_only=True)) as api:
            with pytest.raises(BucketFailure):
                await api.head("nc-a")
    assert proxy.requests == []
