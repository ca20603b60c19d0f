"""The server over real sockets on loopback, on a loop with real time; no test here sleeps."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from konverge.daemon.settings import Settings
from konverge.errors import ConfigError, UsageError
from konverge.runtime.http.health import Check
from konverge.runtime.http.listener import is_loopback, parse_address
from konverge.runtime.http.server import ProbeServer, ServerSettings

FREE = "127.0.0.1:0"


@dataclass
class Source:
    """The pages below /debug."""

    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def debug(self) -> Mapping[str, Callable[[], Any]]:
        return {
            "queues": lambda: {"backup": {"ready": 2, "at": datetime(2030, 1, 1, tzinfo=UTC)}},
            "broken": self.broken,
        }

    def broken(self) -> Any:
        raise RuntimeError("a bug")

    def explain(self, kind: str, namespace: str, name: str) -> Any:
        self.asked.append((kind, namespace, name))
        return [{"controller": "backup"}]

    async def overview(self) -> Any:
        return {"name": "backups"}


@dataclass
class World:
    """A server and the objects that it was created with."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    source: Source = field(default_factory=Source)
    ready: list[Check] = field(default_factory=lambda: [Check("controller/backup")])
    scraped: int = 0

    def scrape(self) -> None:
        self.scraped += 1

    def server(self, debug: bool = True, debug_address: str = FREE, **settings: Any) -> ProbeServer:
        return ProbeServer(
            registry=self.registry,
            live=list,
            ready=lambda: self.ready,
            debug=self.source if debug else None,
            settings=ServerSettings(**{"metrics": FREE, "health": FREE, "debug": debug_address, **settings}),
            before_scrape=self.scrape,
        )


@dataclass(frozen=True)
class Reply:
    status: int
    text: str
    headers: Mapping[str, str]

    def json(self) -> Any:
        return json.loads(self.text)


@pytest.fixture
def world() -> World:
    return World()


def with_server(server: ProbeServer, use: Callable[[ProbeServer], Awaitable[None]]) -> None:
    """Run the server around some requests, on a loop of its own with real time."""

    async def program() -> None:
        async with server:
            await use(server)
        assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()

    asyncio.run(program())


async def fetch(url: str, **headers: str) -> Reply:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return Reply(response.status, await response.text(), response.headers)


def get(server: ProbeServer, part: str, path: str, **headers: str) -> Reply:
    """Start the server, send one request, stop it."""
    replies: list[Reply] = []

    async def use(server: ProbeServer) -> None:
        replies.append(await fetch(server.addresses[part] + path, **headers))

    with_server(server, use)
    return replies[0]


# --- addresses ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9", ("::1", 9)),
        ("localhost:1", ("localhost", 1)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses_are_host_and_port(address: str, expected: tuple[str, int] | None) -> None:
    assert parse_address(address) == expected


@pytest.mark.parametrize("address", ["8080", "host", "host:", ":http", "::1:80", ":65536", ":-1"])
def test_a_malformed_address_is_an_error_that_says_how_to_write_one(address: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        parse_address(address)


def test_metrics_health_and_debug_have_listeners_of_their_own(world: World) -> None:
    async def use(server: ProbeServer) -> None:
        assert sorted(server.addresses) == ["debug", "health", "metrics"]
        assert len(set(server.addresses.values())) == 3
        paths = {"metrics": ["/metrics"], "health": ["/healthz", "/readyz"], "debug": ["/debug"]}
        for part, address in server.addresses.items():
            assert (await fetch(address + "/")).text.split() == paths[part]
            for other, pages in paths.items():
                statuses = {(await fetch(address + page)).status for page in pages}
                assert statuses == {200 if other == part else 404}

    with_server(world.server(health="127.0.0.1:00", debug_address="127.0.0.1:000"), use)


def test_the_default_address_of_debug_is_on_loopback() -> None:
    assert parse_address(ServerSettings().debug) == ("127.0.0.1", 8082)
    assert Settings().debug == ServerSettings().debug


def test_equal_addresses_share_one_listener(world: World) -> None:
    async def use(server: ProbeServer) -> None:
        assert len(set(server.addresses.values())) == 1
        for path in ("/metrics", "/healthz", "/debug"):
            assert (await fetch(server.addresses["health"] + path)).status == 200

    with_server(world.server(), use)


def test_an_address_of_0_serves_nothing(world: World) -> None:
    async def use(server: ProbeServer) -> None:
        assert sorted(server.addresses) == ["metrics"]

    with_server(world.server(health="0", debug_address="0"), use)


def test_everything_off_starts_and_stops(world: World) -> None:
    async def use(server: ProbeServer) -> None:
        assert server.addresses == {}

    with_server(world.server(metrics="0", health="0", debug_address="0"), use)


def test_every_interface_is_one_socket_that_answers_on_loopback(world: World) -> None:
    assert get(world.server(metrics=":0"), "metrics", "/metrics").status == 200


def test_occupied_address_is_an_error_that_names_it_and_leaks_nothing(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = world.server(health=f"127.0.0.1:{port}", debug_address=f"127.0.0.1:{port}")

        async def program() -> None:
            with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port} for debug and health"):
                await server.start()
            assert server.addresses == {}

        asyncio.run(program())


def test_a_server_can_stop_and_start_again_on_the_same_port(world: World) -> None:
    async def program() -> None:
        first = world.server()
        async with first:
            port = first.addresses["metrics"].rsplit(":", 1)[1]
            assert (await fetch(first.addresses["metrics"] + "/metrics")).status == 200
            with pytest.raises(UsageError, match="already"):
                await first.start()
        with pytest.raises(aiohttp.ClientConnectionError):
            await fetch(f"http://127.0.0.1:{port}/metrics")
        async with world.server(metrics=f"127.0.0.1:{port}") as again:
            assert (await fetch(again.addresses["metrics"] + "/metrics")).status == 200
        await first.stop()

    asyncio.run(program())


def test_stopping_cuts_a_request_that_does_not_end(world: World) -> None:
    async def program() -> None:
        async with world.server(shutdown=0.01) as server:
            host, port = server.addresses["metrics"].removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # the headers never end
            await writer.drain()
        assert await reader.read() == b""
        writer.close()

    asyncio.run(program())


# --- metrics ------------------------------------------------------------------------------------------------------------------


def counter(world: World) -> Counter:
    made = Counter("things", "Things that happened", ("kind",), registry=world.registry)
    made.labels(kind="a").inc(3)
    return made


@pytest.mark.parametrize(
    ("accept", "content_type", "end"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8", ""),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            "application/openmetrics-text; version=1.0.0",
            "# EOF\n",
        ),
    ],
)
def test_metrics_come_in_the_format_that_is_asked_for(world: World, accept: str, content_type: str, end: str) -> None:
    counter(world)
    reply = get(world.server(), "metrics", "/metrics", Accept=accept)
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith(content_type)
    assert 'things_total{kind="a"} 3.0\n' in reply.text
    assert reply.text.endswith(end)
    assert world.scraped == 1


def test_metrics_can_be_restricted_by_name(world: World) -> None:
    counter(world)
    Counter("others", "Other things", registry=world.registry)
    reply = get(world.server(), "metrics", "/metrics?name[]=things_total")
    assert "others" not in reply.text
    assert "things_total" in reply.text


def test_metrics_are_compressed_if_the_client_accepts_that(world: World) -> None:
    counter(world)

    async def use(server: ProbeServer) -> None:
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.get(server.addresses["metrics"] + "/metrics", headers={"Accept-Encoding": "gzip"}) as response,
        ):
            assert response.headers["Content-Encoding"] == "gzip"
            assert b"things_total" in gzip.decompress(await response.read())

    with_server(world.server(), use)


def test_a_large_exposition_is_made_off_the_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    counter(world)
    threads: list[Any] = []
    original = asyncio.to_thread

    async def to_thread(*call: Any) -> Any:
        threads.append(call)
        return await original(*call)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)

    async def use(server: ProbeServer) -> None:
        replies = [await fetch(server.addresses["metrics"] + "/metrics") for _ in range(2)]
        assert replies[0].text == replies[1].text

    with_server(world.server(thread_bytes=10), use)
    assert len(threads) == 1  # the size is known from the start


# --- health -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", 200, "ok"),
        ("/healthz/ping", 200, "ok"),
        ("/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n"),
        ("/readyz/controller/backup", 500, "[-]controller/backup failed: no CRD\n"),
        ("/readyz?exclude=controller/backup", 200, "ok"),
        ("/readyz", 500, "[+]ping ok\n[-]controller/backup failed: no CRD\nreadyz check failed\n"),
        ("/readyz/nobody", 404, "readyz has no check 'nobody'; there are: ping, controller/backup\n"),
    ],
)
def test_probes_answer_as_kubernetes_does(world: World, path: str, status: int, text: str) -> None:
    world.ready = [Check("controller/backup", "no CRD")]
    reply = get(world.server(), "health", path)
    assert (reply.status, reply.text) == (status, text)
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(("path", "accept"), [("/readyz?format=json", "*/*"), ("/readyz", "application/json")])
def test_probes_answer_in_json_if_the_client_asks_for_it(world: World, path: str, accept: str) -> None:
    reply = get(world.server(), "health", path, Accept=accept)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json()["checks"][1] == {"name": "controller/backup", "status": "ok"}


# --- debug --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ui", [["ui"], []], ids=["with ui", "without ui"])
def test_debug_lists_its_pages_and_shows_them(world: World, ui: list[str]) -> None:
    async def use(server: ProbeServer) -> None:
        base = server.addresses["debug"]
        for path in ("/debug", "/debug/"):
            assert (await fetch(base + path)).json() == {
                "paths": [
                    "/debug/broken",
                    "/debug/explain?kind=&namespace=&name=",
                    "/debug/overview",
                    "/debug/queues",
                    "/debug/tasks",
                    *(f"/debug/{name}" for name in ui),
                ]
            }
        assert (await fetch(base + "/debug/queues")).json() == {"backup": {"ready": 2, "at": "2030-01-01T00:00:00Z"}}
        assert (await fetch(base + "/debug/overview")).json() == {"name": "backups"}
        missing = await fetch(base + "/debug/nothing")
        assert (missing.status, missing.text) == (
            404,
            f"/debug has no page 'nothing'; there are: {', '.join(['broken', 'explain', 'overview', 'queues', 'tasks', *ui])}\n",
        )
        assert (await fetch(base + "/debug/ui")).text.startswith("/debug/ui is off by default. ") is not bool(ui)

    with_server(world.server(debug_ui=bool(ui)), use)


def test_a_debug_page_that_raises_is_a_500_and_a_log_line(world: World, logs: list[Any]) -> None:
    async def use(server: ProbeServer) -> None:
        reply = await fetch(server.addresses["debug"] + "/debug/broken")
        assert (reply.status, reply.text) == (500, "/debug/broken failed: RuntimeError; see the log\n")
        assert (await fetch(server.addresses["debug"] + "/debug/queues")).status == 200

    with_server(world.server(), use)
    assert [entry["url"] for entry in logs] == ["/debug/broken"]


def test_explain_asks_the_source(world: World) -> None:
    reply = get(world.server(), "debug", "/debug/explain?kind=backup&namespace=web&name=nightly")
    assert reply.json() == [{"controller": "backup"}]
    assert world.source.asked == [("backup", "web", "nightly")]


@pytest.mark.parametrize("query", ["", "?kind=backup", "?name=nightly"])
def test_explain_without_its_parameters_is_a_400_that_lists_them(world: World, query: str) -> None:
    reply = get(world.server(), "debug", "/debug/explain" + query)
    assert reply.status == 400
    assert "kind=backup&namespace=web&name=nightly" in reply.text


def test_the_task_dump_shows_where_tasks_wait(world: World) -> None:
    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def outer() -> None:
        await wait_for_ever()

    async def use(server: ProbeServer) -> None:
        task = asyncio.create_task(outer(), name="the sleeper")
        await asyncio.sleep(0)
        dump = (await fetch(server.addresses["debug"] + "/debug/tasks")).json()
        task.cancel()
        await asyncio.wait({task})
        (entry,) = [entry for entry in dump if entry["name"] == "the sleeper"]
        assert entry["coroutine"].endswith("outer")
        assert [place.split(" ")[0].rsplit(".")[-1] for place in entry["stack"]] == ["outer", "wait_for_ever"]

    with_server(world.server(), use)


def test_debug_without_a_source_is_not_served(world: World) -> None:
    async def use(server: ProbeServer) -> None:
        assert "debug" not in server.addresses
        assert (await fetch(server.addresses["health"] + "/debug")).status == 404

    with_server(world.server(debug=False), use)


def _own_address() -> str | None:
    """An address of this machine that is not loopback; None if it has none. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address


@pytest.mark.parametrize("health", [":0", "0"], ids=["beside health", "address of its own"])
@pytest.mark.parametrize("peer", ["own address", pytest.param("127.0.0.2", marks=pytest.mark.linux)])
def test_debug_serves_no_other_peer_whatever_its_address_is(world: World, health: str, peer: str) -> None:
    source = _own_address() if peer == "own address" else peer
    if source is None:
        pytest.skip("this machine has no address besides loopback")

    async def use(server: ProbeServer) -> None:
        url = server.addresses["debug"] + "/debug"
        assert (await fetch(url)).status == 200
        connector = aiohttp.TCPConnector(local_addr=(source, 0))
        async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as response:
            assert (response.status, "only the peers 127.0.0.1 and ::1" in await response.text()) == (403, True)

    with_server(world.server(health=health, debug_address=":0"), use)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"])
def test_loopback_is_one_address_of_each_protocol(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.6", "127.1", "127.255.255.254", "::ffff:127.0.0.6", "::127.0.0.1", "::1%lo", "10.0.0.1", "localhost", ""],
)
def test_no_other_address_is_loopback(address: str) -> None:
    assert not is_loopback(address)


@pytest.mark.parametrize("debug", [FREE, "127.0.0.1:00"], ids=["beside health", "address of its own"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8081", 200),
        ("127.0.0.1", 200),
        ("[::1]:8081", 200),
        ("127.0.0.6", 403),
        ("evil.example.com", 403),
        ("localhost.evil.example.com:8081", 403),
        ("169.254.169.254", 403),
        ("", 403),
    ],
)
def test_debug_on_loopback_answers_no_name_that_was_rebound_to_it(
    world: World, debug: str, host: str, status: int
) -> None:
    reply = get(world.server(debug_address=debug), "debug", "/debug/queues", Host=host)
    assert reply.status == status
    assert ("only under the names" in reply.text) == (status == 403)


def test_a_flood_of_scrapes_gets_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    let, begun = asyncio.Event(), asyncio.Event()

    async def to_thread(*_: Any) -> bytes:
        begun.set()
        await let.wait()
        return b"late"

    monkeypatch.setattr(asyncio, "to_thread", to_thread)

    async def use(server: ProbeServer) -> None:
        url = server.addresses["metrics"] + "/metrics"
        assert (await fetch(url)).status == 200  # the size is known from the start
        first = asyncio.create_task(fetch(url))
        await begun.wait()
        refused = await fetch(url)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        let.set()
        assert (await first).text == "late"
        assert (await fetch(url)).status == 200

    counter(world)
    with_server(world.server(thread_bytes=1, scrapes=1), use)
