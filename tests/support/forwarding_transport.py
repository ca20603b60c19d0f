"""A transport that forwards every call to another transport, for subclasses that change requests, responses or streams."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from konverge.client import OpenStream, Response, Transport
from konverge.client.requests import Request
from konverge.client.transport import WebSocket, opened


class ForwardingTransport:
    """A transport in front of another transport."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def prepare(self) -> None:
        await self._inner.prepare()

    async def send(self, request: Request) -> Response:
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[OpenStream]:
        async with self._inner.stream(request) as stream:
            yield stream

    @asynccontextmanager
    async def websocket(self, request: Request) -> AsyncIterator[WebSocket | Response]:
        async with opened(self._inner, request) as websocket:
            yield websocket

    async def close(self) -> None:
        await self._inner.close()
