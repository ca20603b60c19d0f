"""The server over real TLS on loopback, on a loop with real time: certificates that change during requests, limits, the end."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from event_loops import LOOPS

import konverge as kv
from konverge.client import Client
from konverge.errors import ConfigError
from konverge.metrics import Metrics
from konverge.runtime.admission.handler import WebhookServices
from konverge.runtime.admission.responding import AdmissionResponse, plain
from konverge.runtime.admission.router import WebhookRouter
from konverge.runtime.admission.serving import Serving
from konverge.runtime.admission.settings import place_of
from konverge.runtime.http.listener import Limits
from konverge.runtime.http.posts import Post, PostServer
from konverge.runtime.tls.serving import MountedPair, ServingCertificate
from konverge_testing import ApiServer
from konverge_testing.apiserver.certificates import Authority

SECRET = kv.kind("v1", "Secret")
WEBHOOK = kv.Webhook.validating(SECRET)
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u1", "operation": "CREATE", "object": {"metadata": {"name": "a"}}},
}


pytestmark = pytest.mark.usefixtures("logs")


@pytest.fixture(autouse=True, params=LOOPS)
def _on_each_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "new_event_loop", LOOPS[request.param])


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run on a loop of its own with real time."""

    async def limited() -> None:
        async with asyncio.timeout(30):
            await work()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(limited())


def write(folder: Path, authority: Authority, name: str = "hooks") -> bytes:
    pair = authority.server(name, ["127.0.0.1"])
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return pair.certificate


class World:
    """A server with mounted certificates, and a client that trusts their authority."""

    def __init__(self, folder: Path, handler: Any, **settings: Any) -> None:
        self.folder = folder
        self.authority = Authority.create("an authority")
        self.first = write(folder, self.authority)
        self.metrics = Metrics()
        self.settings = kv.WebhookSettings(
            address="127.0.0.1:0", url="https://127.0.0.1", certificates=str(folder), **settings
        )
        self.webhooks = [WEBHOOK.handled_by(handler)]
        self.context = ssl.create_default_context(cadata=self.authority.certificate.decode())

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Serving]:
        place = place_of("shop", self.settings)
        door = WebhookRouter(self.webhooks, WebhookServices(), self.metrics)
        async with ApiServer() as server, Client(server.config(), name="shop") as client:
            serving = Serving(self.webhooks, door, client, "shop", place, self.settings, self.metrics)
            assert await serving.bring_up_to_date() == []
            try:
                yield serving
            finally:
                await serving.stop()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(ssl=self.context)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield session

    async def post(
        self, serving: Serving, body: Any = REVIEW, path: str = WEBHOOK.path, **headers: str
    ) -> tuple[int, str]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"Content-Type": "application/json", **headers}
        async with (
            self.session() as session,
            session.post(f"{serving.address}{path}?timeout=10s", data=data, headers=head) as answer,
        ):
            return answer.status, await answer.text()

    async def served(self, serving: Serving) -> bytes:
        """The certificate that a new connection gets."""
        port = int(serving.address.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=self.context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return ssl.DER_cert_to_PEM_cert(shown).encode()


async def yes(_: Any) -> kv.Allow:
    return kv.Allow()


def test_a_review_is_answered_over_tls(tmp_path: Path) -> None:
    world = World(tmp_path, yes)

    async def work() -> None:
        async with world.serving() as serving:
            status, text = await world.post(serving)
            assert status == 200
            assert json.loads(text)["response"] == {"uid": "u1", "allowed": True}
            assert serving.valid

    run(work)


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"body": b"x" * 2000}, 413, "larger than 1000 bytes"),
        ({"Content-Type": "application/yaml"}, 415, "application/yaml; application/json is expected"),
        ({"path": "/other"}, 404, "no webhook is served under /other"),
        ({"body": b"{}"}, 400, "is not spoken here"),
    ],
)
def test_bytes_other_than_a_request_are_refused_in_words(
    tmp_path: Path, sent: dict[str, Any], status: int, words: str
) -> None:
    world = World(tmp_path, yes, max_bytes=1000)

    async def work() -> None:
        async with world.serving() as serving:
            found, text = await world.post(serving, **sent)
            assert found == status
            assert words in text

    run(work)


def test_a_get_is_refused_here(tmp_path: Path) -> None:
    world = World(tmp_path, yes)

    async def work() -> None:
        async with (
            world.serving() as serving,
            world.session() as session,
            session.get(f"{serving.address}{WEBHOOK.path}") as answer,
        ):
            assert answer.status == 405

    run(work)


def test_a_certificate_is_replaced_while_requests_go_on(tmp_path: Path) -> None:
    world = World(tmp_path, yes)

    async def work() -> None:
        async with world.serving() as serving, world.session() as session:
            url = f"{serving.address}{WEBHOOK.path}"
            async with session.post(url, json=REVIEW) as answer:
                assert answer.status == 200
            assert await world.served(serving) == world.first
            second = write(tmp_path, world.authority)
            await serving.bring_up_to_date()
            assert await world.served(serving) == second
            async with session.post(url, json=REVIEW) as answer:  # on the connection that began before
                assert answer.status == 200
            value = world.metrics.registry.get_sample_value
            assert value("certwatcher_read_certificate_total") == 2
            assert value("certwatcher_read_certificate_errors_total") == 0

    run(work)


@pytest.mark.parametrize("broken", ["half", "gone", "nonsense"])
def test_a_pair_that_does_not_work_leaves_the_last_one_in_use(tmp_path: Path, broken: str) -> None:
    world = World(tmp_path, yes)

    async def work() -> None:
        async with world.serving() as serving:
            if broken == "half":
                (tmp_path / "tls.crt").write_bytes(world.authority.server("other", ["127.0.0.1"]).certificate)
            elif broken == "gone":
                (tmp_path / "tls.key").unlink()
            else:
                (tmp_path / "tls.crt").write_bytes(b"nonsense")
            with pytest.raises(ConfigError):
                await serving.bring_up_to_date()
            assert await world.served(serving) == world.first
            assert (await world.post(serving))[0] == 200
            assert world.metrics.registry.get_sample_value("certwatcher_read_certificate_errors_total") == 1
            third = write(tmp_path, world.authority)
            await serving.bring_up_to_date()
            assert await world.served(serving) == third

    run(work)


def test_requests_in_progress_end_before_the_server_does(tmp_path: Path) -> None:
    begun, let = asyncio.Event(), asyncio.Event()

    async def slowly(_: Any) -> kv.Allow:
        begun.set()
        await let.wait()
        return kv.Allow()

    world = World(tmp_path, slowly)

    async def work() -> None:
        async with world.serving() as serving:
            address = serving.address
            asking = asyncio.create_task(world.post(serving))
            await begun.wait()
            stopping = asyncio.create_task(serving.stop())
            while True:  # the port is closed at once
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
                except OSError:
                    break
                writer.close()
                await asyncio.sleep(0)
            assert not stopping.done()
            let.set()
            assert (await asking)[0] == 200
            await stopping

    run(work)


def test_a_request_that_takes_too_long_to_end_is_cut_off(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def never(_: Any) -> kv.Allow:
        begun.set()
        await asyncio.Event().wait()
        return kv.Allow()

    world = World(tmp_path, never, drain=0.1)

    async def work() -> None:
        async with world.serving() as serving:
            asking = asyncio.create_task(world.post(serving))
            await begun.wait()
            await serving.stop()
            with pytest.raises(aiohttp.ClientError):
                await asking

    run(work)


def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, yes)
    said: list[str] = []

    async def answer(post: Post) -> AdmissionResponse:
        try:
            await post.read()
        except TimeoutError:
            said.append("given up")
        return plain(408, "given up")

    async def work() -> None:
        serving = ServingCertificate()
        serving.load(*MountedPair(str(tmp_path)).read())
        server = PostServer(
            answer, address="127.0.0.1:0", context=serving.context, max_bytes=1000, shutdown=1.0, reading=0.05
        )
        await server.start()
        port = int(server.address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=world.context)
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()
        await server.stop()
        assert said == ["given up"]

    run(work)


@pytest.mark.parametrize(
    ("newest", "agreed"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]
)
def test_server_negotiates_tls_1_3_if_supported_and_1_2_otherwise(
    tmp_path: Path, newest: ssl.TLSVersion, agreed: str
) -> None:
    world = World(tmp_path, yes)

    async def work() -> None:
        world.context.maximum_version = newest
        async with world.serving() as serving:
            port = int(serving.address.rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=world.context)
            assert writer.get_extra_info("ssl_object").version() == agreed
            writer.close()

    run(work)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_tls_1_1_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, yes)

    async def work() -> None:
        world.context.minimum_version = world.context.maximum_version = ssl.TLSVersion.TLSv1_1
        world.context.set_ciphers("ALL:@SECLEVEL=0")
        async with world.serving() as serving:
            port = int(serving.address.rpartition(":")[2])
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", port, ssl=world.context)

    run(work)


def test_a_handshake_that_does_not_come_is_cut_and_leaves_no_line(tmp_path: Path, logs: list[Any]) -> None:
    write(tmp_path, Authority.create("an authority"))

    async def answer(_: Post) -> AdmissionResponse:
        return plain(200, "ok")

    async def work() -> None:
        serving = ServingCertificate()
        serving.load(*MountedPair(str(tmp_path)).read())
        server = PostServer(
            answer,
            address="127.0.0.1:0",
            context=serving.context,
            max_bytes=1000,
            shutdown=1.0,
            limits=Limits(head=0.05),
        )
        await server.start()
        port = int(server.address.rpartition(":")[2])
        for said in (b"", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        await server.stop()
        assert logs == []

    run(work)


def test_a_taken_port_is_reported_with_the_address(tmp_path: Path) -> None:
    world = World(tmp_path, yes)

    async def work() -> None:
        async with world.serving() as first:
            other = World(tmp_path, yes)
            address = first.address.removeprefix("https://")
            other.settings = kv.WebhookSettings(address=address, url="https://127.0.0.1", certificates=str(tmp_path))
            with pytest.raises(ConfigError, match=f"cannot listen on {address} for webhooks: Address already in use"):
                async with other.serving():
                    pass

    run(work)


def test_a_certificate_that_is_loaded_is_not_loaded_again() -> None:
    pair = Authority.create("an authority").server("hooks", ["127.0.0.1"])
    serving = ServingCertificate()
    assert serving.certificate == b""
    assert serving.load(pair.certificate, pair.key)
    assert not serving.load(pair.certificate, pair.key)
    assert serving.certificate == pair.certificate


def test_a_folder_without_certificates_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.crt cannot be read: No such file or directory; mount the Secret"):
        MountedPair(str(tmp_path)).read()
