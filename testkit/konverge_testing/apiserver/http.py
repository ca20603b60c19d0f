"""The shell over HTTP/1.1 on loopback, for clients of other processes and other languages.

    async with HttpShell(server.handle, tls=True) as shell:
        write_kubeconfig(path, shell)

Guarantees: requests reach the handler unchanged (repeated parameters kept, header names in lower case, the path decoded). Responses are
sent at once, streams line by line. If a client disconnects, its stream ends and `aclose` is awaited. Stopping ends open
streams in good order and leaves no task and no socket. Responses over 128 KiB are compressed for clients that accept gzip. Bodies in
protobuf, which Go's typed clients send, are decoded into JSON here; responses are JSON, which those clients read too.

Caveats: no HTTP/2; of upgrades only websockets; over sockets time is real.

Source of the rules: k8s.io/apiserver `pkg/endpoints/handlers/responsewriters/writers.go` (compression), `pkg/server/filters` (headers).
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final, Self

from aiohttp import WSMsgType, web
from multidict import CIMultiDict

from konverge.errors import stack_of
from konverge.logs import get_logger
from konverge.words import LogKey
from konverge_testing.apiserver import protobuf, statuses
from konverge_testing.apiserver.certificates import Authority
from konverge_testing.apiserver.faults.streams import Dropped
from konverge_testing.apiserver.requests import Call, Response, Session, User, read_target
from konverge_testing.apiserver.shells import MAX_BODY, Handler, Pump, answered, refusal, too_large, warning_headers
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.apiserver.tls import server_context, user_of

__all__ = ["HttpShell"]

_log = get_logger("konverge_testing.apiserver")

HOST: Final = "127.0.0.1"
_COMPRESS: Final = 128 << 10
_PATIENCE: Final = 0.2
"""Seconds that running calls get to finish when the shell stops."""
_LONG_LINES: Final = 64 << 10


class HttpShell:
    """Serves a handler on a free port of loopback; `async with` starts and stops it.

    `tls` serves HTTPS with certificates of `authority` (created if none is given), and takes the user of a call from its client
    certificate. `context` serves HTTPS with other certificates instead, and `authority` stays None. `user` is the user of calls with
    neither a client certificate nor an Authorization header; None leaves the decision to the handler.
    """

    def __init__(
        self,
        handle: Handler,
        *,
        tls: bool = False,
        authority: Authority | None = None,
        context: ssl.SSLContext | None = None,
        user: User | None = None,
        port: int = 0,
    ) -> None:
        self._handle = handle
        self._tls = tls or authority is not None or context is not None
        self._given = context
        self._user = user
        self._port = port
        self._pumps: set[Pump] = set()
        self._runner: web.ServerRunner | None = None
        self.authority = authority
        """The authority that signs the certificates; None over plain HTTP and with a given context."""
        self.url = ""
        """The address of the shell while it listens."""

    async def __aenter__(self) -> Self:
        context = self._context()
        listening = socket.create_server((HOST, self._port))
        listening.setblocking(False)
        server = web.Server(
            self._serve,
            handler_cancellation=True,
            access_log=None,
            max_line_size=_LONG_LINES,
            max_field_size=_LONG_LINES,
            lingering_time=1.0,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_PATIENCE)
        try:
            await self._runner.setup()
            await web.SockSite(self._runner, listening, ssl_context=context, backlog=1024).start()
        except BaseException:
            listening.close()
            await self._runner.cleanup()
            raise
        self.url = f"{'https' if self._tls else 'http'}://{HOST}:{listening.getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            for site in tuple(self._runner.sites):
                await site.stop()
            for pump in tuple(self._pumps):
                pump.end()
            await self._runner.cleanup()
            self._runner = None

    def _context(self) -> ssl.SSLContext | None:
        if self._given is not None or not self._tls:
            return self._given
        if self.authority is None:
            self.authority = Authority.create("konverge-apiserver")
        return server_context(self.authority)

    # --- one request ------------------------------------------------------------------------------------------------------------

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
            return await self._send(request, answer)
        except Dropped:
            _abort(request)
            # aiohttp's way to end a handler without a response: it closes the connection.
            raise asyncio.CancelledError from None

    async def _answer(self, request: web.BaseRequest) -> Response:
        body = b""
        if request.can_read_body:
            found = await _read(request)
            if found is None:
                return refusal(too_large())
            body = found
        try:
            return await answered(self._handle, self._call(request, body))
        except StatusError as error:
            return refusal(error)
        except (Dropped, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  # as the real server: a panic is a 500
            _log_failure(request, error)
            return refusal(statuses.internal(f"{type(error).__name__}: {error}"))

    def _call(self, request: web.BaseRequest, body: bytes) -> Call:
        path, query = read_target(request.raw_path)
        headers: dict[str, str] = {}
        for name, value in request.headers.items():
            name = name.lower()
            headers[name] = f"{headers[name]},{value}" if name in headers else value
        if body and headers.get("content-type", "").startswith(protobuf.MEDIA_TYPE):
            body, headers["content-type"] = protobuf.as_json(body), "application/json"
        return Call(request.method, path, query, headers, body, self._user_of(request, headers))

    def _user_of(self, request: web.BaseRequest, headers: Mapping[str, str]) -> User | None:
        if self._tls:
            found = user_of(request.get_extra_info("peercert"))
            if found is not None:
                return found
        return None if "authorization" in headers else self._user

    # --- the response -------------------------------------------------------------------------------------------------------------

    async def _send(self, request: web.BaseRequest, answer: Response) -> web.StreamResponse:
        headers = CIMultiDict[str]({"Cache-Control": "no-cache, private", **answer.headers})
        headers.setdefault("Content-Type", answer.content_type)
        for warning in warning_headers(answer.warnings) if answer.warnings else ():
            headers.add("Warning", warning)
        if answer.session is not None:
            return await _converse(request, answer.session, answer.protocol)
        if answer.stream is not None:
            return await self._stream(request, answer, headers)
        body = answer.body
        if len(body) > _COMPRESS and _accepts_gzip(request):
            headers["Content-Encoding"] = "gzip"
            headers.add("Vary", "Accept-Encoding")
            body = gzip.compress(body, 1, mtime=0)
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _stream(
        self, request: web.BaseRequest, answer: Response, headers: CIMultiDict[str]
    ) -> web.StreamResponse:
        assert answer.stream is not None
        response = web.StreamResponse(status=answer.status, headers=headers)
        response.enable_chunked_encoding()
        pump = Pump(answer.stream)
        self._pumps.add(pump)
        try:
            await response.prepare(request)
            while chunk := await pump.read():
                await response.write(chunk)
            await response.write_eof()
        except Dropped:
            raise
        except ConnectionError:
            pass
        except Exception as error:  # noqa: BLE001  # whatever the handler's stream raises
            # Too late for a status: the connection is closed.
            _log_failure(request, error)
            _abort(request)
            raise asyncio.CancelledError from None
        finally:
            self._pumps.discard(pump)
            await pump.close()
        return response


class _Messages:
    """The messages of a websocket."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket

    async def receive(self) -> bytes:
        message = await self._websocket.receive()
        return bytes(message.data) if message.type is WSMsgType.BINARY else b""

    async def send(self, message: bytes) -> None:
        await self._websocket.send_bytes(message)


async def _converse(request: web.BaseRequest, session: Session, protocol: str) -> web.StreamResponse:
    websocket = web.WebSocketResponse(protocols=(protocol,))
    await websocket.prepare(request)
    try:
        await session(_Messages(websocket))
    except ConnectionError:
        pass  # the client has left
    await websocket.close()
    return websocket


async def _read(request: web.BaseRequest) -> bytes | None:
    """Read a body; None if it is longer than the limit."""
    if (request.content_length or 0) > MAX_BODY:
        return None
    parts, size = [], 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            return None
    return b"".join(parts)


def _accepts_gzip(request: web.BaseRequest) -> bool:
    offers = request.headers.get("Accept-Encoding", "")
    return any(offer.partition(";")[0].strip() == "gzip" for offer in offers.split(","))


def _log_failure(request: web.BaseRequest, error: Exception) -> None:
    _log.error("the server failed on a request", **{LogKey.URL: request.path, LogKey.STACK: stack_of(error)})


def _abort(request: web.BaseRequest) -> None:
    transport: Any = request.transport
    if transport is not None:
        transport.abort()
