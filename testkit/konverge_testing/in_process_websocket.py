"""A websocket in the same process: two queues of messages between a client and a session of the server."""

from __future__ import annotations

import asyncio

from konverge.errors import Unreachable
from konverge_testing.apiserver.requests import Session

__all__ = ["InProcessWebSocket"]


class InProcessWebSocket:
    """The client's end; the session runs in a task of its own until it returns or the client closes the websocket."""

    status = 101

    def __init__(self, what: str, session: Session, protocol: str) -> None:
        self.protocol = protocol
        self._what = what
        self._received: asyncio.Queue[bytes] = asyncio.Queue()
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()
        self._closed = False
        self._task = asyncio.get_running_loop().create_task(self._serve(session))

    async def _serve(self, session: Session) -> None:
        try:
            await session(_ServerEnd(self._sent, self._received))
        finally:
            self._received.put_nowait(b"")

    async def receive(self) -> bytes:
        """Return the next message; b"" after the session."""
        message = await self._received.get()
        if not message:
            self._received.put_nowait(b"")
        if self._closed:
            raise Unreachable(f"{self._what}: the connection was closed", maybe_done=True)
        return message

    async def send(self, message: bytes) -> None:
        """Send a message."""
        if self._closed or self._task.done():
            raise Unreachable(f"{self._what}: the connection was closed", maybe_done=True)
        self._sent.put_nowait(message)
        await asyncio.sleep(0)

    async def close(self) -> None:
        """End the session and wait until it has ended."""
        self._closed = True
        self._task.cancel()
        await asyncio.wait({self._task})


class _ServerEnd:
    """The server's end."""

    def __init__(self, received: asyncio.Queue[bytes], sent: asyncio.Queue[bytes]) -> None:
        self._received = received
        self._sent = sent

    async def receive(self) -> bytes:
        return await self._received.get()

    async def send(self, message: bytes) -> None:
        self._sent.put_nowait(message)
        await asyncio.sleep(0)
