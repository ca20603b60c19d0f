"""A listening socket that clients cannot exhaust: connection limits, timeouts, and errors of accept that do not flood the log.

    accepted --head--> request --response--> idle --first byte--> head ...

Guarantees: a connection has `head` seconds from its accept (the TLS handshake included) to send a whole request head, and the same for
each later head from its first byte; `idle` seconds between requests; and `idle` seconds to take a response that it does not read. Then
it is cut. Data that trickles in byte by byte moves no deadline. At most `connections` are open: a further connection cuts the
connection that has waited longest without a request. Connections that never sent a request are cut first, so a flood of half-open
connections displaces itself and a probe still gets in. If all are in the midst of a request, the newcomer is cut. A socket that cannot
accept (no file descriptors left) cuts one waiting connection, tries again, and logs this at most once a minute.

Caveats: it does not know HTTP; the parser of the requests calls `began` and `ended`. The time of a request in progress is not bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from konverge.errors import ConfigError, UsageError
from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["OFF", "Limits", "Listener", "bound", "is_local_name", "is_loopback", "parse_address"]

OFF = "0"
"""The address that serves nothing."""

_LOOPBACK: Final = frozenset(ipaddress.ip_address(address) for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"))

_BACKLOG: Final = 1024
"""Connections that the kernel keeps for us while the event loop is busy; beyond that a client's kernel retries after a whole second."""
_BATCH: Final = 16
"""Connections that are accepted before other work on the loop runs."""
_RETRY: Final = 0.05
_QUIET: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a listener.

    >>> Limits(connections=64).head
    10.0
    """

    connections: int = 256
    """Open connections of one listener; a further connection cuts the connection that has waited longest without a request."""
    head: float = 10.0
    """Seconds that a caller has to send the head of a request, the TLS handshake of a new connection included."""
    idle: float = 120.0
    """Seconds that a connection may stay open between requests, and that a response may stay unread: above the 90 s of Go's clients."""

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid value."""
        for name in ("connections", "head", "idle"):
            if getattr(self, name) <= 0:
                raise UsageError(f"listeners: {name}={getattr(self, name):g}: it is above 0")


def parse_address(address: str) -> tuple[str, int] | None:
    """Split an address into host ("" is every interface) and port; None for the address that serves nothing. Raises UsageError.

    >>> parse_address(":8080"), parse_address("[::1]:0"), parse_address("0")
    (('', 8080), ('::1', 0), None)
    """
    if address in ("", OFF):
        return None
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and not bracketed):
        raise UsageError(
            f"address {address!r}: write host:port, [v6 host]:port, :port for every interface, or 0 for none"
        )
    return (host[1:-1] if bracketed else host), int(port)


def is_loopback(address: str) -> bool:
    """Whether an address is exactly 127.0.0.1 or ::1.

    A dual-stack socket reports the peer 127.0.0.1 as ::ffff:127.0.0.1. Other addresses of 127.0.0.0/8 are refused: service meshes deliver
    traffic of the pod network from 127.0.0.6 (https://istio.io/latest/docs/ops/configuration/mesh/app-health-check/).

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("::ffff:127.0.0.1"), is_loopback("127.0.0.6"), is_loopback("localhost")
    (True, True, True, False, False)
    """
    try:
        return ipaddress.ip_address(address) in _LOOPBACK
    except ValueError:
        return False


def is_local_name(header: str) -> bool:
    """Whether a Host header names this machine: localhost, 127.0.0.1 or ::1.

    >>> is_local_name("localhost:8082"), is_local_name("[::1]:8082"), is_local_name("evil.example.com"), is_local_name("")
    (True, True, False, False)
    """
    bracketed, _, rest = header.partition("]")
    host = bracketed[1:] if rest or header.endswith("]") else header.partition(":")[0]
    host = host.lower().removesuffix(".")
    return host == "localhost" or is_loopback(host)


def _listen(host: str, port: int) -> socket.socket:
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # a kernel without IPv6 fails only here
            return socket.create_server(("::", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=_BACKLOG)


def bound(address: str, what: str) -> socket.socket:
    """Return a listening socket; raises ConfigError, which names its purpose and the remedy."""
    parsed = parse_address(address)
    assert parsed is not None
    try:
        sock = _listen(*parsed)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address} for {what}: {error.strerror or error}; "
            "choose another address, port 0 for a free one, or 0 for none"
        ) from error
    sock.setblocking(False)
    return sock


class _Connection(asyncio.Protocol):
    """One connection: forwards everything to the HTTP protocol, and enforces the deadline."""

    def __init__(self, listener: Listener, inner: asyncio.Protocol) -> None:
        self._listener = listener
        self.inner = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._at_rest = False
        self.opening: asyncio.Task[Any] | None = None
        self.due(listener.limits.head)

    def open(self, conn: socket.socket, context: ssl.SSLContext | None) -> None:
        """Take the accepted socket: create its transport, after the TLS handshake if TLS is on."""
        loop = asyncio.get_running_loop()
        handshake = None if context is None else self._listener.limits.head
        opened = loop.connect_accepted_socket(lambda: self, conn, ssl=context, ssl_handshake_timeout=handshake)
        self.opening = loop.create_task(opened)
        self.opening.add_done_callback(lambda task: self._opened(task, conn))

    def _opened(self, task: asyncio.Task[Any], conn: socket.socket) -> None:
        self.opening = None
        if not task.cancelled() and task.exception() is None:
            return
        # Without TLS, too slow, or cut: faults of clients are not logged.
        conn.close()
        self.cut()

    def due(self, seconds: float | None) -> None:
        """Set the deadline of the connection, in seconds from now; None: no deadline until the next call."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self.cut)

    def rest(self) -> None:
        """Wait for the next request."""
        self._at_rest = True
        self.due(self._listener.limits.idle)

    def work(self) -> None:
        """Note that a whole request head arrived."""
        self._at_rest = False
        self.due(None)

    def cut(self) -> None:
        """End the connection now; unsent data is lost."""
        self.due(None)
        if self._transport is not None:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        self._listener.gone(self)

    # --- calls of the transport ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._at_rest:
            self._at_rest = False
            self.due(self._listener.limits.head)
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        self.due(self._listener.limits.idle)
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        if not self._listener.answering(self):
            self.rest()
        else:
            self.due(None)
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.due(None)
        self._listener.gone(self)
        self.inner.connection_lost(exc)


class Listener:
    """Accepts on a bound socket and hands each connection to a protocol of `factory`.

    The parser reports requests by `began(protocol)` and `ended(protocol)`, with the protocol that the factory created.
    """

    def __init__(
        self,
        sock: socket.socket,
        factory: Callable[[], asyncio.Protocol],
        *,
        what: str,
        limits: Limits,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = limits
        self._sock = sock
        self._factory = factory
        self._what = what
        self._context = context
        self._by_protocol: dict[asyncio.Protocol, _Connection] = {}
        # In the order of the begin of their waits, which is the order of the cuts.
        self._strangers: dict[_Connection, None] = {}
        self._resting: dict[_Connection, None] = {}
        self._paused: asyncio.TimerHandle | None = None
        self._failures = 0
        self._logged_at: float | None = None
        self._log = get_logger("konverge.runtime")

    def __len__(self) -> int:
        return len(self._by_protocol)

    def start(self) -> None:
        """Accept from now on."""
        self._paused = None
        asyncio.get_running_loop().add_reader(self._sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more and free the port; open connections stay until `end`. Harmless when called twice."""
        if self._paused is not None:
            self._paused.cancel()
        if self._sock.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._sock.fileno())
        self._sock.close()

    async def end(self) -> None:
        """Cut every open connection, and wait until all are closed."""
        opening = [task for connection in self._by_protocol.values() if (task := connection.opening) is not None]
        for connection in list(self._by_protocol.values()):
            connection.cut()
        if opening:
            await asyncio.wait(opening)
        await asyncio.sleep(0)  # the loop closes the sockets in its next iteration

    # --- requests -----------------------------------------------------------------------------------------------------------

    def began(self, protocol: asyncio.Protocol) -> None:
        """Note that a whole request head arrived on this connection."""
        connection = self._by_protocol.get(protocol)
        if connection is not None:
            self._strangers.pop(connection, None)
            self._resting.pop(connection, None)
            connection.work()

    def ended(self, protocol: asyncio.Protocol) -> None:
        """Note that the response is complete: the connection sends it and waits for the next request."""
        connection = self._by_protocol.get(protocol)
        if connection is not None:
            self._resting[connection] = None
            connection.rest()

    def answering(self, connection: _Connection) -> bool:
        """Whether a request is in progress on this connection."""
        return connection not in self._resting and connection not in self._strangers

    def gone(self, connection: _Connection) -> None:
        """Forget a closed connection."""
        self._by_protocol.pop(connection.inner, None)
        self._strangers.pop(connection, None)
        self._resting.pop(connection, None)

    # --- accepting ----------------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        """Accept waiting connections, a batch at most: the loop calls again while more wait."""
        for _ in range(_BATCH):
            try:
                conn, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return  # none is left, or the client disconnected before the accept
            except OSError as error:
                self._pause(error)
                return
            conn.setblocking(False)
            self._admit(conn)

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a moment: the socket stays readable while the process lacks a file descriptor to accept with."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._sock.fileno())
        self._paused = loop.call_later(_RETRY, self.start)
        self._cut_one()
        self._failed(error, loop.time())

    def _admit(self, conn: socket.socket) -> None:
        if len(self._by_protocol) >= self.limits.connections and not self._cut_one():
            conn.close()
            return
        connection = _Connection(self, self._factory())
        self._by_protocol[connection.inner] = connection
        self._strangers[connection] = None
        connection.open(conn, self._context)

    def _cut_one(self) -> bool:
        """Cut the connection that has waited longest without a request; False if all have a request in progress."""
        for waiting in (self._strangers, self._resting):
            for connection in waiting:
                connection.cut()
                return True
        return False

    def _failed(self, error: OSError, now: float) -> None:
        self._failures += 1
        if self._logged_at is not None and now - self._logged_at < _QUIET:
            return
        self._logged_at = now
        self._log.error(
            "connections cannot be accepted; raise the limit of open files, or lower the limits of connections",
            **{
                LogKey.ERROR: error.strerror or str(error),
                LogKey.ADDRESS: self._what,
                LogKey.COUNT: len(self._by_protocol),
                LogKey.FAILURES: self._failures,
            },
        )
        self._failures = 0
