"""Connections to a port of a pod, through the API server.

Guarantees: the bytes of the pod arrive as the kubelet sends them, and nothing is read ahead. A port on which nothing listens raises
Unreachable with the kubelet's reason.

Caveats: the protocol closes both directions together, so a peer that waits for the end of input before it responds waits for ever. Each
connection is a websocket of its own.

The protocol is `v4.channel.k8s.io` of the kubelet (channel 0 data, channel 1 errors; the first message of each holds the port), which
every supported API server passes on. The newer tunnel of SPDY (KEP-4006) needs an implementation of SPDY in the client, for no more than
the end of one direction: docs/adr/0040. Source: kubelet `pkg/kubelet/kuberuntime`, streaming `portforward/websocket.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from konverge.client import requests
from konverge.client.requests import Request
from konverge.client.resources import PODS
from konverge.client.transport import WebSocket
from konverge.errors import KonvergeError, Unreachable, UsageError
from konverge.logs import get_logger
from konverge.tasks import cancel_and_wait
from konverge.words import LogKey

__all__ = ["PortConnection", "listening", "port_request"]

_log = get_logger("konverge.client")

_DATA: Final = b"\x00"
_ERROR: Final = 1
_CHUNK: Final = 32 * 1024
_LAST_PORT: Final = 65535
_HOST: Final = "127.0.0.1"


def port_request(name: str, namespace: str, port: int) -> Request:
    """Return the request of a connection to a port."""
    if not 0 < port <= _LAST_PORT:
        raise UsageError(f"port {port} of pod {namespace}/{name}: a port is between 1 and {_LAST_PORT}")
    return requests.connect(
        PODS,
        namespace,
        name,
        "portforward",
        params=[("ports", str(port))],
        protocols=("v4.channel.k8s.io",),
    )


class PortConnection:
    """One connection to a port of a pod."""

    def __init__(self, websocket: WebSocket, what: str) -> None:
        self._websocket = websocket
        self._what = what
        self._begun: set[int] = set()

    async def read(self) -> bytes:
        """Return the bytes that have arrived, at least one; b"" after the pod has closed the connection.

        Raises Unreachable if the port refuses the connection or the connection is cut.
        """
        while message := await self._websocket.receive():
            channel, data = message[0], message[1:]
            if channel not in self._begun:
                self._begun.add(channel)
            elif channel == _ERROR:
                raise Unreachable(f"{self._what}: {data.decode(errors='replace').strip()}", maybe_done=True)
            elif data:
                return data
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the pod reads slowly."""
        for start in range(0, len(data), _CHUNK):
            await self._websocket.send(_DATA + data[start : start + _CHUNK])


@asynccontextmanager
async def listening(
    connect: Callable[[], AbstractAsyncContextManager[PortConnection]], what: str, local_port: int
) -> AsyncIterator[int]:
    """Listen on the loopback, and connect each accepted connection to the pod, until the block ends."""
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_carry(connect, what, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, _HOST, local_port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await cancel_and_wait(*tasks)
        await server.wait_closed()


async def _carry(
    connect: Callable[[], AbstractAsyncContextManager[PortConnection]],
    what: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Carry one local connection until either side closes it."""
    try:
        async with connect() as remote:
            copies = {asyncio.ensure_future(_send(reader, remote)), asyncio.ensure_future(_return(remote, writer))}
            try:
                done, _ = await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
                for copy in done:
                    copy.result()
            finally:
                await cancel_and_wait(*copies)
    except (KonvergeError, OSError) as error:
        _log.warning("a forwarded connection failed", **{LogKey.REQUEST: what, LogKey.ERROR: str(error)})
    finally:
        writer.close()


async def _send(reader: asyncio.StreamReader, remote: PortConnection) -> None:
    while data := await reader.read(_CHUNK):
        await remote.write(data)


async def _return(remote: PortConnection, writer: asyncio.StreamWriter) -> None:
    while data := await remote.read():
        writer.write(data)
        await writer.drain()
