"""The transport over HTTP, by aiohttp.

`HttpTransport` keeps two sessions, one for calls and one for watches, so that a hundred watches do not starve the calls.

Guarantees: a connection is established within `connect_timeout` (TLS included); TCP notices a dead peer (keepalive, user timeout); proxies,
cookies, redirects and netrc of the environment are ignored; the transport does not retry. Every failure below HTTP raises `Unreachable`,
with `maybe_done` if the request may have arrived. After a rotation, new connections use the new certificates and open watches
continue.

Caveats: the transport sets no deadline for an attempt; the caller does.
"""

from __future__ import annotations

import asyncio
import io
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

import aiohttp
from yarl import URL

from konverge.client.api_warnings import texts_of
from konverge.client.credentials import Credentials, CredentialSource, FixedCredentials, TlsMaterial
from konverge.client.requests import Request
from konverge.client.round_tripper import LARGE_BODY, RoundTripper, is_plain, is_supported
from konverge.client.settings import ClientSettings
from konverge.client.status import retry_after_seconds
from konverge.client.tls import TlsOptions, handshake_hint, make_context
from konverge.client.transport import Fence, OpenStream, Response
from konverge.clock import wall_clock
from konverge.errors import ConfigError, NotLeading, Unreachable, UsageError
from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["HttpTransport"]

_log = get_logger("konverge.client")

_SENT_ONCE = frozenset({"PATCH", "POST"})
"""Methods that aiohttp does not repeat by itself, so that they need no `_no_second_attempt`."""
_MAX_HEADER_SETS = 64
"""The largest number of combinations of Accept and Content-Type whose headers are cached."""
_CLOSE_TIMEOUT = 1.0
"""Seconds that `close` waits for the shutdown of connections."""


class _Broken(Exception):
    """Carries a transport error past aiohttp's own silent second attempt."""

    def __init__(self, error: Exception) -> None:
        self.error = error


async def _no_second_attempt(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Prevent aiohttp from repeating PUT and DELETE when a kept connection breaks, because `retry` decides that.

    Source: https://github.com/aio-libs/aiohttp/issues/10790
    """
    try:
        return await handler(request)
    except (aiohttp.ClientError, OSError) as error:
        raise _Broken(error) from error


_NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
    aiohttp.ServerFingerprintMismatch,
)


class _FencedSocket(socket.socket):
    """A socket that hands no byte to the kernel behind its fence; asyncio then ends the connection."""

    check: Callable[[], None]

    def send(self, *args: Any) -> int:
        self._check()
        return super().send(*args)

    def sendmsg(self, *args: Any) -> int:
        self._check()
        return super().sendmsg(*args)

    def _check(self) -> None:
        try:
            self.check()
        except NotLeading as error:
            raise ConnectionAbortedError(str(error)) from error


def _socket_factory(
    settings: ClientSettings, sockets: WeakSet[socket.socket], check: Callable[[], None] | None = None
) -> Any:
    """Return a factory of sockets that detect a silently dead peer; it adds each to `sockets`. `check` is called before each send."""
    options = [
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", max(1, int(settings.keepalive_idle))),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", max(1, int(settings.keepalive_idle / 3))),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", max(1, int(settings.tcp_user_timeout * 1000))),
    ]

    def make(address: tuple[Any, ...]) -> socket.socket:
        connection: socket.socket
        if check is None:
            connection = socket.socket(family=address[0], type=address[1], proto=address[2])
        else:
            connection = _FencedSocket(family=address[0], type=address[1], proto=address[2])
            connection.check = check
            # A connection that is given up drops what the kernel has not sent, so that nothing of it arrives after an outage.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for level, name, value in options:
            option = getattr(socket, name, None)  # not every platform has each of them
            if option is not None:
                connection.setsockopt(level, option, value)
        sockets.add(connection)
        return connection

    return make


class _HttpStream:
    """The body of one aiohttp response, read in parts."""

    def __init__(self, transport: HttpTransport, request: Request, response: aiohttp.ClientResponse) -> None:
        self._transport = transport
        self._request = request
        self._content = response.content
        self.status = response.status
        self.content_type = response.content_type
        self.retry_after = _retry_after(response)

    async def read(self) -> bytes:
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError, RuntimeError) as error:  # RuntimeError: read after the connection closed
            raise self._transport.unreachable(self._request, error) from error


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    header = response.headers.get("Retry-After")
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
        self._context: Any = True
        self._tls_lock = asyncio.Lock()
        self._closed = False
        self._round_tripper: tuple[Any, RoundTripper] | None = None
        self._header_cache: dict[tuple[str, str], tuple[Credentials, tuple[tuple[str, str], ...]]] = {}
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def fenced(self, fence: Fence) -> HttpTransport:
        """Return a transport with the same credentials and connections of its own, on which the fence is checked before each send."""
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
        """Renew credentials and TLS context if they are due."""
        await self._credentials()

    async def _credentials(self) -> Credentials:
        credentials = self._fixed or await self._source.current()
        if self._secure and credentials.tls != self._material:
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
        connector = aiohttp.TCPConnector(
            limit=limit,
            keepalive_timeout=self._settings.pool_idle,
            socket_factory=_socket_factory(self._settings, self._sockets, self._check),
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._settings.connect_timeout),
            headers=self._headers,
            trust_env=False,
            middlewares=(_no_second_attempt,),
        )

    async def _start(self, session: aiohttp.ClientSession, request: Request) -> aiohttp.ClientResponse:
        credentials = await self._credentials()
        headers = [("Accept", request.accept), *credentials.headers]
        if credentials.authorization:
            headers.append(("Authorization", credentials.authorization))
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
        except _Broken as broken:
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
            credentials = await self._credentials()
            headers = self._headers_for(request, credentials)
            if is_plain(request, headers):
                return await self._round_trip(request, headers)
        async with await self._start(self._calls, request) as response:
            try:
                body = await response.read()
            except (aiohttp.ClientError, OSError) as error:
                raise self.unreachable(request, error) from error
            warnings = texts_of(response.headers.getall("Warning", ()))
            return Response(response.status, body, response.content_type, _retry_after(response), warnings)

    def _headers_for(self, request: Request, credentials: Credentials) -> tuple[tuple[str, str], ...]:
        """All headers except Content-Length; cached, because `round_tripper` caches the encoded block by this tuple."""
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
            head = await self._round_tripper[1].send(request, headers)
        except (aiohttp.ClientError, OSError) as error:
            raise self.unreachable(request, error) from error
        if head.status == 401:
            self._source.distrust()
        again = head.header("Retry-After")
        retry_after = retry_after_seconds(again, wall_clock()) if again else None
        media_type = head.header("Content-Type").partition(";")[0].strip().lower()
        return Response(head.status, head.body, media_type, retry_after, head.warnings)

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
        await self._sockets_closed()

    async def _sockets_closed(self) -> None:
        """Wait until the loop has closed every socket, because aiohttp does not wait for the TLS shutdown of dropped connections."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _CLOSE_TIMEOUT
        while any(connection.fileno() != -1 for connection in self._sockets) and loop.time() < deadline:
            await asyncio.sleep(0.005)
