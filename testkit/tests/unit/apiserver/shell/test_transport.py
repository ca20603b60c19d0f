"""The whole client over the shell without sockets, on virtual time."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from toy_server import Toy, config_map

from konverge.client import Client, WriteState
from konverge.client.requests import Request
from konverge.client.resources import WatchQuery
from konverge.errors import NotFound, TooManyRequests, Unreachable, UsageError
from konverge.kinds import kind
from konverge_testing.apiserver.faults.rules import Delay, Drop, Hang, Match, Refuse, Rule
from konverge_testing.apiserver.requests import ADMIN, Call, Response, User
from konverge_testing.in_process import InProcessTransport, in_process

CONFIG_MAP = kind("v1", "ConfigMap")
JANE = User("jane", ("dev",))
WRITER = "someone"
QUERY = WatchQuery(namespace="web", resource_version="0", timeout_seconds=600, idle_seconds=700)


@pytest.fixture
async def client(toy: Toy) -> AsyncIterator[Client]:
    async with Client(in_process(toy.handle, user=JANE), name="shop") as made:
        yield made


def get(path: str, **params: str) -> Request:
    return Request(method="GET", path=path, params=tuple(params.items()), what=f"GET {path}")


async def test_a_created_object_is_read_back(toy: Toy, client: Client) -> None:
    await client.create(CONFIG_MAP.new("a", "web", data={"k": "v"}))
    assert (await client.get(CONFIG_MAP, "a", "web")).metadata.uid == "u-a"
    with pytest.raises(NotFound, match='configmaps "b" not found'):
        await client.get(CONFIG_MAP, "b", "web")


async def test_a_call_carries_what_the_client_sends(toy: Toy, client: Client) -> None:
    await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "web"}}, force=True)
    call = toy.calls[-1]
    assert (call.method, call.path) == ("PATCH", "/api/v1/namespaces/web/configmaps/a")
    assert (call.query.get("fieldManager"), call.query.flag("force")) == ("shop", True)
    assert call.headers["content-type"] == "application/apply-patch+yaml"
    assert call.headers["user-agent"].startswith("shop")
    assert call.user == JANE


async def test_a_path_is_decoded_as_the_real_server_does(toy: Toy) -> None:
    transport = InProcessTransport(toy.handle)
    await transport.send(get("/apis/a%3Ab?x=1&x=2", y="a b"))
    assert (toy.calls[-1].path, toy.calls[-1].query.pairs) == ("/apis/a:b", (("x", "1"), ("x", "2"), ("y", "a b")))
    assert toy.calls[-1].user == ADMIN


async def test_a_refusal_is_a_typed_error_with_its_delay(toy: Toy, client: Client) -> None:
    toy.faults.add(Rule(Match(verbs=("get",)), Refuse(status=429, message="later", retry_after=700)))
    with pytest.raises(TooManyRequests, match="later") as caught:
        await client.get(CONFIG_MAP, "a", "web")
    assert caught.value.retry_after == 700


async def test_a_body_over_the_limit_is_refused_in_the_servers_words(toy: Toy) -> None:
    big = Request(method="POST", path="/api/v1/namespaces/web/configmaps", body=b" " * (3 << 20) + b"{", what="create")
    answer = await InProcessTransport(toy.handle).send(big)
    assert answer.status == 413
    assert b'"Request entity too large: limit is 3145728"' in answer.body
    assert toy.calls == []


async def test_events_that_are_ready_come_in_one_read(toy: Toy) -> None:
    async with InProcessTransport(toy.handle).stream(get("/api/v1/configmaps", watch="1")) as stream:
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(1)
        for name in "abc":
            toy.store(config_map(name))
        assert (await reading).count(b"\n") == 3
        toy.end()
        assert await stream.read() == b""
    assert toy.closed == 1


async def test_the_clients_watch_sees_what_happens(toy: Toy, client: Client) -> None:
    info = await client.resource(CONFIG_MAP)
    seen = []
    async with client.watch(info, QUERY) as watch:
        asyncio.get_running_loop().call_later(5, toy.store, config_map("a"))
        asyncio.get_running_loop().call_later(9, toy.end)
        async for events in watch:
            seen += [event.type for event in events]
    assert (seen, toy.closed, toy.watchers) == (["ADDED"], 1, [])


async def test_a_refused_watch_raises_the_reason(toy: Toy, client: Client) -> None:
    toy.faults.add(Rule(Match(verbs=("watch",)), Refuse(status=410)))
    info = await client.resource(CONFIG_MAP)
    with pytest.raises(Exception, match="refused by a fault"):
        async with client.watch(info, QUERY):
            pass


async def test_a_cancelled_reader_may_read_on(toy: Toy) -> None:
    async with InProcessTransport(toy.handle).stream(get("/api/v1/configmaps", watch="1")) as stream:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await stream.read()
        toy.store(config_map("a"))
        assert b'"ADDED"' in await stream.read()


async def test_stream_that_is_requested_as_a_whole_is_read_completely(toy: Toy) -> None:
    asyncio.get_running_loop().call_later(1, toy.store, config_map("a"))
    asyncio.get_running_loop().call_later(2, toy.end)
    answer = await InProcessTransport(toy.handle).send(get("/api/v1/configmaps", watch="1"))
    assert answer.body.count(b"\n") == 1


async def test_closing_ends_streams_and_refuses_calls(toy: Toy) -> None:
    transport = InProcessTransport(toy.handle)
    async with transport.stream(get("/api/v1/configmaps", watch="1")) as stream:
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(1)
        await transport.close()
        with pytest.raises(Unreachable, match="closed"):
            await reading
    assert (toy.closed, toy.watchers) == (1, [])
    with pytest.raises(UsageError, match="closed"):
        await transport.send(get("/version"))


async def test_nothing_is_left_when_a_stream_is_left_before_its_first_read(toy: Toy) -> None:
    transport = InProcessTransport(toy.handle)
    before = asyncio.all_tasks()
    async with transport.stream(get("/api/v1/configmaps", watch="1")):
        pass
    assert (asyncio.all_tasks(), toy.watchers) == (before, [])


@pytest.mark.parametrize(("moment", "stored"), [("before", False), ("after", True)])
async def test_a_cancelled_write_may_have_been_done(toy: Toy, client: Client, moment: str, stored: bool) -> None:
    toy.faults.add(Rule.from_json({"match": {"verbs": ["create"]}, "fault": {"type": "hang", "moment": moment}}))
    task = asyncio.create_task(client.create(CONFIG_MAP.new("a", "web"), writer=WRITER))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ("a" in toy.objects) is stored
    assert [found.state for found in client.ledger.pending(WRITER)] == [WriteState.UNKNOWN]


async def test_an_answer_on_its_way_can_be_lost_by_cancellation(toy: Toy, client: Client) -> None:
    await client.resource(CONFIG_MAP)
    task = asyncio.create_task(client.create(CONFIG_MAP.new("a", "web"), writer=WRITER))
    while "a" not in toy.objects:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "a" in toy.objects


DROPS = [
    (Drop(), True, False),
    (Drop(refused=True), False, False),
    (Drop(moment="after"), True, True),
    (Drop(moment="after", refused=True), True, True),
]


@pytest.mark.parametrize(("drop", "maybe_done", "stored"), DROPS, ids=[repr(one[0]) for one in DROPS])
async def test_error_for_a_dropped_write_reports_whether_the_server_processed_it(
    toy: Toy, client: Client, drop: Drop, maybe_done: bool, stored: bool
) -> None:
    rule = toy.faults.add(Rule(Match(verbs=("create",)), drop, count=1))
    with pytest.raises(Unreachable) as caught:
        await InProcessTransport(toy.handle).send(
            Request(
                method="POST",
                path="/api/v1/namespaces/web/configmaps",
                body=b'{"metadata":{"name":"a"}}',
                what="create configmaps web/a",
            )
        )
    assert caught.value.maybe_done is maybe_done
    assert ("a" in toy.objects) is stored
    assert [str(hit.about) for hit in rule.hits] == ["create configmaps web"]


async def test_a_delay_after_the_commit_is_a_time_out_that_did_commit(toy: Toy, client: Client) -> None:
    toy.faults.add(Rule(Match(verbs=("create",)), Delay(seconds=3600, moment="after")))
    with pytest.raises(Unreachable, match="no response within") as caught:
        await client.create(CONFIG_MAP.new("a", "web"))
    assert caught.value.maybe_done
    assert "a" in toy.objects


async def test_a_handler_that_fails_fails_its_caller(toy: Toy) -> None:
    async def broken(call: Call) -> Response:
        raise LookupError("a defect of the server")

    with pytest.raises(LookupError, match="defect"):
        await InProcessTransport(broken).send(get("/version"))


async def test_a_hang_goes_on_when_its_rule_is_removed(toy: Toy, client: Client) -> None:
    rule = toy.faults.add(Rule(Match(verbs=("create",)), Hang()))
    task = asyncio.create_task(client.create(CONFIG_MAP.new("a", "web")))
    await asyncio.sleep(1)
    assert toy.objects == {}
    toy.faults.remove(rule)
    await task
    assert list(toy.objects) == ["a"]
