"""Connections that end with a TCP reset, on real sockets: a request may have been executed if the server read its first byte."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from random import Random

import pytest

from konverge.client import Client, ClientConfig, ClientSettings
from konverge.client.http_transport import LARGE_BODY
from konverge.errors import Unreachable
from konverge.kinds import kind
from konverge.metrics import Metrics

CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
DISCOVERY = b'{"kind":"APIResourceList","resources":[{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["get"]}]}'


class ResettingServer:
    """Serves discovery; reads some of every other request, sends `sends`, and resets the connection."""

    def __init__(self, sends: bytes, whole: bool) -> None:
        self.sends = sends
        self.whole = whole
        self.requests: list[bytes] = []

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while (first := await reader.readexactly(1)) != b"":
                if first == b"G":
                    await reader.readuntil(b"\r\n\r\n")
                    head = (
                        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(DISCOVERY)}\r\n\r\n"
                    )
                    writer.write(head.encode() + DISCOVERY)
                    continue
                line = first + (await reader.readuntil(b"\r\n\r\n") if self.whole else b"")
                self.requests.append(line)
                if self.sends:
                    writer.write(self.sends)
                    await writer.drain()
                # With a linger time of zero the close sends a reset.
                with contextlib.suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                writer.transport.abort()
                return


@pytest.mark.parametrize("size", [10, LARGE_BODY * 4], ids=["over the bare connection", "through a session"])
@pytest.mark.parametrize(
    ("sends", "whole"),
    [(b"", False), (b"", True), (b"HTTP/1.1 201 Created\r\nContent-Length: 9000\r\n\r\n{", True)],
    ids=["after the first byte of the request", "after the request", "inside the response"],
)
async def test_create_with_a_reset_connection_has_unknown_outcome_and_no_retry(
    sends: bytes, whole: bool, size: int
) -> None:
    server = ResettingServer(sends, whole)
    async with (
        server.serve() as url,
        Client(
            ClientConfig.direct(url), name="t", settings=ClientSettings(), metrics=Metrics(), random=Random(1)
        ) as client,
    ):
        await client.resource(CONFIG_MAP)  # so that the request uses a pooled connection
        with pytest.raises(Unreachable) as caught:
            await client.create(CONFIG_MAP.new("a", "web", data={"x": "y" * size}))
    assert caught.value.maybe_done
    assert [one[:4] for one in server.requests] == [b"POST" if whole else b"P"]


async def test_an_apply_whose_connection_is_reset_is_sent_again() -> None:
    server = ResettingServer(b"", whole=True)
    async with (
        server.serve() as url,
        Client(
            ClientConfig.direct(url), name="t", settings=ClientSettings(attempts=3), metrics=Metrics(), random=Random(1)
        ) as client,
    ):
        with pytest.raises(Unreachable):
            await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "web"}, "data": {}})
    assert [one[:5] for one in server.requests] == [b"PATCH"] * 3
