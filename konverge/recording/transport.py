"""The transport of a recording: it notes each request of a reconcile with its response."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from konverge.client.transport import FencesSockets, OpenStream, Response, Transport, WebSocket, opened

if TYPE_CHECKING:
    from konverge.client import Fence
    from konverge.client.requests import Request

__all__ = ["Responded", "recorded_transport"]


class Responded(Protocol):
    """The function for the end of a request."""

    def __call__(self, response: Response | None, error: BaseException | None = None) -> None:
        """Take the response, or the error in its place."""


class _RecordedTransport:
    """Passes everything on; `note` is called with each request, and returns the function for its response."""

    def __init__(self, inner: Transport, note: Callable[[Request], Responded]) -> None:
        self._inner = inner
        self._note = note
        self.prepare, self.close = inner.prepare, inner.close

    async def send(self, request: Request) -> Response:
        responded = self._note(request)
        try:
            response = await self._inner.send(request)
        except BaseException as error:
            responded(None, error)
            raise
        responded(response)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[OpenStream]:
        return self._inner.stream(request)

    def websocket(self, request: Request) -> AbstractAsyncContextManager[WebSocket | Response]:
        return opened(self._inner, request)


class _WithSockets(_RecordedTransport):
    """The same over a transport with sockets, whose writes a fence checks."""

    def fenced(self, fence: Fence) -> Transport:
        assert isinstance(self._inner, FencesSockets)
        return recorded_transport(self._inner.fenced(fence), self._note)


def recorded_transport(inner: Transport, note: Callable[[Request], Responded]) -> Transport:
    """Return a transport over another transport, which notes each request, apart from streams and websockets."""
    return (_WithSockets if isinstance(inner, FencesSockets) else _RecordedTransport)(inner, note)
