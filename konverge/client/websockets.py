"""Websockets by aiohttp: the messages of one connection, and the response of a server that refuses to open it.

Guarantees: the body of a refusal is read, because it holds the server's reason; aiohttp's own error for a refusal drops the body. A ping
every 30 s keeps silent connections alive in load balancers. Nothing is buffered here: aiohttp stops reading from the socket while the
caller does not receive.

Caveats: a missing pong is ignored, because a server that waits for a slow command reads no pings. TCP detects a dead peer
(`sessions.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from konverge.errors import Unreachable

__all__ = ["HttpWebSocket", "Unopened", "keep_refusals", "pinged"]

_PING_SECONDS: Final = 30.0
_NORMAL: Final = frozenset({aiohttp.WSCloseCode.OK, aiohttp.WSCloseCode.GOING_AWAY, 1005, None})
"""Codes of a close frame that end the messages; 1005 and None mean a frame without a code."""


class Unopened(Exception):
    """The response of a server that opens no websocket, with its body read."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response


async def keep_refusals(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raise Unopened for a response other than 101 to the opening request of a websocket."""
    response = await handler(request)
    if response.status != 101 and "Sec-WebSocket-Key" in request.headers:
        await response.read()
        raise Unopened(response)
    return response


class HttpWebSocket:
    """One websocket; `unreachable` converts an error of aiohttp."""

    status = 101

    def __init__(
        self, websocket: aiohttp.ClientWebSocketResponse, unreachable: Callable[[Exception], Unreachable]
    ) -> None:
        self._websocket = websocket
        self._unreachable = unreachable
        self.protocol = websocket.protocol or ""

    async def receive(self) -> bytes:
        """Return the next message, b"" after a close frame."""
        message = await self._websocket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        if message.type is aiohttp.WSMsgType.CLOSE and message.data in _NORMAL:
            return b""
        error = self._websocket.exception()
        raise self._unreachable(
            error
            if isinstance(error, Exception)
            else aiohttp.ServerDisconnectedError(f"closed: {message.extra or message.data}")
        )

    async def send(self, message: bytes) -> None:
        """Send a binary message."""
        try:
            await self._websocket.send_bytes(message)
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error


@asynccontextmanager
async def pinged(websocket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[None]:
    """Ping the server until the block ends, then close the websocket."""
    pinging = asyncio.get_running_loop().create_task(_ping(websocket))
    try:
        yield
    finally:
        pinging.cancel()
        await websocket.close()


async def _ping(websocket: aiohttp.ClientWebSocketResponse) -> None:
    while not websocket.closed:
        await asyncio.sleep(_PING_SECONDS)
        try:
            await websocket.ping()
        except (aiohttp.ClientError, OSError):
            return  # the next `receive` or `send` raises the error
