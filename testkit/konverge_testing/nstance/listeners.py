"""Listeners of the double: on the loopback with TLS 1.3, or in memory; then no byte leaves the process.

A connection in memory runs the whole of gRPC and HTTP/2, without TLS: the double checks the certificates itself, as a handshake would.
It needs no socket, so the virtual time of a test covers it.

Guarantees: bytes arrive in order. If one end closes a connection, the other end loses it in the next iteration of the loop.

Caveats: grpclib has no public way to give it a transport, so this uses what `grpclib.testing` uses.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from grpclib.client import Channel
from grpclib.encoding.proto import ProtoCodec
from grpclib.protocol import H2Protocol
from grpclib.server import Server
from h2.errors import ErrorCodes

from konverge.client.credentials import TlsMaterial
from konverge_testing.apiserver.certificates import KeyPair
from konverge_testing.loop import CLOCK_ERROR
from konverge_testing.nstance.faults import Network, ShardFaults
from konverge_testing.nstance.pki import NstanceAuthority

__all__ = ["Listener", "MemoryChannel", "MemoryNetwork"]

_TOO_MANY_PINGS: Final = ErrorCodes.ENHANCE_YOUR_CALM


@dataclass(frozen=True, slots=True)
class _PeerCertificate:
    """The part of an SSL object that services read."""

    encoded: bytes

    def getpeercert(self, *, binary_form: bool) -> bytes:
        assert binary_form
        return self.encoded


class _Pipe(asyncio.Transport):
    """One end of a connection in memory; `side` is the context of its protocol."""

    def __init__(self, own: asyncio.Protocol, faults: ShardFaults, peer: bytes, side: Context) -> None:
        super().__init__({"ssl_object": _PeerCertificate(peer)} if peer else {})
        self.other: _Pipe | None = None
        self._own = own
        self._side = side
        self._faults = faults
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and self.other is not None and not self._closing and self._faults.network is not Network.SILENT:
            asyncio.get_running_loop().call_soon(self._deliver, bytes(data), context=self.other._side)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._lose, context=self._side)

    def abort(self) -> None:
        self.close()

    def _deliver(self, data: bytes) -> None:
        if self.other is not None and not self.other._closing:
            self.other._own.data_received(data)

    def _lose(self) -> None:
        self._own.connection_lost(None)
        if self.other is not None and self._faults.network is not Network.SILENT:
            self.other.close()


class _Front:
    """The port that clients see: it forwards bytes to the port with TLS, according to the present state of the network.

    While the network is silent, neither handshakes nor closes pass. A connection that was silent once stays silent, because bytes are
    missing.
    """

    def __init__(self, faults: ShardFaults, inner: int) -> None:
        self._faults = faults
        self._inner = inner
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()

    async def listen(self, port: int) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        return _port_of(self._server)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        relays = tuple(self._relays)
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._faults.network is Network.REFUSED:
            writer.transport.abort()
            return
        relay = asyncio.create_task(self._relay(reader, writer))
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, within = await asyncio.open_connection("127.0.0.1", self._inner)
        except OSError:  # the server behind it has closed its port
            writer.transport.abort()
            return
        silenced = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, within, silenced))
                pumps.create_task(self._pump(inner, writer, silenced))
        finally:
            writer.transport.abort()
            within.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silenced: asyncio.Event) -> None:
        """Forward bytes until an end closes; then the other end is closed too, unless the network is silent."""
        try:
            while data := await reader.read(65536):
                if self._is_silent(silenced):
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        if not self._is_silent(silenced):
            writer.close()

    def _is_silent(self, silenced: asyncio.Event) -> bool:
        if self._faults.network is Network.SILENT:
            silenced.set()
        return silenced.is_set()


def _port_of(server: asyncio.Server) -> int:
    bound: int = server.sockets[0].getsockname()[1]
    return bound


class Listener:
    """A port of a shard: its services, and the connections to them."""

    def __init__(
        self,
        services: Sequence[Any],
        codec: ProtoCodec,
        faults: ShardFaults,
        authority: NstanceAuthority,
        *,
        asks_for_certificate: bool,
    ) -> None:
        self._services = list(services)
        self._codec = codec
        self._faults = faults
        self._authority = authority
        self._asks = asks_for_certificate
        self._server: Server | None = None
        self._sockets: asyncio.Server | None = None
        self._front: _Front | None = None
        self._connections: list[H2Protocol] = []

    async def listen(self, identity: KeyPair, port: int = 0) -> int:
        """Listen on the loopback with TLS, and return the port."""
        loop = asyncio.get_running_loop()
        self._sockets = await loop.create_server(self._protocol, "127.0.0.1", 0, ssl=self._context(identity))
        self._front = _Front(self._faults, _port_of(self._sockets))
        return await self._front.listen(port)

    def accept(self, client: Callable[[], H2Protocol], tls: TlsMaterial) -> H2Protocol:
        """Connect a client in memory, or raise like a failed handshake. The servers' clock is right, even if the client's is not."""
        ours = copy_context()
        ours.run(CLOCK_ERROR.set, 0.0)
        peer = ours.run(self._handshake, tls)
        mine, theirs = self._protocol(), client()
        near, far = _Pipe(theirs, self._faults, b"", copy_context()), _Pipe(mine, self._faults, peer, ours)
        near.other, far.other = far, near
        ours.run(mine.connection_made, far)
        theirs.connection_made(near)
        return theirs

    def end_connections(self) -> None:
        """Close every connection."""
        for item in self._open():
            item.processor.close("the server closed the connection")

    def go_away(self) -> None:
        """Send GOAWAY "too many pings" on every connection, then close it, as grpc-go does."""
        for item in self._open():
            item.connection._connection.close_connection(_TOO_MANY_PINGS, b"too_many_pings")
            item.connection.flush()
            item.processor.close("too many pings")

    async def close(self) -> None:
        """Close the port and all connections."""
        if self._front is not None:
            await self._front.close()
        if self._sockets is not None:
            self._sockets.close()
        self.end_connections()
        for connection in self._connections:
            await connection.handler.wait_closed()  # type: ignore[attr-defined]  # the handler of a server has it
        self._connections.clear()
        self._sockets = self._front = None

    def _open(self) -> list[H2Protocol]:
        return [
            connection
            for connection in self._connections
            if hasattr(connection, "connection") and not connection.connection.is_closing()
        ]

    def _protocol(self) -> H2Protocol:
        if self._server is None:
            self._server = Server(self._services, codec=self._codec)
        manifest = self._server._protocol_factory()
        self._connections = [*self._open(), manifest]
        return manifest

    def _context(self, identity: KeyPair) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols(["h2"])
        with tempfile.TemporaryDirectory() as folder:
            chain = Path(folder, "chain.pem")
            chain.touch(mode=0o600)
            chain.write_bytes(identity.certificate + identity.key)
            context.load_cert_chain(chain)
        if self._asks:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self._authority.trusted.decode())
        return context

    def _handshake(self, tls: TlsMaterial) -> bytes:
        if not self._authority.signs_for(tls.ca):
            raise ssl.SSLCertVerificationError(1, "certificate verify failed: unable to get local issuer certificate")
        if not self._asks:
            return b""
        if not tls.certificate:
            raise ssl.SSLError(1, "tlsv13 alert certificate required")
        certificate = x509.load_pem_x509_certificate(tls.certificate)
        if not self._authority.signed(certificate):
            raise ssl.SSLError(1, "tlsv1 alert unknown ca")
        return certificate.public_bytes(Encoding.DER)


class MemoryChannel(Channel):
    """A channel to a listener of a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork, host: str, port: int, tls: TlsMaterial) -> None:
        super().__init__(host, port)
        self._network = network
        self._tls = tls

    async def _create_connection(self) -> H2Protocol:
        return await self._network.connect((str(self._host), int(self._port or 0)), self._protocol_factory, self._tls)


class MemoryNetwork:
    """Listeners by address, and channels to them."""

    def __init__(self) -> None:
        self.listeners: dict[tuple[str, int], Listener] = {}

    def channel(self, host: str, port: int, tls: TlsMaterial) -> Channel:
        """Return a channel; it connects at its first call."""
        return MemoryChannel(self, host, port, tls)

    async def connect(self, address: tuple[str, int], client: Callable[[], H2Protocol], tls: TlsMaterial) -> H2Protocol:
        """Connect a client, as the network is now."""
        listener = self.listeners.get(address)
        if listener is None or listener._faults.network is Network.REFUSED:
            raise ConnectionRefusedError(111, f"no server listens on {address[0]}:{address[1]}")
        if listener._faults.network is Network.SILENT:
            await asyncio.get_running_loop().create_future()
        return listener.accept(client, tls)
