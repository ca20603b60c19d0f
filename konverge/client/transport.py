"""The interface to one API server, and the fence of its writes: what every transport and every fence has in common.

http_transport.py   the transport over HTTP; in tests an API server in the same process implements `Transport`
fence.py            the transport that checks a fence before each write
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from konverge.client.requests import Request
from konverge.errors import UsageError

__all__ = ["Fence", "FencesSockets", "OpenStream", "OpensWebSockets", "Response", "Transport", "WebSocket", "opened"]


class Response(msgspec.Struct, frozen=True):
    """A whole response. The body stays out of the repr."""

    status: int
    body: bytes
    content_type: str = ""
    retry_after: float | None = None
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<response {self.status}, {len(self.body)} bytes of {self.content_type or 'unknown type'}>"


class OpenStream(Protocol):
    """A response whose body is read in parts. It may also have `warnings`, as a `Response` has."""

    status: int
    content_type: str
    retry_after: float | None

    async def read(self) -> bytes:
        """Return the bytes that arrived since the last call, at least one; b"" at the end. Raises Unreachable when cut off."""


class Transport(Protocol):
    """Sends requests to one API server. Callers set deadlines around its methods, so these must be cancellation-safe."""

    async def prepare(self) -> None:
        """Renew credentials and TLS context if needed; sends nothing."""

    async def send(self, request: Request) -> Response:
        """Send a request and return the whole response, whatever its status. Raises Unreachable."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[OpenStream]:
        """Send a request and enter its response; leaving closes the connection. Raises Unreachable."""

    async def close(self) -> None:
        """Close all connections."""


class WebSocket(Protocol):
    """An open websocket, whose messages are bytes."""

    status: int
    """101, the status of the response that opened it."""
    protocol: str
    """The subprotocol that the server chose."""

    async def receive(self) -> bytes:
        """Return the next message; b"" after the server has closed the websocket. Raises Unreachable when cut off."""

    async def send(self, message: bytes) -> None:
        """Send a message, which waits while the server reads slowly. Raises Unreachable."""


@runtime_checkable
class OpensWebSockets(Protocol):
    """A transport that also opens websockets."""

    def websocket(self, request: Request) -> AbstractAsyncContextManager[WebSocket | Response]:
        """Open a websocket, or enter the response if the server refuses; leaving closes the connection. Raises Unreachable."""


class Fence(Protocol):
    """Decides whether writes may leave the process."""

    def check(self) -> None:
        """Raise NotLeading if they may not."""


@runtime_checkable
class FencesSockets(Protocol):
    """A transport with sockets, each of whose sends can be checked."""

    def fenced(self, fence: Fence) -> Transport:
        """Return a transport to the same server with connections of its own, on which every send is checked."""


def opened(transport: Transport, request: Request) -> AbstractAsyncContextManager[WebSocket | Response]:
    """Open a websocket over a transport; raises UsageError if the transport opens none."""
    if not isinstance(transport, OpensWebSockets):
        raise UsageError(
            f"{request.what}: {type(transport).__name__} opens no websockets; give it the method `websocket`"
        )
    return transport.websocket(request)
