"""The server for POST requests over TLS: webhooks.

Guarantees: one function gets every POST, with its body unread; a body is bounded in size and in time. Starting binds, or raises
ConfigError that names the address.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec
from aiohttp import web

from konverge.runtime.http.listener import Limits
from konverge.runtime.http.site import Site

__all__ = ["Post", "PostServer", "Reply", "TooLarge"]


class TooLarge(Exception):
    """The body is larger than the server accepts; the message names the limit."""


class Post(msgspec.Struct, frozen=True):
    """One request: its path, and a function that reads its body and raises TooLarge, or TimeoutError if it does not arrive."""

    path: str
    query: Mapping[str, str]
    content_type: str
    read: Callable[[], Awaitable[bytes]]


class Reply(Protocol):
    """The response."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def body(self) -> bytes:
        """The body."""

    @property
    def content_type(self) -> str:
        """The value of Content-Type."""


class PostServer:
    """Hands every POST to one function, over TLS. Constructing it binds nothing.

    `context` may load another certificate at any time. Stopping closes the port at once and gives requests in progress `shutdown`
    seconds to end.
    """

    def __init__(
        self,
        answer: Callable[[Post], Awaitable[Reply]],
        *,
        address: str,
        context: ssl.SSLContext,
        max_bytes: int,
        shutdown: float,
        reading: float = 30.0,
        limits: Limits | None = None,
    ) -> None:
        self._answer = answer
        self._where = address
        self._context = context
        self._max_bytes = max_bytes
        self._shutdown = shutdown
        self._reading = reading
        self._limits = limits or Limits()
        self._site: Site | None = None

    @property
    def address(self) -> str:
        """The base URL; "" while it does not listen."""
        return "" if self._site is None else self._site.url

    async def start(self) -> None:
        """Bind and serve; raises ConfigError if the address cannot be bound."""
        self._site = Site(
            self._where,
            what="webhooks",
            limits=self._limits,
            shutdown=self._shutdown,
            context=self._context,
            max_bytes=self._max_bytes,
        )
        self._site.router.add_post("/{path:.*}", self._post)
        try:
            await self._site.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop serving and free the port; harmless when called twice."""
        site, self._site = self._site, None
        if site is not None:
            await site.stop()

    async def _post(self, request: web.Request) -> web.Response:
        async def read() -> bytes:
            try:
                async with asyncio.timeout(self._reading):
                    return await request.read()
            except web.HTTPRequestEntityTooLarge as error:
                raise TooLarge(f"the request is larger than {self._max_bytes} bytes") from error

        reply = await self._answer(Post(request.path, request.query, request.content_type, read))
        return web.Response(body=reply.body, status=reply.status, headers={"Content-Type": reply.content_type})
