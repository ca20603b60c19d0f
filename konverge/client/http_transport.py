"""The transport over HTTP, by aiohttp.

`HttpTransport` keeps two sessions, one for calls and one for watches, so that a hundred watches do not starve the calls.

Guarantees: redirects are ignored; the transport does not retry. Every failure below HTTP raises `Unreachable`, with `maybe_done` if the
request may have arrived. After a rotation, new connections use the new certificates and open watches continue. `sessions.py` holds the
guarantees of connections.

A call takes a connection of aiohttp's pool, without a session around it. aiohttp keeps the connections (pool, TLS, name look-up, limits)
and parses the responses. A session also handles redirects, cookies, netrc, trace hooks, form bodies and a task per request body, and a
call to an API server needs none of these. For a status apply they are about half of a session's cost (docs/adr/0006). The bytes on the
wire and the errors are the session's, except for the order of headers. If `is_supported` finds that the installed aiohttp lacks a part
that `RoundTripper` uses, or a request is unusual (a proxy, a large body, a target that has to be escaped), the session carries the request.

Caveats: the transport sets no deadline for an attempt; the caller does.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, lru_cache
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from konverge.client.api_warnings import texts_of
from konverge.client.credentials import Credentials, CredentialSource, FixedCredentials, TlsMaterial
from konverge.client.requests import Request
from konverge.client.sessions import Broken, open_session, refuse_loops_that_bypass_sockets, sockets_closed
from konverge.client.settings import ClientSettings
from konverge.client.status import retry_after_seconds
from konverge.client.tls import TlsOptions, handshake_hint, make_context
from konverge.client.transport import Fence, OpenStream, Response, WebSocket
from konverge.client.websockets import HttpWebSocket, Unopened, pinged
from konverge.clock import wall_clock
from konverge.errors import ConfigError, Unreachable, UsageError
from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["LARGE_BODY", "HttpTransport", "RoundTripper", "is_plain", "is_supported"]

_log = get_logger("konverge.client")

LARGE_BODY = 64 * 1024
"""The size in bytes above which a body is sent piece by piece, so that it does not block the loop."""

_PLAIN = re.compile(r"/[!-~]*").fullmatch
_UNSAFE = re.compile(r"[\r\n\0]").search
_WANTED = {"read_until_eof", "auto_decompress"}
_SENT_ONCE = frozenset({"PATCH", "POST"})
"""Methods that aiohttp does not repeat by itself, so that they need no `_no_second_attempt`."""
_MAX_HEADER_SETS = 64
"""The largest number of combinations of Accept and Content-Type whose headers are cached."""


_NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
    aiohttp.ServerFingerprintMismatch,
)


class _HttpStream:
    """The body of one aiohttp response, read in parts."""

    def __init__(self, transport: HttpTransport, request: Request, response: aiohttp.ClientResponse) -> None:
        self._transport = transport
        self._request = request
        self._content = response.content
        self.status = response.status
        self.content_type = response.content_type
        self.retry_after = _retry_after(response.headers)
        self.warnings = texts_of(response.headers.getall("Warning", ()))

    async def read(self) -> bytes:
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError, RuntimeError) as error:  # RuntimeError: read after the connection closed
            raise self._transport.unreachable(self._request, error) from error


async def _whole(response: aiohttp.ClientResponse) -> Response:
    """Read the rest of a response. Raises ClientError, OSError."""
    body, warnings = await response.read(), texts_of(response.headers.getall("Warning", ()))
    return Response(response.status, body, response.content_type, _retry_after(response.headers), warnings)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    header = headers.get("Retry-After")
    return retry_after_seconds(header, wall_clock()) if header else None


class HttpTransport:
    """Carries requests over HTTP/1.1; connects when it is first used."""

    def __init__(
        self,
        *,
        server: str,
        source: CredentialSource,
        options: TlsOptions,
        proxy: str,
        settings: ClientSettings,
        user_agent: str,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._server = server
        self._secure = server.startswith("https:")
        self._source = source
        self._fixed = source.credentials if isinstance(source, FixedCredentials) else None
        self._options = options
        self._proxy = proxy or None
        self._settings = settings
        self._user_agent = user_agent
        self._check = check
        self._headers = {
            "User-Agent": user_agent,
            "Accept-Encoding": "gzip" if settings.compression else "identity",
        }
        self._calls: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self._material: TlsMaterial | None = None
        self._prepared: Credentials | None = None
        self._context: Any = True
        self._tls_lock = asyncio.Lock()
        self._closed = False
        self._round_tripper: tuple[Any, RoundTripper] | None = None
        self._header_cache: dict[tuple[str, str], tuple[Credentials, tuple[tuple[str, str], ...]]] = {}
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def fenced(self, fence: Fence) -> HttpTransport:
        """Return a transport with the same credentials and connections of its own, on which the fence is checked before each send.

        Raises UsageError on a loop that would not check it.
        """
        refuse_loops_that_bypass_sockets()
        return HttpTransport(
            server=self._server,
            source=self._source,
            options=self._options,
            proxy=self._proxy or "",
            settings=self._settings,
            user_agent=self._user_agent,
            check=fence.check,
        )

    async def prepare(self) -> None:
        """Renew credentials and TLS context if they are due. The next `send` uses these credentials."""
        self._prepared = await self._credentials()

    async def _credentials(self) -> Credentials:
        credentials = self._fixed or await self._source.current()
        if self._secure and credentials.tls is not self._material and credentials.tls != self._material:
            async with self._tls_lock:
                if credentials.tls != self._material:
                    await self._renew_context(credentials.tls)
        return credentials

    async def _renew_context(self, material: TlsMaterial) -> None:
        try:
            self._context = await asyncio.to_thread(make_context, material, self._options)
        except ConfigError as error:
            if self._material is None:
                raise
            _log.warning("new TLS certificates do not work, the old ones are used", **{LogKey.ERROR: str(error)})
        self._material = material

    def _session(self, *, limit: int) -> aiohttp.ClientSession:
        if self._closed:
            raise UsageError("the client is closed; make requests inside its `async with` block")
        return open_session(self._settings, self._headers, self._sockets, limit=limit, check=self._check)

    async def _request_headers(self, request: Request) -> list[tuple[str, str]]:
        """Return the headers that a session does not add by itself."""
        credentials = await self._credentials()
        headers = [("Accept", request.accept), *credentials.headers, *request.headers]
        if credentials.authorization:
            headers.append(("Authorization", credentials.authorization))
        return headers

    async def _start(self, session: aiohttp.ClientSession, request: Request) -> aiohttp.ClientResponse:
        headers = await self._request_headers(request)
        data: bytes | io.BytesIO | None = request.body
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
            if len(request.body) > LARGE_BODY:
                data = io.BytesIO(request.body)  # as a stream, so that it does not block the loop
        try:
            response = await session.request(
                request.method,
                URL(self._server + request.target, encoded=True),
                headers=headers,
                data=data,
                allow_redirects=False,
                ssl=self._context,
                server_hostname=self._options.server_name or None,
                proxy=self._proxy,
                middlewares=() if request.method in _SENT_ONCE else None,
            )
        except Broken as broken:
            raise self.unreachable(request, broken.error) from broken.error
        except (aiohttp.ClientError, OSError) as error:
            raise self.unreachable(request, error) from error
        if response.status == 401:
            self._source.distrust()
        return response

    async def send(self, request: Request) -> Response:
        """Send a request and return the whole response."""
        if self._calls is None:
            self._calls = self._session(limit=self._settings.max_in_flight)
        if self._proxy is None and is_supported():
            # `Sender` awaits `prepare` directly before this call. Any other caller pays for the credentials here.
            credentials, self._prepared = self._prepared or await self._credentials(), None
            headers = self._headers_for(request, credentials)
            if is_plain(request, headers):
                return await self._round_trip(request, headers)
        async with await self._start(self._calls, request) as response:
            try:
                return await _whole(response)
            except (aiohttp.ClientError, OSError) as error:
                raise self.unreachable(request, error) from error

    def _headers_for(self, request: Request, credentials: Credentials) -> tuple[tuple[str, str], ...]:
        """All headers except Content-Length; cached, because `_header_block` caches the encoded block by this tuple."""
        cached = self._header_cache.get((request.accept, request.content_type))
        if cached is not None and cached[0] is credentials:
            return cached[1]
        headers = [*self._headers.items(), ("Accept", request.accept), *credentials.headers]
        if credentials.authorization:
            headers.append(("Authorization", credentials.authorization))
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        if len(self._header_cache) > _MAX_HEADER_SETS:
            self._header_cache.clear()
        self._header_cache[request.accept, request.content_type] = (credentials, tuple(headers))
        return tuple(headers)

    async def _round_trip(self, request: Request, headers: tuple[tuple[str, str], ...]) -> Response:
        assert self._calls is not None
        if self._round_tripper is None or self._round_tripper[0] is not self._context:
            round_tripper = RoundTripper(
                self._calls,
                self._server,
                ssl=self._context,
                server_hostname=self._options.server_name or None,
                timeout=self._calls.timeout,
                loop=asyncio.get_running_loop(),
            )
            self._round_tripper = (self._context, round_tripper)
        try:
            response = await self._round_tripper[1].send(request, headers)
        except (aiohttp.ClientError, OSError) as error:
            raise self.unreachable(request, error) from error
        if response.status == 401:
            self._source.distrust()
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[OpenStream]:
        """Send a request and enter its response. The connection is never used again."""
        if self._watches is None:
            self._watches = self._session(limit=0)
        response = await self._start(self._watches, request)
        try:
            yield _HttpStream(self, request, response)
        finally:
            # A watch is left in the middle of a line, so the connection is aborted without a TLS shutdown.
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()
            response.close()

    @asynccontextmanager
    async def websocket(self, request: Request) -> AsyncIterator[WebSocket | Response]:
        """Open a websocket, over a connection of its own."""
        if self._watches is None:
            self._watches = self._session(limit=0)
        headers = await self._request_headers(request)
        refusal = None
        try:
            websocket = await self._watches.ws_connect(
                URL(self._server + request.target, encoded=True),
                protocols=request.protocols,
                headers=headers,
                ssl=self._context,
                server_hostname=self._options.server_name or None,
                proxy=self._proxy,
                timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
            )
        except Unopened as refused:
            refusal = await _whole(refused.response)
        except Broken as broken:
            raise self.unreachable(request, broken.error) from broken.error
        except (aiohttp.ClientError, OSError) as error:
            raise self.unreachable(request, error) from error
        if refusal is None:
            async with pinged(websocket):
                yield HttpWebSocket(websocket, lambda error: self.unreachable(request, error))
            return
        if refusal.status == 401:
            self._source.distrust()
        yield refusal

    def unreachable(self, request: Request, error: Exception) -> Unreachable:
        """Convert an error below HTTP to Unreachable, with `maybe_done` if the request may have arrived."""
        # aiohttp shows its TLS context in the text of a connection error; the OSError below it holds the reason.
        below = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        words = str(below) or type(below).__name__
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            words = f"no connection within {self._settings.connect_timeout:g} s"
        hint = handshake_hint(error, self._options)
        return Unreachable(
            f"{request.what}: {self._server}: {words}{hint}", maybe_done=not isinstance(error, _NEVER_SENT)
        )

    async def close(self) -> None:
        """Close all connections; requests after this are a UsageError."""
        self._closed = True
        sessions = [session for session in (self._calls, self._watches) if session is not None]
        self._calls = self._watches = None
        for session in sessions:
            await session.close()
        await sockets_closed(self._sockets)


@cache
def is_supported() -> bool:
    """Whether the installed aiohttp has the undocumented parts that `RoundTripper` uses."""
    connect = inspect.signature(aiohttp.TCPConnector.connect).parameters
    prepared = inspect.signature(ResponseHandler.set_response_params).parameters
    return list(connect) == ["self", "req", "traces", "timeout"] and prepared.keys() >= _WANTED


def is_plain(request: Request, headers: tuple[tuple[str, str], ...]) -> bool:
    """Whether a request may be written unchanged: nothing in it needs escaping, and its body is sent in one piece."""
    small = request.body is None or len(request.body) <= LARGE_BODY
    return small and _PLAIN(request.target) is not None and bool(_header_block(headers))


def _encoded(headers: tuple[tuple[str, str], ...]) -> str:
    """Encode headers for the wire; "" if one of them holds a line break."""
    if any(_UNSAFE(name + value) for name, value in headers):
        return ""
    return "".join(f"{name}: {value}\r\n" for name, value in headers)


_header_block = lru_cache(maxsize=64)(_encoded)
"""Cached, because most requests share their headers."""


class RoundTripper:
    """Sends requests to one server over the connections of a session, with one TLS context."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        *,
        ssl: Any,
        server_hostname: str | None,
        timeout: aiohttp.ClientTimeout,
        loop: Any,
    ) -> None:
        connector = session.connector
        assert connector is not None
        self._connector = connector
        self._timeout = timeout
        # The key of the connections in the pool; this request itself is never sent.
        self._connection_key = aiohttp.ClientRequest(
            "GET", URL(server), loop=loop, session=session, ssl=ssl, server_hostname=server_hostname
        )
        self._host = self._connection_key.headers["Host"]
        # kcp and Rancher serve many API servers on one host, each below a path of its own.
        self._path = self._connection_key.url.raw_path.rstrip("/")

    async def send(self, request: Request, headers: tuple[tuple[str, str], ...]) -> Response:
        """Send a request and return the whole response. Raises ClientError, OSError."""
        sent = request.body
        length = "" if sent is None else f"Content-Length: {len(sent)}\r\n"
        own = _encoded(request.headers) if request.headers else ""
        head = (
            f"{request.method} {self._path}{request.target} HTTP/1.1\r\n"
            f"Host: {self._host}\r\n{_header_block(headers)}{own}{length}\r\n"
        )
        try:
            connection = await self._connector.connect(self._connection_key, traces=[], timeout=self._timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"no connection to {self._host} in time") from error
        try:
            protocol = connection.protocol
            transport = connection.transport
            if protocol is None or transport is None:
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(read_until_eof=True, auto_decompress=True)
            transport.write(head.encode("latin-1") + (sent or b""))
            message, payload = await protocol.read()
            while message.code < 200:  # an interim response, for instance "Early Hints"
                message, payload = await protocol.read()
            body = await payload.read()
        except HttpProcessingError as error:
            connection.close()
            raise aiohttp.ClientPayloadError(f"the response is not HTTP: {error.message}") from error
        except BaseException:
            connection.close()
            raise
        connection.release()
        fields = message.headers
        retry_after = _retry_after(fields) if "Retry-After" in fields else None
        warnings = texts_of(fields.getall("Warning")) if "Warning" in fields else ()
        media_type = fields.get("Content-Type", "").partition(";")[0].strip().lower()
        return Response(message.code, body, media_type, retry_after, warnings)
