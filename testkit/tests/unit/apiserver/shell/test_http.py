"""The shell over real sockets: the requests at the handler, the responses at the client, and the cleanup."""

import asyncio
import gzip
import io
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from toy_server import Toy, config_map, names
from yarl import URL

from konverge.client import Client, ClientConfig
from konverge.client.resources import WatchQuery
from konverge.errors import Forbidden, NotFound, TooManyRequests, Unreachable
from konverge.kinds import kind
from konverge_testing.apiserver import statuses
from konverge_testing.apiserver.certificates import Authority
from konverge_testing.apiserver.faults.rules import Cut, Drop, Match, Refuse, Rule
from konverge_testing.apiserver.http import HttpShell
from konverge_testing.apiserver.requests import ADMIN, Call, Response, User
from konverge_testing.kubeconfigs import client_config, write_kubeconfig

CONFIG_MAP = kind("v1", "ConfigMap")
WATCH = "/api/v1/configmaps?watch=1"
QUERY = WatchQuery(namespace="web", resource_version="0", timeout_seconds=600, idle_seconds=700)


class Echo:
    """Records the calls and gives them all the same response."""

    def __init__(self, answer: Response | None = None) -> None:
        self.answer = answer or Response(body=b"{}")
        self.calls: list[Call] = []

    async def handle(self, call: Call) -> Response:
        self.calls.append(call)
        return self.answer


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield session


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


async def test_a_request_reaches_the_handler_as_it_came(http: aiohttp.ClientSession) -> None:
    echo = Echo()
    async with HttpShell(echo.handle) as shell:
        headers = {"X-Thing": "One", "Impersonate-Group": "a"}
        url = f"{shell.url}/apis/x%3Ay/z%20w?dryRun=All&a=1&a=2&empty=&plus=a+b%2Bc"
        async with http.post(URL(url, encoded=True), data=b"body", headers=headers) as response:
            assert await response.read() == b"{}"
    call = echo.calls[0]
    assert (call.method, call.path, call.body, call.user) == ("POST", "/apis/x:y/z w", b"body", None)
    assert call.query.pairs == (("dryRun", "All"), ("a", "1"), ("a", "2"), ("empty", ""), ("plus", "a b+c"))
    assert (call.headers["x-thing"], call.headers["impersonate-group"]) == ("One", "a")


async def test_repeated_headers_are_joined_in_their_order(http: aiohttp.ClientSession) -> None:
    echo = Echo()
    async with HttpShell(echo.handle) as shell, http.get(shell.url, headers=[("Accept", "a/b"), ("Accept", "c/d")]):
        pass
    assert echo.calls[0].headers["accept"] == "a/b,c/d"


async def test_a_chunked_body_is_read_to_its_end(http: aiohttp.ClientSession) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"one", b"two"):
            yield part

    echo = Echo()
    async with HttpShell(echo.handle) as shell, http.post(shell.url, data=parts()) as response:
        assert response.status == 200
    assert echo.calls[0].body == b"onetwo"


@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
async def test_a_body_over_three_mebibytes_is_refused_in_the_servers_words(
    http: aiohttp.ClientSession, chunked: bool
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * (1 << 20)

    echo = Echo()
    async with HttpShell(echo.handle) as shell:
        data = parts() if chunked else io.BytesIO(b" " * (4 << 20))
        async with http.post(shell.url, data=data) as response:
            assert response.status == 413
            found = await response.json()
        assert found["reason"] == "RequestEntityTooLarge"
        assert found["message"] == "Request entity too large: limit is 3145728"
        async with http.post(shell.url, data=io.BytesIO(b" " * (3 << 20))) as response:
            assert response.status == 200
    assert len(echo.calls) == 1


async def test_an_answer_keeps_status_headers_and_warnings(http: aiohttp.ClientSession) -> None:
    echo = Echo(
        Response(429, b"slow", "text/plain", {"Retry-After": "7"}, ['unknown field "spec.a"', "old", "old", "no\nline"])
    )
    async with HttpShell(echo.handle) as shell, http.get(shell.url) as response:
        assert (response.status, await response.read(), response.content_type) == (429, b"slow", "text/plain")
        assert response.headers["Retry-After"] == "7"
        assert response.headers.getall("Warning") == ['299 - "unknown field \\"spec.a\\""', '299 - "old"']


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE"])
async def test_other_methods_reach_the_handler_too(http: aiohttp.ClientSession, method: str) -> None:
    echo = Echo()
    async with HttpShell(echo.handle) as shell, http.request(method, f"{shell.url}/version") as response:
        assert response.status == 200
        assert await response.read() == (b"" if method == "HEAD" else b"{}")
        assert response.headers["Content-Length"] == "2"
    assert echo.calls[0].method == method


SIZES = [("gzip, deflate", 200_000, "gzip"), ("gzip", 100_000, None), ("identity", 200_000, None), ("", 200_000, None)]


@pytest.mark.parametrize(("offer", "size", "encoding"), SIZES)
async def test_only_large_answers_are_compressed_for_those_who_ask(
    http: aiohttp.ClientSession, offer: str, size: int, encoding: str | None
) -> None:
    echo = Echo(Response(body=b"x" * size))
    async with HttpShell(echo.handle) as shell, http.get(shell.url, headers={"Accept-Encoding": offer}) as response:
        body = await response.read()
        assert response.headers.get("Content-Encoding") == encoding
        assert (gzip.decompress(body) if encoding else body) == b"x" * size


async def test_refusals_and_defects_of_the_handler_are_status_objects(http: aiohttp.ClientSession) -> None:
    async def handle(call: Call) -> Response:
        if call.path == "/nowhere":
            raise statuses.page_not_found()
        if call.path == "/broken":
            raise LookupError("a defect")
        raise statuses.too_many_requests("storage is (re)initializing", 3)

    async with HttpShell(handle) as shell:
        async with http.get(f"{shell.url}/broken") as response:
            assert (response.status, (await response.json())["reason"]) == (500, "InternalError")
        async with http.get(f"{shell.url}/nowhere") as response:
            assert (response.status, response.content_type) == (404, "text/plain")
            assert await response.read() == b"404 page not found\n"
        async with http.get(shell.url) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "3")
            assert (await response.json())["details"] == {"retryAfterSeconds": 3}


async def test_lines_of_a_watch_come_as_they_happen(toy: Toy, http: aiohttp.ClientSession) -> None:
    async with HttpShell(toy.handle) as shell, http.get(shell.url + WATCH) as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        for name in "ab":
            toy.store(config_map(name))
            assert names(await response.content.readline()) == [f"ADDED {name}"]
        toy.end()
        assert await response.content.read() == b""


async def test_a_client_that_goes_away_ends_its_stream(toy: Toy, http: aiohttp.ClientSession) -> None:
    async with HttpShell(toy.handle) as shell:
        for _ in range(3):
            response = await http.get(shell.url + WATCH)
            await eventually(lambda: len(toy.watchers) == 1)
            response.close()
            await eventually(lambda: toy.watchers == [])
        assert toy.closed == 3
        await eventually(lambda: toy.faults.watches == ())


async def test_a_client_that_never_reads_does_not_stop_the_others(toy: Toy, http: aiohttp.ClientSession) -> None:
    async with HttpShell(toy.handle) as shell:
        lazy = await http.get(shell.url + WATCH)
        async with http.get(shell.url + WATCH) as response:
            for number in range(40):
                toy.store(config_map(f"{number}", data="x" * 200_000))
                assert len(await response.content.readline()) > 200_000
        lazy.close()
        await eventually(lambda: toy.watchers == [])


async def test_stopping_ends_open_watches_at_once_and_leaves_nothing(toy: Toy) -> None:
    before = asyncio.all_tasks()
    async with aiohttp.ClientSession() as http:
        async with HttpShell(toy.handle, tls=True) as shell:
            trust = ssl.create_default_context(cadata=shell.authority.certificate.decode() if shell.authority else "")
            watches = [await http.get(shell.url + WATCH, ssl=trust) for _ in range(5)]
            toy.store(config_map("a"))
            for watch in watches:
                await watch.content.readline()
            started = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - started < 5
        assert toy.closed == 5
        for watch in watches:
            assert await watch.content.read() == b""
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get(shell.url + WATCH, ssl=trust)
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_stopping_does_not_wait_for_a_call_that_hangs(http: aiohttp.ClientSession) -> None:
    entered = asyncio.Event()

    async def handle(call: Call) -> Response:
        entered.set()
        await asyncio.Event().wait()
        return Response()

    async with HttpShell(handle) as shell:
        asking = asyncio.create_task(_get(http, shell.url))
        await entered.wait()
        started = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started < 5
    with pytest.raises(aiohttp.ClientError):
        await asking


async def _get(http: aiohttp.ClientSession, url: str) -> bytes:
    async with http.get(url) as response:
        return await response.read()


async def test_a_shell_can_be_started_again_on_the_same_port(http: aiohttp.ClientSession) -> None:
    echo = Echo()
    async with HttpShell(echo.handle) as shell:
        first = shell.url
        assert await _get(http, first) == b"{}"
    port = int(first.rpartition(":")[2])
    async with HttpShell(echo.handle, port=port) as shell:
        assert shell.url == first
        assert await _get(http, first) == b"{}"


async def test_a_client_certificate_says_who_asks(tmp_path: Path) -> None:
    echo = Echo()
    jane = User("jane", ("dev", "ops", "system:authenticated"))
    async with HttpShell(echo.handle, tls=True) as shell:
        for user, token, expected in ((jane, "", jane), (ADMIN, "", ADMIN), (ADMIN, "t-1", None)):
            path = write_kubeconfig(tmp_path / "config", shell, user=user, token=token)
            assert path.stat().st_mode & 0o777 == 0o600
            async with Client(await ClientConfig.from_kubeconfig(path), name="t") as client:
                await client.raw("GET", "/version")
            found = echo.calls[-1]
            assert (found.user, found.headers.get("authorization", "")) == (expected, token and f"Bearer {token}")


async def test_a_certificate_of_another_authority_is_refused() -> None:
    async with HttpShell(Echo().handle, tls=True) as shell:
        assert shell.authority is not None
        pair = Authority.create("someone else").client("jane")
        config = ClientConfig.direct(
            shell.url, ca=shell.authority.certificate, certificate=pair.certificate, key=pair.key
        )
        async with Client(config, name="t") as client:
            with pytest.raises(Unreachable):
                await client.raw("GET", "/version", repeatable=False)


async def test_over_plain_http_the_shell_may_say_who_asks(tmp_path: Path) -> None:
    echo = Echo()
    async with HttpShell(echo.handle, user=ADMIN) as shell:
        path = write_kubeconfig(tmp_path / "config", shell)
        for config in (client_config(shell), client_config(shell, token="t"), await ClientConfig.from_kubeconfig(path)):
            async with Client(config, name="t") as client:
                await client.raw("GET", "/version")
    assert [call.user for call in echo.calls] == [ADMIN, None, ADMIN]


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_the_whole_client_works_over_sockets(toy: Toy, tls: bool) -> None:
    async with HttpShell(toy.handle, tls=tls) as shell, Client(client_config(shell), name="shop") as client:
        await client.create(CONFIG_MAP.new("a", "web", data={"k": "v"}))
        assert (await client.get(CONFIG_MAP, "a", "web")).metadata.uid == "u-a"
        with pytest.raises(NotFound, match='configmaps "b" not found'):
            await client.get(CONFIG_MAP, "b", "web")
        async with client.watch(await client.resource(CONFIG_MAP), QUERY) as watch:
            await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "web"}}, force=True)
            async for events in watch:
                assert [event.type for event in events] == ["MODIFIED"]
                break
        await eventually(lambda: toy.watchers == [])


@pytest.mark.parametrize(("moment", "stored"), [("before", False), ("after", True)])
async def test_a_fault_drops_the_connection_on_its_side_of_the_commit(toy: Toy, moment: str, stored: bool) -> None:
    rule = Rule.from_json({"match": {"verbs": ["create"]}, "fault": {"type": "drop", "moment": moment}, "count": 1})
    toy.faults.add(rule)
    async with HttpShell(toy.handle) as shell, Client(client_config(shell), name="t") as client:
        with pytest.raises(Unreachable) as caught:
            await client.create(CONFIG_MAP.new("a", "web"))
        assert caught.value.maybe_done
        assert ("a" in toy.objects) is stored
        await client.create(CONFIG_MAP.new("b", "web"))
    assert len(rule.hits) == 1


async def test_a_fault_refuses_with_the_status_of_its_rule(toy: Toy) -> None:
    toy.faults.add(Rule(Match(verbs=("get",)), Refuse(status=403, message="not you")))
    toy.faults.add(Rule(Match(verbs=("list",)), Refuse(status=429, retry_after=900)))
    async with HttpShell(toy.handle) as shell, Client(client_config(shell), name="t") as client:
        with pytest.raises(Forbidden, match="not you"):
            await client.get(CONFIG_MAP, "a", "web")
        with pytest.raises(TooManyRequests) as caught:
            await client.list(CONFIG_MAP, "web")
        assert caught.value.retry_after == 900


async def test_a_fault_cuts_a_watch_in_the_middle_of_a_line(toy: Toy) -> None:
    async with HttpShell(toy.handle) as shell, Client(client_config(shell), name="t") as client:
        info = await client.resource(CONFIG_MAP)
        async with client.watch(info, QUERY) as watch:
            toy.faults.add(Rule(Match(), Cut(lines=1)))
            toy.store(config_map("a"))
            toy.store(config_map("b"))
            seen = []
            with pytest.raises(Unreachable):
                async for events in watch:
                    seen += [json.loads(bytes(event.object))["metadata"]["name"] for event in events]
        assert seen == ["a"]
        await eventually(lambda: toy.watchers == [])


async def test_a_partition_ends_what_is_open_over_sockets_too(toy: Toy, http: aiohttp.ClientSession) -> None:
    async with HttpShell(toy.handle) as shell:
        watching = asyncio.create_task(_get(http, shell.url + WATCH))
        await eventually(lambda: len(toy.watchers) == 1)
        toy.faults.add(Rule(Match(), Drop(watches=True)))
        for asking in (watching, _get(http, f"{shell.url}/api/v1/configmaps")):
            with pytest.raises(aiohttp.ClientError):
                await asking
        toy.faults.clear()
        assert b"List" in await _get(http, f"{shell.url}/api/v1/configmaps")


async def test_a_stream_that_fails_breaks_its_connection_off(http: aiohttp.ClientSession) -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield b"{}\n"
        raise LookupError("a defect")

    async def handle(call: Call) -> Response:
        return Response(stream=lines())

    handler: Callable[[Call], Awaitable[Response]] = handle
    async with HttpShell(handler) as shell:
        with pytest.raises(aiohttp.ClientError):
            await _get(http, shell.url)
