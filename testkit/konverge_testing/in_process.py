"""A client's transport to a request handler in the same process: the shell without sockets.

    async with Client(in_process(server.handle)) as client: ...

Guarantees: the transport starts nothing and waits for no real time, so it runs on `konverge_testing.VirtualTimeLoop`. Other tasks run
before and after the handler, while a request and its response travel, as over a network; a cancelled call may have been handled. A request
that a fault drops raises `Unreachable`. Closing the transport ends its streams.

Caveats: only the headers that a client sends (Accept, Content-Type, User-Agent, the request's own); no compression, no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from konverge.client.api_warnings import texts_of
from konverge.client.config import ClientConfig
from konverge.client.requests import Request
from konverge.client.settings import ClientSettings
from konverge.client.status import retry_after_seconds
from konverge.client.transport import OpenStream, Response, Transport, WebSocket
from konverge.clock import wall_clock
from konverge.errors import Unreachable, UsageError
from konverge_testing.apiserver import requests
from konverge_testing.apiserver.faults.streams import Dropped, close_lines
from konverge_testing.apiserver.requests import ADMIN, Call, Query, User, read_target
from konverge_testing.apiserver.shells import Handler, Pump, answered, refusal, warning_headers
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.in_process_websocket import InProcessWebSocket

__all__ = ["InProcessTransport", "in_process"]


def in_process(handle: Handler, *, user: User = ADMIN, namespace: str = "") -> ClientConfig:
    """Return a configuration for clients whose requests a handler gets as a user's, without authentication."""

    def make(_config: ClientConfig, _settings: ClientSettings, user_agent: str) -> Transport:
        return InProcessTransport(handle, user=user, user_agent=user_agent)

    return ClientConfig.over(make, namespace=namespace)


class InProcessTransport:
    """Carries requests to a handler; see the module."""

    def __init__(self, handle: Handler, *, user: User = ADMIN, user_agent: str = "") -> None:
        self._handle = handle
        self._user = user
        self._user_agent = user_agent
        self._streams: set[_InProcessStream | InProcessWebSocket] = set()
        self._closed = False

    async def prepare(self) -> None:
        """Needs no setup."""

    def _call(self, request: Request) -> Call:
        headers = {"accept": request.accept, "user-agent": self._user_agent}
        if request.body is not None:
            headers["content-type"] = request.content_type
        if request.protocols:
            headers |= {"upgrade": "websocket", "sec-websocket-protocol": ",".join(request.protocols)}
        for name, value in request.headers:
            headers[name.lower()] = value
        path, params = request.path, request.params
        if "?" in path or "%" in path:
            path, query = read_target(path)
            params = (*query.pairs, *params)
        return Call(request.method, path, Query(params), headers, request.body or b"", self._user)

    async def _answer(self, request: Request) -> requests.Response:
        if self._closed:
            raise UsageError("the client is closed; make requests inside its `async with` block")
        await asyncio.sleep(0)
        try:
            return await answered(self._handle, self._call(request))
        except StatusError as error:
            return refusal(error)
        except Dropped as error:
            raise _unreachable(request, error) from error

    async def send(self, request: Request) -> Response:
        """Send a request and return the whole response."""
        return await self._whole(request, await self._answer(request))

    async def _whole(self, request: Request, answer: requests.Response) -> Response:
        body = answer.body
        if answer.stream is not None:
            body = await _read_all(request, answer.stream)
        await asyncio.sleep(0)
        return Response(answer.status, body, _media_type(answer), _retry_after(answer), _warnings(answer))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[OpenStream]:
        """Send a request and open its response as a stream; leaving closes the stream."""
        answer = await self._answer(request)
        stream = _InProcessStream(request, answer)
        self._streams.add(stream)
        try:
            await asyncio.sleep(0)
            yield stream
        finally:
            self._streams.discard(stream)
            await stream.close()

    @asynccontextmanager
    async def websocket(self, request: Request) -> AsyncIterator[WebSocket | Response]:
        """Open a websocket, or enter the refusal; leaving ends the session of the server."""
        answer = await self._answer(request)
        if answer.session is None:
            yield await self._whole(request, answer)
            return
        websocket = InProcessWebSocket(request.what, answer.session, answer.protocol)
        self._streams.add(websocket)
        try:
            await asyncio.sleep(0)
            yield websocket
        finally:
            self._streams.discard(websocket)
            await websocket.close()

    async def close(self) -> None:
        """End all streams; requests after this are a UsageError."""
        self._closed = True
        for stream in tuple(self._streams):
            await stream.close()


class _InProcessStream:
    """The body of a response, in chunks."""

    def __init__(self, request: Request, answer: requests.Response) -> None:
        self._request = request
        self._body = answer.body
        self._pump = None if answer.stream is None else Pump(answer.stream)
        self._closed = False
        self.status = answer.status
        self.content_type = _media_type(answer)
        self.retry_after = _retry_after(answer)
        self.warnings = _warnings(answer)

    async def read(self) -> bytes:
        if self._pump is None:
            chunk, self._body = self._body, b""
        else:
            try:
                chunk = await self._pump.read()
            except Dropped as error:
                raise _unreachable(self._request, error) from error
        if self._closed:
            raise Unreachable(f"{self._request.what}: the connection was closed")
        return chunk

    async def close(self) -> None:
        self._closed = True
        if self._pump is not None:
            await self._pump.close()


async def _read_all(request: Request, lines: AsyncIterator[bytes]) -> bytes:
    try:
        return b"".join([line async for line in lines])
    except Dropped as error:
        raise _unreachable(request, error) from error
    finally:
        await close_lines(lines)


def _unreachable(request: Request, error: Dropped) -> Unreachable:
    return Unreachable(f"{request.what}: the connection was dropped by a fault", maybe_done=error.maybe_done)


def _media_type(answer: requests.Response) -> str:
    return answer.content_type.partition(";")[0]


def _warnings(answer: requests.Response) -> tuple[str, ...]:
    return texts_of(warning_headers(answer.warnings)) if answer.warnings else ()


def _retry_after(answer: requests.Response) -> float | None:
    header = answer.headers.get("Retry-After")
    return None if header is None else retry_after_seconds(header, wall_clock())
