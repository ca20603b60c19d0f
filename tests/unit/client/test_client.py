"""The verbs over a scripted server: their requests, and their results for its responses."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from konverge.client import Client, ClientConfig, ClientSettings, ListQuery, Response, WatchIdle, WatchQuery
from konverge.errors import Expired, Forbidden, NotServed, ServerFailure, Unreachable, UsageError
from konverge.kinds import kind

CONFIG_MAP = kind("v1", "ConfigMap")
NAMESPACE = kind("v1", "Namespace")
WIDGET = kind("example.com/v1", "Widget")
QUERY = WatchQuery(namespace="web", timeout_seconds=300, idle_seconds=75.0)

Say = Callable[..., Response]


def page(names: list[str], version: str, token: str = "") -> dict[str, Any]:
    items = [{"metadata": {"name": name, "namespace": "web"}} for name in names]
    return {"kind": "ConfigMapList", "metadata": {"resourceVersion": version, "continue": token}, "items": items}


async def test_a_list_is_paged_and_its_items_know_their_kind(
    connect: Callable[..., Client], server: Any, say: Say
) -> None:
    client = connect(page_size=2)
    server.script = [say(page(["a", "b"], "9", "t1")), say(page(["c", "d"], "9", "t2")), say(page(["e"], "9"))]
    found = await client.list(CONFIG_MAP, "web", labels="x=y")
    assert [item.name for item in found] == ["a", "b", "c", "d", "e"]
    assert found.resource_version == "9"
    assert {(item.kind_name, item.api_version) for item in found} == {("ConfigMap", "v1")}
    assert [dict(request.params).get("continue") for request in server.seen] == [None, "t1", "t2"]
    assert all(dict(request.params)["labelSelector"] == "x=y" for request in server.seen)


async def test_paged_list_has_the_version_of_its_first_page(
    connect: Callable[..., Client], server: Any, say: Say
) -> None:
    server.script = [say(page(["a", "b"], "9", "t1")), say(page(["c"], "12"))]
    assert (await connect(page_size=2).list(CONFIG_MAP)).resource_version == "9"


async def test_a_list_whose_version_expires_half_way_is_asked_as_a_whole(
    connect: Callable[..., Client], server: Any, say: Say, refuse: Say
) -> None:
    client = connect(page_size=2)
    server.script = [say(page(["a", "b"], "9", "t1")), refuse(410, "Expired"), say(page(["a", "b", "c"], "12"))]
    found = await client.list(CONFIG_MAP)
    assert ([item.name for item in found], found.resource_version) == (["a", "b", "c"], "12")
    assert dict(server.seen[-1].params) == {}


async def test_an_empty_list_may_have_no_items_at_all(client: Client, server: Any, say: Say) -> None:
    server.script = [say({"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}, "items": None})]
    assert len(await client.list(CONFIG_MAP)) == 0


async def test_a_kind_is_discovered_again_only_once_discovery_is_old_or_forgotten(
    connect: Callable[..., Client], server: Any, say: Say
) -> None:
    client = connect(discovery_seconds=600.0)
    server.script = [say({"metadata": {"name": "a"}}) for _ in range(5)]
    discoveries = []
    for pause in (0.0, 599.0, 2.0, 0.0):
        await asyncio.sleep(pause)
        await client.get(CONFIG_MAP, "a", "web")
        discoveries.append(len(server.discoveries))
    client.forget_discovery("v1")
    await client.get(CONFIG_MAP, "a", "web")
    assert [*discoveries, len(server.discoveries)] == [1, 1, 2, 2, 3]


async def test_a_page_is_not_decoded_further_than_needed(client: Client, server: Any, say: Say) -> None:
    server.script = [
        say({**page(["a"], "9", "t"), "metadata": {"resourceVersion": "9", "continue": "t", "remainingItemCount": 4}})
    ]
    found = await client.list_page(await client.resource(CONFIG_MAP), ListQuery(limit=1))
    assert (found.resource_version, found.continue_, found.remaining) == ("9", "t", 4)
    assert json.loads(bytes(found.items[0]))["metadata"]["name"] == "a"


async def test_metadata_alone_is_asked_for_and_read(client: Client, server: Any, say: Say) -> None:
    server.script = [say({"kind": "PartialObjectMetadata", "metadata": {"name": "a", "labels": {"x": "y"}}})]
    assert (await client.get_metadata(CONFIG_MAP, "a", "web")).label("x") == "y"
    assert "PartialObjectMetadata" in server.seen[0].accept


async def test_writes_name_the_field_manager(client: Client, server: Any, say: Say) -> None:
    stored = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "web", "resourceVersion": "1"}}
    server.script = [say(stored) for _ in range(5)]
    made = await client.create(CONFIG_MAP.new("a", "web"))
    await client.replace(made, dry_run=True)
    await client.patch(CONFIG_MAP, "a", "web", patch={"data": {}}, style="merge")
    await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "web"}})
    await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "web"}}, manager="other", force=True)
    strict = {"fieldValidation": "Strict"}
    assert [(request.method, dict(request.params)) for request in server.seen] == [
        ("POST", {"fieldManager": "tester", **strict}),
        ("PUT", {"fieldManager": "tester", "dryRun": "All", **strict}),
        ("PATCH", {"fieldManager": "tester", **strict}),
        ("PATCH", {"fieldManager": "tester", **strict}),
        ("PATCH", {"fieldManager": "other", "force": "true", **strict}),
    ]


async def test_a_name_that_the_server_chose_is_the_one_in_the_ledger(client: Client, server: Any, say: Say) -> None:
    stored = {"kind": "ConfigMap", "metadata": {"name": "a-x7", "namespace": "web", "resourceVersion": "1", "uid": "u"}}
    server.script = [say(stored, status=201)]
    new = CONFIG_MAP.decode({"metadata": {"generateName": "a-", "namespace": "web"}})
    await client.create(new, writer="me")
    assert [found.name for found in client.ledger.pending("me")] == ["a-x7"]
    assert client.ledger.writer_of(CONFIG_MAP, "web", "a-x7") == "me"


async def test_a_dry_run_is_not_recorded(client: Client, server: Any, say: Say) -> None:
    server.script = [say({"kind": "ConfigMap", "metadata": {"name": "a"}}), say({"kind": "Status"})]
    await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "web"}}, dry_run=True, writer="me")
    await client.delete(CONFIG_MAP, "a", "web", dry_run=True, writer="me")
    assert client.ledger.statistics().pending == 0
    assert client.ledger.writer_of(CONFIG_MAP, "web", "a") is None


async def test_scope_is_checked_before_anything_is_sent(client: Client, server: Any) -> None:
    with pytest.raises(UsageError, match="lives in a namespace"):
        await client.get(CONFIG_MAP, "a")
    with pytest.raises(UsageError, match="cluster-scoped"):
        await client.get(NAMESPACE, "a", "web")
    with pytest.raises(UsageError, match="lives in a namespace"):
        await client.create(CONFIG_MAP.new("a"), writer="me")
    assert server.seen == []
    assert client.ledger.statistics().pending == 0


async def test_a_kind_that_declares_plural_and_scope_saves_discovery(client: Client, server: Any, say: Say) -> None:
    declared = kind("example.com/v1", "Gadget", namespaced=True, plural="gadgets")
    server.script = [say({"kind": "Gadget", "metadata": {"name": "a"}})]
    await client.get(declared, "a", "web")
    assert server.seen[0].path == "/apis/example.com/v1/namespaces/web/gadgets/a"
    assert server.discoveries == []


async def test_a_kind_that_is_not_served_says_so(client: Client, server: Any) -> None:
    with pytest.raises(NotServed, match=r"no Widget in example\.com/v1"):
        await client.get(WIDGET, "a", "web")
    with pytest.raises(NotServed):
        await client.delete(WIDGET, "a", "web")


async def test_a_resource_that_vanished_is_not_served_and_discovery_asks_again(
    client: Client, server: Any, say: Say
) -> None:
    server.resources["/apis/example.com/v1"] = [{"name": "widgets", "namespaced": True, "kind": "Widget"}]
    gone = Response(404, b"404 page not found\n", "text/plain")
    server.script = [gone, gone, gone]
    info = await client.resource(WIDGET)
    with pytest.raises(NotServed):
        await client.get(WIDGET, "a", "web")
    with pytest.raises(NotServed):
        await client.list_page(info, ListQuery())
    await client.resource(WIDGET)
    with pytest.raises(NotServed):
        await client.apply(WIDGET, {"metadata": {"name": "a", "namespace": "web"}}, writer="me")
    assert client.ledger.statistics().pending == 0
    del server.resources["/apis/example.com/v1"]
    with pytest.raises(NotServed):
        await client.resource(WIDGET)
    assert server.discoveries == ["/apis/example.com/v1"] * 3


async def test_a_watch_yields_what_each_read_completed(client: Client, server: Any, streaming: Any) -> None:
    parts = [
        b'{"type":"ADDED","object":{"a":1}}\n{"type":"MODIF',
        b'IED","object":{"a":2}}\n',
        b'{"type":"BOOK',
        b'MARK","obj',
        b'ect":{}}\n{"type":"DELETED","object":{"a":3}}\n',
    ]
    server.script = [streaming(200, parts)]
    info = await client.resource(CONFIG_MAP)
    async with client.watch(info, QUERY) as stream:
        batches = [[(event.type, bytes(event.object)) for event in events] async for events in stream]
    assert batches == [
        [("ADDED", b'{"a":1}')],
        [("MODIFIED", b'{"a":2}')],
        [("BOOKMARK", b"{}"), ("DELETED", b'{"a":3}')],
    ]
    assert (stream.bytes_read, stream.events_read) == (sum(map(len, parts)), 4)
    assert server.closed


async def test_a_silent_watch_is_given_up_after_its_idle_limit(client: Client, server: Any, streaming: Any) -> None:
    server.script = [streaming(200, [60.0, b'{"type":"BOOKMARK","object":{}}\n', 1000.0])]
    info = await client.resource(CONFIG_MAP)
    async with client.watch(info, QUERY) as stream:
        with pytest.raises(WatchIdle, match="no byte for 75 s"):
            async for _ in stream:
                pass
    assert asyncio.get_running_loop().time() == pytest.approx(135.0)
    assert stream.last_read_at == pytest.approx(60.0)
    assert server.closed


async def test_a_watch_that_is_cut_off_raises(client: Client, server: Any, streaming: Any) -> None:
    server.script = [
        streaming(200, [b'{"type":"ADDED","object":{}}\n', Unreachable("reset")]),
        streaming(200, [b'{"type":"ADDED","object":{}}\n{"type":"ADD']),
        streaming(200, [b"this is no watch\n"]),
    ]
    info = await client.resource(CONFIG_MAP)
    for seen in (1, 1, 0):
        found = 0
        with pytest.raises(Unreachable):
            async with client.watch(info, QUERY) as stream:
                async for events in stream:
                    found += len(events)
        assert found == seen


async def test_a_last_line_without_its_end_counts_if_it_is_whole(client: Client, server: Any, streaming: Any) -> None:
    server.script = [streaming(200, [b'{"type":"ADDED","object":{}}'])]
    async with client.watch(await client.resource(CONFIG_MAP), QUERY) as stream:
        assert [len(events) async for events in stream] == [1]


async def test_a_line_above_the_limit_ends_the_watch(
    connect: Callable[..., Client], server: Any, streaming: Any
) -> None:
    client = connect(max_line_bytes=1000)
    server.script = [streaming(200, [b"x" * 600, b"x" * 600])]
    async with client.watch(await client.resource(CONFIG_MAP), QUERY) as stream:
        with pytest.raises(Unreachable, match="longer than 1000 bytes"):
            async for _ in stream:
                pass


@pytest.mark.parametrize(
    ("code", "body", "content_type", "error"),
    [
        (500, b"Internal Server Error: etcd is on fire\n", "text/plain", ServerFailure),
        (410, b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}', "application/json", Expired),
        (403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}', "application/json", Forbidden),
        (404, b"404 page not found\n", "text/plain", NotServed),
    ],
)
async def test_opening_a_watch_raises_what_the_server_answered(
    client: Client, server: Any, streaming: Any, code: int, body: bytes, content_type: str, error: type[Exception]
) -> None:
    server.script = [streaming(code, [body[:5], body[5:]], content_type)]
    info = await client.resource(CONFIG_MAP)
    with pytest.raises(error):
        async with client.watch(info, QUERY):
            pytest.fail("the watch was entered")
    assert server.closed


async def test_a_watch_that_is_not_answered_ends_at_the_deadline(connect: Callable[..., Client], server: Any) -> None:
    client = connect(request_timeout=7.0)
    server.script = [1000.0]
    info = await client.resource(CONFIG_MAP)
    with pytest.raises(Unreachable, match="no response within 7 s"):
        async with client.watch(info, QUERY):
            pytest.fail("the watch was entered")
    assert asyncio.get_running_loop().time() == pytest.approx(7.0)


async def test_watches_take_no_slots(connect: Callable[..., Client], server: Any, streaming: Any, say: Say) -> None:
    client = connect(max_in_flight=1)
    info = await client.resource(CONFIG_MAP)
    server.script = [streaming(200, []), streaming(200, []), say({"kind": "ConfigMap", "metadata": {"name": "a"}})]
    async with client.watch(info, QUERY), client.watch(info, QUERY):
        await client.get(CONFIG_MAP, "a", "web")


async def test_raw_requests_share_deadlines_and_errors(client: Client, server: Any, say: Say, refuse: Say) -> None:
    server.script = [say({}, status=201), refuse(403, "Forbidden")]
    await client.raw("POST", "/apis/x/v1/reviews", body={"a": 1}, params={"dryRun": "All"})
    assert (server.seen[0].body, server.seen[0].target) == (b'{"a":1}', "/apis/x/v1/reviews?dryRun=All")
    with pytest.raises(Forbidden, match="GET /version"):
        await client.raw("GET", "/version")
    with pytest.raises(UsageError):
        await client.raw("GET", "version")


async def test_a_posted_review_may_be_declared_repeatable(client: Client, server: Any, say: Say) -> None:
    server.script = [Unreachable("cut", maybe_done=True), say({}, status=201)]
    await client.raw("POST", "/apis/x/v1/reviews", body=b"{}", repeatable=True)
    server.script = [Unreachable("cut", maybe_done=True)]
    with pytest.raises(Unreachable):
        await client.raw("POST", "/apis/x/v1/reviews", body=b"{}")


@pytest.mark.parametrize("name", ["", "x" * 129, "mänager", "a\nb"])
def test_a_name_that_cannot_be_a_field_manager_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="field manager"):
        Client(ClientConfig.direct("http://localhost"), name=name)


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"request_timeout": -1.0}, {"page_size": 0}, {"field_validation": "strict"}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ClientSettings(**wrong)


async def test_leaving_the_client_closes_it(server: Any, client: Client) -> None:
    async with client as entered:
        assert entered is client
    assert server.closed
