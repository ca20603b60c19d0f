"""One request and its response over a connection of aiohttp's pool, without a session around it.

aiohttp keeps the connections (pool, TLS, name look-up, limits) and parses the responses. A session also handles redirects, cookies, netrc,
trace hooks, form bodies and a task per request body, and a call to an API server needs none of these. For a status apply they are about
half of a session's cost (docs/adr/0006).

Guarantees: the same bytes on the wire as from the session, except for the order of headers, and the same errors. If `is_supported` finds
that the installed aiohttp lacks a part that this uses, or a request is unusual (a proxy, a large body, a target that has to be escaped),
the session carries the request.
"""

from __future__ import annotations

import inspect
import re
from functools import cache, lru_cache
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from konverge.client.api_warnings import texts_of
from konverge.client.requests import Request

__all__ = ["LARGE_BODY", "RoundTripper", "RawResponse", "is_plain", "is_supported"]

LARGE_BODY = 64 * 1024
"""The size in bytes above which a body is sent piece by piece, so that it does not block the loop."""

_PLAIN = re.compile(r"/[!-~]*").fullmatch
_UNSAFE = re.compile(r"[\r\n\0]").search
_WANTED = {"read_until_eof", "auto_decompress"}


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


@lru_cache(maxsize=64)
def _header_block(headers: tuple[tuple[str, str], ...]) -> str:
    """Encode headers for the wire; "" if one of them holds a line break. Cached, because most requests share their headers."""
    if any(_UNSAFE(name + value) for name, value in headers):
        return ""
    return "".join(f"{name}: {value}\r\n" for name, value in headers)


class RawResponse:
    """Status, headers and body of a response."""

    __slots__ = ("_headers", "body", "status")

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self._headers = headers
        self.status = status
        self.body = body

    def header(self, name: str) -> str:
        """Return a header, "" if it is absent."""
        return str(self._headers.get(name, ""))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The texts of the warnings."""
        headers = self._headers.getall("Warning", ())
        return texts_of(headers) if headers else ()


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

    async def send(self, request: Request, headers: tuple[tuple[str, str], ...]) -> RawResponse:
        """Send a request and return the whole response. Raises ClientError, OSError."""
        body = request.body
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = (
            f"{request.method} {self._path}{request.target} HTTP/1.1\r\n"
            f"Host: {self._host}\r\n{_header_block(headers)}{length}\r\n"
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
            transport.write(head.encode("latin-1") + (body or b""))
            message, payload = await protocol.read()
            while message.code < 200:  # an interim response, for instance "Early Hints"
                message, payload = await protocol.read()
            response = RawResponse(message.code, message.headers, await payload.read())
        except HttpProcessingError as error:
            connection.close()
            raise aiohttp.ClientPayloadError(f"the response is not HTTP: {error.message}") from error
        except BaseException:
            connection.close()
            raise
        connection.release()
        return response
