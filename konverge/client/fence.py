"""The fence: the last check before the bytes of a write are sent.

A leader that was paused, or whose event loop was blocked, wakes with an expired lease. The cancellation of its reconciles is too late for
the next write, so each write is checked when its bytes leave the process.

Guarantees: after the deadline of the fence no byte of its writes is handed to a socket, buffered parts of a large body included. Reads, and
the writes of clients without this fence, continue.

Caveats: the system call follows the check by some microseconds, and bytes in the kernel arrive later. Both delays are shorter than the
seconds between this deadline and the end of the lease, unless the machine is suspended at that very moment. client-go has no such check,
and ends the process:
https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from konverge.client.requests import Request
from konverge.client.transport import Fence, FencesSockets, OpenStream, Response, Transport, WebSocket, opened

__all__ = ["FencedTransport"]


class FencedTransport:
    """Lets reads through, and writes while the fence is open.

    A transport with sockets lends a second one for the writes, so that each send of a write is checked and no read is.
    """

    def __init__(self, inner: Transport, fence: Fence) -> None:
        self._inner = inner
        self._fence = fence
        self._writes = inner.fenced(fence) if isinstance(inner, FencesSockets) else inner

    async def prepare(self) -> None:
        """Renew credentials and TLS context if needed."""
        await self._inner.prepare()

    async def send(self, request: Request) -> Response:
        """Send a request; raises NotLeading for a write behind the fence."""
        if not request.writes:
            return await self._inner.send(request)
        self._fence.check()
        return await self._writes.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[OpenStream]:
        """Send a request and enter its response."""
        return self._inner.stream(request)

    @asynccontextmanager
    async def websocket(self, request: Request) -> AsyncIterator[WebSocket | Response]:
        """Open a websocket; raises NotLeading behind the fence."""
        self._fence.check()
        async with opened(self._writes, request) as websocket:
            yield websocket

    async def close(self) -> None:
        """Close the connections of the writes; the inner transport belongs to the client without a fence."""
        if self._writes is not self._inner:
            await self._writes.close()
