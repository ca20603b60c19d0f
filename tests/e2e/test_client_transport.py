"""The client over real sockets on the loopback, against servers with one exact fault each."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from spans import Spans

from konverge.client import Client, ClientConfig, ClientSettings, WatchIdle, WatchQuery, WriteState, credentials
from konverge.client.sessions import socket_factory
from konverge.client.tls import TlsOptions
from konverge.clock import wall_clock
from konverge.errors import ApiError, ConfigError, ServerFailure, TooManyRequests, Unreachable, UsageError
from konverge.kinds import kind

pytestmark = pytest.mark.both_loops

CONFIG_MAP = kind("v1", "ConfigMap")
DECLARED = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")  # needs no discovery
STORED = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "web", "resourceVersion": "7", "uid": "u-1"}}
QUERY = WatchQuery(namespace="web", timeout_seconds=300, idle_seconds=5.0)
WRITER = "someone"


@pytest.fixture(autouse=True, params=["exchange", "session"])
def carried_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Calls over the bare connection, and over the session if the installed aiohttp does not allow a bare connection."""
    how: str = request.param
    if how == "session":
        monkeypatch.setattr("konverge.client.http_transport.is_supported", lambda: False)
    return how


@dataclass
class Asked:
    line: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def header(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers}


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
        """Return the next request, None at the end of the connection. Discovery gets its response at once and is not recorded."""
        asked = await self._next(reader)
        while asked is not None and asked.line.split()[1].endswith("/api/v1"):
            writer.write(http({"resources": [{"name": "configmaps", "namespaced": True, "kind": "ConfigMap"}]}))
            asked = await self._next(reader)
        if asked is not None:
            self.asked.append(asked)
        return asked

    async def _next(self, reader: asyncio.StreamReader) -> Asked | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        line, *rest = head.strip().split("\r\n")
        headers = [(name, value.strip()) for name, _, value in (one.partition(":") for one in rest)]
        asked = Asked(line, headers, b"")
        asked.body = await reader.readexactly(int(asked.header.get("content-length", 0)))
        return asked


def http(body: bytes | dict[str, Any], status: str = "200 OK", *headers: str) -> bytes:
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    kind_ = "text/plain" if isinstance(body, bytes) else "application/json"
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *headers]
    if not any(header.startswith("Content-Type") for header in headers):
        lines.append(f"Content-Type: {kind_}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


WATCHING = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@asynccontextmanager
async def serving(
    handler: Callable[[Server, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[Server]:
    """Serve connections with a handler until the block ends; then cut all open connections."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        server.open += 1
        server.most_open = max(server.most_open, server.open)
        try:
            await handler(server, reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            server.open -= 1
            server.closed.set()
            tasks.discard(task)
            writer.close()

    listening = await asyncio.start_server(connection, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(*answers: bytes | None) -> Callable[..., Awaitable[None]]:
    """Send responses in order, over any number of connections; None closes the connection instead."""
    left = list(answers)

    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read(reader, writer) is not None:
            answer = left.pop(0)
            if answer is None:
                return
            writer.write(answer)
            await writer.drain()

    return handle


def client_of(server: Server, **settings: Any) -> Client:
    chosen = {"backoff_start": 0.001, "backoff_limit": 0.002, **settings}
    config = ClientConfig.direct(f"http://127.0.0.1:{server.port}", token="s3cret")
    return Client(config, name="tester", settings=ClientSettings(**chosen))


def states(client: Client) -> list[WriteState]:
    return [found.state for found in client.ledger.pending(WRITER)]


async def silent(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server.read(reader, writer)
    await reader.read()


async def test_a_server_that_accepts_and_never_answers_is_unreachable_in_time() -> None:
    async with serving(silent) as server, client_of(server, request_timeout=0.05) as client:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(Unreachable, match=r"no response within 0\.05 s") as caught:
            await client.create(CONFIG_MAP.new("a", "web"), writer=WRITER)
        assert asyncio.get_running_loop().time() - begun < 1
        assert caught.value.maybe_done
        assert states(client) == [WriteState.UNKNOWN]
        await server.closed.wait()


async def test_a_server_that_never_finishes_tls_was_sent_nothing() -> None:
    async with serving(silent) as server:
        config = ClientConfig.direct(f"https://127.0.0.1:{server.port}", tls=TlsOptions(verify=False))
        settings = ClientSettings(connect_timeout=0.05, attempts=1)
        async with Client(config, name="tester", settings=settings) as client:
            with pytest.raises(Unreachable, match=r"no connection within 0\.05 s") as caught:
                await client.patch(DECLARED, "a", "web", patch={}, style="merge", writer=WRITER)
            assert not caught.value.maybe_done
            assert states(client) == []


async def test_a_refused_connection_was_sent_nothing_and_names_the_server() -> None:
    async with serving(silent) as server:
        pass
    async with client_of(server, attempts=2) as client:
        with pytest.raises(Unreachable, match=f"patch configmaps web/a: http://127.0.0.1:{server.port}") as caught:
            await client.patch(DECLARED, "a", "web", patch={}, style="merge", writer=WRITER)
        assert not caught.value.maybe_done
        assert states(client) == []


async def test_truncated_response_is_requested_again_only_if_safe() -> None:
    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read(reader, writer) is not None:
            whole = len(server.asked) == 2
            writer.write(http(STORED) if whole else http(STORED)[:-10])
            await writer.drain()
            if not whole:
                return

    async with serving(handle) as server, client_of(server) as client:
        assert (await client.get(CONFIG_MAP, "a", "web")).metadata.uid == "u-1"
        assert len(server.asked) == 2
        with pytest.raises(Unreachable) as caught:
            await client.create(CONFIG_MAP.new("a", "web"), writer=WRITER)
        assert caught.value.maybe_done
        assert len(server.asked) == 3
        assert states(client) == [WriteState.UNKNOWN]


@pytest.mark.parametrize("method", ["replace", "delete", "create"])
async def test_no_write_is_repeated_behind_the_back_when_a_kept_connection_breaks(method: str) -> None:
    """aiohttp would send PUT and DELETE a second time by itself."""
    async with serving(answering(http(STORED), None, http(STORED))) as server, client_of(server) as client:
        stored = await client.get(CONFIG_MAP, "a", "web")
        with pytest.raises(Unreachable) as caught:
            match method:
                case "replace":
                    await client.replace(stored, writer=WRITER)
                case "delete":
                    await client.delete(CONFIG_MAP, "a", "web", writer=WRITER)
                case _:
                    await client.create(stored, writer=WRITER)
        assert caught.value.maybe_done
        assert [asked.line.split()[0] for asked in server.asked[:1]] == ["GET"]
        assert len(server.asked) == 2
        assert states(client) == [WriteState.UNKNOWN]


async def test_a_kept_connection_is_used_again_and_a_closed_one_replaced() -> None:
    answers = [http(STORED), http(STORED, "200 OK", "Connection: close"), http(STORED)]
    async with serving(answering(*answers)) as server, client_of(server) as client:
        for _ in range(3):
            await client.get(CONFIG_MAP, "a", "web")
        assert (len(server.asked), server.connections) == (3, 2)


async def test_a_connection_that_the_server_closed_while_idle_does_no_harm() -> None:
    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader, writer)
        writer.write(http(STORED))  # a promise to keep the connection open, broken at once
        await writer.drain()

    async with serving(handle) as server, client_of(server) as client:
        for _ in range(3):
            await client.create(CONFIG_MAP.new("a", "web"))
            await asyncio.sleep(0.01)  # time for the FIN to arrive
        assert (len(server.asked), server.connections) == (3, 3)


async def test_retry_after_is_honoured() -> None:
    body = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "storage is (re)initializing"}
    slow_down = http(body, "429 Too Many Requests", "Retry-After: 0")
    wait = http(body, "429 Too Many Requests", "Retry-After: 1000")
    async with serving(answering(slow_down, http(STORED), wait)) as server, client_of(server) as client:
        await client.create(CONFIG_MAP.new("a", "web"))
        assert len(server.asked) == 2
        with pytest.raises(TooManyRequests, match="initializing") as caught:
            await client.create(CONFIG_MAP.new("a", "web"))
        assert caught.value.retry_after == 1000
        assert len(server.asked) == 3


async def test_a_text_body_of_a_500_is_an_error_and_no_event() -> None:
    broken = http(b"Internal Server Error\n", "500 Internal Server Error")
    async with serving(answering(broken, broken)) as server, client_of(server, attempts=1) as client:
        info = await client.resource(CONFIG_MAP)
        with pytest.raises(ServerFailure, match="Internal Server Error"):
            async with client.watch(info, QUERY):
                pytest.fail("the watch was entered")
        with pytest.raises(ServerFailure, match="Internal Server Error"):
            await client.get(CONFIG_MAP, "a", "web")


async def test_a_watch_line_of_six_megabytes_in_pieces_is_one_event() -> None:
    size = 6 * 1024 * 1024

    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader, writer)
        line = b'{"type":"ADDED","object":{"data":"' + b"x" * size + b'"}}\n'
        line += b'{"type":"BOOKMARK","object":{}}\n'
        writer.write(WATCHING)
        for at in range(0, len(line), 300_007):
            writer.write(chunk(line[at : at + 300_007]))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with serving(handle) as server, client_of(server) as client:
        async with client.watch(await client.resource(CONFIG_MAP), QUERY) as stream:
            events = [event async for batch in stream for event in batch]
        assert [event.type for event in events] == ["ADDED", "BOOKMARK"]
        assert len(bytes(events[0].object)) == size + len('{"data":""}')
        assert stream.bytes_read > size


async def test_a_silent_watch_is_given_up() -> None:
    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader, writer)
        writer.write(WATCHING + chunk(b'{"type":"BOOKMARK","object":{}}\n'))
        await reader.read()

    query = WatchQuery(namespace="web", timeout_seconds=300, idle_seconds=0.05)
    async with serving(handle) as server, client_of(server) as client:
        with pytest.raises(WatchIdle, match=r"watch configmaps web: no byte for 0\.05 s"):
            async with client.watch(await client.resource(CONFIG_MAP), query) as stream:
                async for events in stream:
                    assert [event.type for event in events] == ["BOOKMARK"]
        assert stream.events_read == 1
        await server.closed.wait()


@pytest.mark.parametrize("how", ["reset", "fin"])
async def test_interrupted_watch_is_unreachable_and_ended_watch_is_not(how: str) -> None:
    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader, writer)
        writer.write(WATCHING + chunk(b'{"type":"ADDED","object":{}}\n'))
        await writer.drain()
        if len(server.asked) == 2:
            writer.write(b"0\r\n\r\n")
        elif how == "reset":
            linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with serving(handle) as server, client_of(server) as client:
        info = await client.resource(CONFIG_MAP)
        with pytest.raises(Unreachable):
            async with client.watch(info, QUERY) as stream:
                async for _ in stream:
                    pass
        async with client.watch(info, QUERY) as stream:
            assert [len(events) async for events in stream] == [1]


async def test_a_watch_that_is_left_closes_its_connection() -> None:
    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader, writer)
        writer.write(WATCHING + chunk(b'{"type":"ADDED","object":{}}\n'))
        await reader.read()

    async with serving(handle) as server, client_of(server) as client:
        async with client.watch(await client.resource(CONFIG_MAP), QUERY) as stream:
            async for _ in stream:
                break
        async with asyncio.timeout(60):
            await server.closed.wait()


async def test_closing_the_client_ends_open_watches_as_cut_off() -> None:
    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader, writer)
        writer.write(WATCHING + chunk(b'{"type":"ADDED","object":{}}\n'))
        await reader.read()

    async with (
        serving(handle) as server,
        client_of(server) as client,
        client.watch(await client.resource(CONFIG_MAP), QUERY) as stream,
    ):
        with pytest.raises(Unreachable):
            async for _ in stream:
                await client.close()


async def test_a_cancelled_write_is_unknown_and_its_connection_closed() -> None:
    async with serving(silent) as server, client_of(server) as client:
        task = asyncio.create_task(client.create(CONFIG_MAP.new("a", "web"), writer=WRITER))
        while not server.asked:
            await asyncio.sleep(0.001)
        assert states(client) == [WriteState.IN_FLIGHT]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert states(client) == [WriteState.UNKNOWN]
        async with asyncio.timeout(60):
            await server.closed.wait()


async def test_calls_keep_to_the_cap_and_watches_do_not_count() -> None:
    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (asked := await server.read(reader, writer)) is not None:
            if "watch=true" in asked.line:
                server.open -= 1
                writer.write(WATCHING)
                await reader.read()
                server.open += 1
                return
            await asyncio.sleep(0.01)
            writer.write(http(STORED))

    async with serving(handle) as server, client_of(server, max_in_flight=2) as client:
        info = await client.resource(CONFIG_MAP)
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(5):
                await stack.enter_async_context(client.watch(info, QUERY))
            server.most_open = server.open
            await asyncio.gather(*(client.get(CONFIG_MAP, "a", "web") for _ in range(8)))
        assert server.most_open == 2


async def test_a_request_names_its_sender_and_nothing_else() -> None:
    answers = [http(STORED, "200 OK", "Set-Cookie: a=b"), http(STORED), http(b"", "302 Found", "Location: /elsewhere")]
    async with serving(answering(*answers)) as server, client_of(server, attempts=1) as client:
        await client.get(CONFIG_MAP, "a", "web")
        await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "web"}})
        with pytest.raises(ApiError) as caught:
            await client.get(CONFIG_MAP, "a", "web")
        assert caught.value.status == 302
        first, second, _ = server.asked
        assert first.header["authorization"] == "Bearer s3cret"
        assert first.header["user-agent"].startswith("tester (konverge/")
        assert first.header["accept-encoding"] == "identity"
        assert "cookie" not in second.header
        assert second.header["content-type"] == "application/apply-patch+yaml"
        assert json.loads(second.body)["kind"] == "ConfigMap"
        assert (
            second.line
            == "PATCH /api/v1/namespaces/web/configmaps/a?fieldManager=tester&fieldValidation=Strict HTTP/1.1"
        )


async def test_compression_is_requested_and_undone_if_it_is_wanted() -> None:
    packed = gzip.compress(json.dumps(STORED).encode())
    answer = http(packed, "200 OK", "Content-Encoding: gzip", "Content-Type: application/json")
    async with serving(answering(answer)) as server, client_of(server, compression=True) as client:
        assert (await client.get(CONFIG_MAP, "a", "web")).name == "a"
        assert server.asked[0].header["accept-encoding"] == "gzip"


async def test_a_large_body_is_sent_whole_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(answering(http(STORED))) as server, client_of(server) as client:
        await client.create(CONFIG_MAP.new("a", "web", data={"password": "s3cret" * 400_000}))
        assert len(server.asked[0].body) > 2_400_000
    assert "s3cret" not in caplog.text


async def test_a_closed_client_says_so() -> None:
    async with serving(answering(http(STORED))) as server:
        async with client_of(server) as client:
            await client.get(CONFIG_MAP, "a", "web")
        await client.close()
        with pytest.raises(UsageError, match="closed"):
            await client.create(CONFIG_MAP.new("a", "web"), writer=WRITER)
        assert states(client) == []


async def test_a_proxy_is_used_where_one_is_configured() -> None:
    async with serving(answering(http(STORED))) as proxy:
        config = ClientConfig.direct("http://api.invalid:6443", proxy=f"http://127.0.0.1:{proxy.port}")
        async with Client(config, name="tester") as client:
            await client.get(CONFIG_MAP, "a", "web")
        assert proxy.asked[0].line.startswith("GET http://api.invalid:6443/api/v1/namespaces/web/configmaps/a ")


@pytest.mark.parametrize(
    ("name", "option", "wanted"),
    [
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 30_000),
    ],
)
def test_sockets_notice_a_peer_that_is_gone(name: int, option: str, wanted: int) -> None:
    if not hasattr(socket, option):
        pytest.skip(f"this platform has no {option}")
    make = socket_factory(ClientSettings(), WeakSet())
    with make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ())) as made:
        assert made.getsockopt(name, getattr(socket, option)) == wanted


# -- TLS


def server_context(issued: trustme.LeafCert, client_ca: trustme.CA | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        client_ca.configure_trust(context)
    return context


async def closing(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if await server.read(reader, writer) is not None:
        writer.write(http(STORED, "200 OK", "Connection: close"))
        await writer.drain()


async def ask(config: ClientConfig) -> None:
    async with Client(config, name="tester", settings=ClientSettings(attempts=1)) as client:
        await client.get(CONFIG_MAP, "a", "web")


async def test_client_certificates_are_presented() -> None:
    ca = trustme.CA()
    mine = ca.issue_cert("jane")
    async with serving(closing, server_context(ca.issue_cert("127.0.0.1"), ca)) as server:
        config = ClientConfig.direct(
            f"https://127.0.0.1:{server.port}",
            ca=ca.cert_pem.bytes(),
            certificate=mine.cert_chain_pems[0].bytes(),
            key=mine.private_key_pem.bytes(),
        )
        await ask(config)
        assert len(server.asked) == 1


async def test_a_wrong_authority_and_a_wrong_name_are_told_apart() -> None:
    ca = trustme.CA()
    async with serving(closing, server_context(ca.issue_cert("other.example.com"))) as server:
        url = f"https://127.0.0.1:{server.port}"
        with pytest.raises(Unreachable, match="did not sign") as caught:
            await ask(ClientConfig.direct(url, ca=trustme.CA().cert_pem.bytes()))
        assert not caught.value.maybe_done
        with pytest.raises(Unreachable, match="tls-server-name"):
            await ask(ClientConfig.direct(url, ca=ca.cert_pem.bytes()))
        named = TlsOptions(server_name="other.example.com")
        await ask(ClientConfig.direct(url, ca=ca.cert_pem.bytes(), tls=named))
        await ask(ClientConfig.direct(url, tls=TlsOptions(verify=False)))


def careless_authority() -> tuple[bytes, bytes]:
    """A CA without key identifiers, as some installers generate it, and a server certificate of this CA with its key."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "careless")])
    now = wall_clock()

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )

    basic = x509.BasicConstraints(ca=True, path_length=None)
    ca = builder(ca_name, ca_key.public_key()).add_extension(basic, critical=True).sign(ca_key, hashes.SHA256())
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    leaf = builder(subject, key.public_key()).add_extension(names, critical=False).sign(ca_key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ca.public_bytes(pem), leaf.public_bytes(pem) + private


async def test_certificates_that_python_3_13_refuses_are_explained_and_can_be_accepted(tmp_path: Path) -> None:
    ca, chain = careless_authority()
    (tmp_path / "chain.pem").write_bytes(chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "chain.pem")
    async with serving(closing, context) as server:
        url = f"https://127.0.0.1:{server.port}"
        await ask(ClientConfig.direct(url, ca=ca, tls=TlsOptions(strict_x509=False)))
        with pytest.raises(Unreachable, match="strict_x509=False"):
            await ask(ClientConfig.direct(url, ca=ca, tls=TlsOptions(strict_x509=True)))


async def test_a_rotated_authority_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LOOK_SECONDS", 0.0)
    old, new = trustme.CA(), trustme.CA()
    context = server_context(old.issue_cert("127.0.0.1"))
    (tmp_path / "token").write_text("t-1")
    old.cert_pem.write_to_path(tmp_path / "ca.crt")
    async with serving(closing, context) as server:
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
        config = ClientConfig.in_cluster(mount=tmp_path, environ=environ)
        async with Client(config, name="tester", settings=ClientSettings(attempts=1)) as client:
            await client.get(CONFIG_MAP, "a", "web")
            new.issue_cert("127.0.0.1").configure_cert(context)
            with pytest.raises(Unreachable):
                await client.get(CONFIG_MAP, "a", "web")
            (tmp_path / "token").write_text("t-2")
            new.cert_pem.write_to_path(tmp_path / "ca.crt")
            await client.get(CONFIG_MAP, "a", "web")
        assert [asked.header["authorization"] for asked in server.asked] == ["Bearer t-1", "Bearer t-2"]


async def test_authority_file_broken_by_rotation_leaves_the_old_authority_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "LOOK_SECONDS", 0.0)
    ca = trustme.CA()
    (tmp_path / "token").write_text("t-1")
    ca.cert_pem.write_to_path(tmp_path / "ca.crt")
    async with serving(closing, server_context(ca.issue_cert("127.0.0.1"))) as server:
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
        async with Client(ClientConfig.in_cluster(mount=tmp_path, environ=environ), name="tester") as client:
            await client.get(CONFIG_MAP, "a", "web")
            (tmp_path / "ca.crt").write_text("half a certif")
            await client.get(CONFIG_MAP, "a", "web")
        with pytest.raises(ConfigError, match="no PEM certificate"):
            await ask(ClientConfig.in_cluster(mount=tmp_path, environ=environ))


async def test_a_refused_token_is_read_again_and_the_request_repeated(tmp_path: Path) -> None:
    ca = trustme.CA()
    (tmp_path / "token").write_text("t-1")
    ca.cert_pem.write_to_path(tmp_path / "ca.crt")

    async def handle(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (asked := await server.read(reader, writer)) is not None:
            fresh = asked.header["authorization"] == "Bearer t-2"
            writer.write(http(STORED) if fresh else http(b"Unauthorized", "401 Unauthorized"))

    async with serving(handle, server_context(ca.issue_cert("127.0.0.1"))) as server:
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
        async with Client(ClientConfig.in_cluster(mount=tmp_path, environ=environ), name="tester") as client:
            await client.config.source.current()
            (tmp_path / "token").write_text("t-2")
            await client.create(CONFIG_MAP.new("a", "web"))
        assert [asked.header["authorization"] for asked in server.asked] == ["Bearer t-1", "Bearer t-2"]


async def test_each_way_to_the_server_carries_the_header_of_the_trace() -> None:
    spans = Spans()
    large = CONFIG_MAP.new("a", "web", data={"text": "x" * 100_000})
    async with serving(answering(http(STORED), http(STORED), WATCHING)) as server:
        config = ClientConfig.direct(f"http://127.0.0.1:{server.port}", token="s3cret")
        async with Client(config, name="tester", tracing=spans.provider) as client:
            await client.get(CONFIG_MAP, "a", "web")
            await client.create(large)
            async with client.watch(await client.resource(CONFIG_MAP), QUERY):
                pass
    traced = [span for span in spans if "configmaps" in span.name]
    assert [asked.header["traceparent"].split("-")[1:3] for asked in server.asked] == [
        [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"] for span in traced
    ]
    assert len(traced) == 3
    assert "s3cret" not in "".join(span.to_json() for span in spans)


class Open:
    """A fence that lets every write through."""

    def check(self) -> None:
        pass


async def test_a_loop_that_sends_past_sockets_gets_no_fence() -> None:
    async with Client(ClientConfig.direct("http://127.0.0.1:1"), name="test") as client:
        if isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop):
            await client.fenced_by(Open()).close()
            return
        with pytest.raises(UsageError, match=r"uvloop\.Loop sends past the sockets .* asyncio's own event loop"):
            client.fenced_by(Open())
