"""The aiohttp sessions of a transport, and their sockets.

Guarantees: a connection is established within `connect_timeout` (TLS included); TCP notices a dead peer (keepalive, user timeout); proxies,
cookies and netrc of the environment are ignored. A session repeats no request.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakSet

import aiohttp

from konverge.client.settings import ClientSettings
from konverge.client.websockets import keep_refusals
from konverge.errors import NotLeading, UsageError

__all__ = ["Broken", "open_session", "refuse_loops_that_bypass_sockets", "socket_factory", "sockets_closed"]

_CLOSE_TIMEOUT = 1.0
"""Seconds that `sockets_closed` waits for the shutdown of connections."""


class Broken(Exception):
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
        raise Broken(error) from error


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


def refuse_loops_that_bypass_sockets() -> None:
    """Raise UsageError if the running loop sends by file descriptors, which no `_FencedSocket` sees."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.SelectorEventLoop):
        raise UsageError(
            f"the event loop {type(loop).__module__}.{type(loop).__qualname__} sends past the sockets that check the writes of a leader: "
            "run a process that elects or shards on asyncio's own event loop"
        )


def socket_factory(
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


def open_session(
    settings: ClientSettings,
    headers: Mapping[str, str],
    sockets: WeakSet[socket.socket],
    *,
    limit: int,
    check: Callable[[], None] | None,
) -> aiohttp.ClientSession:
    """Return a session of at most `limit` connections (0: without a limit), whose sockets are added to `sockets`."""
    connector = aiohttp.TCPConnector(
        limit=limit,
        keepalive_timeout=settings.pool_idle,
        socket_factory=socket_factory(settings, sockets, check),
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout),
        headers=headers,
        trust_env=False,
        middlewares=(_no_second_attempt, keep_refusals),
    )


async def sockets_closed(sockets: Iterable[socket.socket]) -> None:
    """Wait until the loop has closed every socket, because aiohttp does not wait for the TLS shutdown of dropped connections."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _CLOSE_TIMEOUT
    while any(connection.fileno() != -1 for connection in sockets) and loop.time() < deadline:
        await asyncio.sleep(0.005)
