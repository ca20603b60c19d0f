"""An aiohttp application on a listener of ours, shared by `server.py` (metrics, health, debug) and `posts.py` (webhooks).

Guarantees: the connection limits and timeouts of `listener.py`, the same plain headers on every response, and a stop that frees the
port at once and lets requests in progress end.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from konverge.errors import UsageError
from konverge.runtime.http.listener import Limits, Listener, bound

__all__ = ["Handler", "Site"]

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Log(logging.LoggerAdapter[logging.Logger]):
    """aiohttp's log without a trace for each malformed request, which clients could flood it with."""

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        quiet = isinstance(options.get("exc_info"), HttpProcessingError)
        super().log(logging.DEBUG if quiet else level, msg, *args, **options)


class Site:
    """Serves routes on one address. Constructing it binds nothing; add the routes to `router` before the start."""

    def __init__(
        self,
        address: str,
        *,
        what: str,
        limits: Limits,
        shutdown: float,
        context: ssl.SSLContext | None = None,
        max_bytes: int = 1024,
    ) -> None:
        self._where = address
        self._what = what
        self._limits = limits
        self._context = context
        self._app = web.Application(middlewares=[self._respond], client_max_size=max_bytes)
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            logger=_Log(logging.getLogger("konverge.runtime"), {}),
            shutdown_timeout=shutdown,
            keepalive_timeout=limits.idle,
            auto_decompress=False,  # no client of ours compresses, and 64 KB can become 64 MB before any limit counts
        )
        self._listener: Listener | None = None
        self.url = ""
        """The base URL; "" while it does not listen."""

    @property
    def router(self) -> web.UrlDispatcher:
        """The router of the routes."""
        return self._app.router

    async def start(self) -> None:
        """Bind and serve; raises ConfigError if the address cannot be bound, UsageError if it is malformed."""
        sock = bound(self._where, self._what)
        try:
            await self._runner.setup()
            server = self._runner.server
            if server is None:
                raise UsageError(f"the server of {self._what} was stopped; make a new one")
            self._listener = Listener(sock, server, what=self._what, limits=self._limits, context=self._context)
            self._listener.start()
        except BaseException:
            sock.close()
            raise
        self.url = _url(sock, "http" if self._context is None else "https")

    async def stop(self) -> None:
        """Free the port at once, let requests in progress end in time, and end; harmless when called twice."""
        self.url = ""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        await self._runner.cleanup()
        if listener is not None:
            await listener.end()

    @web.middleware
    async def _respond(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        protocol = request.protocol
        if self._listener is not None:
            self._listener.began(protocol)
        try:
            response = await handler(request)
        finally:
            if self._listener is not None:
                self._listener.ended(protocol)
        response.headers.update(_HEADERS)
        return response


def _url(sock: socket.socket, scheme: str) -> str:
    host, port = sock.getsockname()[:2]
    shown = {"::": "127.0.0.1", "0.0.0.0": "127.0.0.1"}.get(host, host)  # noqa: S104  # shown, not bound
    return f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"
