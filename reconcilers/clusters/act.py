"""Requests to a control plane over HTTP: the only effect of pull mode outside of Kubernetes.

Guarantees: TLS certificates are verified; the proxy of the environment is used (HTTPS_PROXY, NO_PROXY), `~/.netrc` is not; redirects are
not followed, because they would carry the credential elsewhere; a response is read up to its limit. No error quotes a header, a body or a
proxy's URL.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from konverge.client.credentials import TlsMaterial
from konverge.client.proxy import proxy_from_environment
from konverge.client.status import retry_after_seconds
from konverge.client.tls import TlsOptions, handshake_hint, make_context
from konverge.clock import wall_clock
from konverge.errors import ConfigError
from konverge.os_errors import describe_os_error
from konverge.reconcilers.clusters.protocol import MEDIA_TYPE
from konverge.reconcilers.clusters.transport import NoResponse, PlaneRequest, PlaneResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PlaneHttpTransport"]

_CONNECT = 10.0


class PlaneHttpTransport:
    """A control plane behind a URL; connects when it is first used.

    `ca_file` replaces the system's authorities. `environ` names the proxy; the process's own if not given.
    """

    def __init__(self, endpoint: str, *, ca_file: str = "", environ: Mapping[str, str] | None = None) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._ca_file = ca_file
        self._environ = os.environ if environ is None else environ
        self._session: aiohttp.ClientSession | None = None
        self._context: Any = True

    async def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            if self._endpoint.startswith("https:"):
                self._context = await asyncio.to_thread(self._make_context)
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
                headers={"Accept": MEDIA_TYPE, "Accept-Encoding": "identity", "User-Agent": "konverge-agent"},
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    def _make_context(self) -> Any:
        try:
            bundle = Path(self._ca_file).read_bytes() if self._ca_file else b""
            return make_context(TlsMaterial(ca=bundle), TlsOptions())
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            raise NoResponse(
                f"clusters.ca_file {self._ca_file}: no PEM certificates ({type(error).__name__})"
            ) from None

    async def send(self, request: PlaneRequest) -> PlaneResponse:
        """Send a request; raises NoResponse."""
        session = await self._open()
        headers = {"Content-Type": MEDIA_TYPE} if request.body is not None else {}
        if request.credential:
            headers["Authorization"] = f"Bearer {request.credential}"
        try:
            proxy = proxy_from_environment(self._endpoint, self._environ) or None
            async with (
                asyncio.timeout(request.timeout),
                session.request(
                    request.method,
                    URL(self._endpoint + request.path).with_query(request.query),
                    data=request.body,
                    headers=headers,
                    allow_redirects=False,
                    ssl=self._context,
                    proxy=proxy,
                ) as response,
            ):
                body = await _limited(response.content, request.most)
                again = response.headers.get("Retry-After")
                return PlaneResponse(
                    status=response.status,
                    body=body,
                    retry_after=retry_after_seconds(again, wall_clock()) if again else None,
                )
        except (aiohttp.ClientError, OSError, ValueError, ConfigError) as error:
            hint = handshake_hint(error, TlsOptions())
            # Only the name of the error: its text may hold the URL of a proxy with a password.
            raise NoResponse(f"{_name(error)}{hint}") from None

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _name(error: BaseException) -> str:
    below = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return f"{type(error).__name__}: {describe_os_error(below)}" if isinstance(below, OSError) else type(error).__name__


async def _limited(content: aiohttp.StreamReader, most: int) -> bytes:
    body = bytearray()
    async for part in content.iter_chunked(64 * 1024):
        body += part
        if len(body) > most:
            raise NoResponse(f"the response has more than {most} bytes", too_large=True)
    return bytes(body)
