"""The verbs for scripts: pages, follow, wait_until, logs and delete_collection, on the API server in memory."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

import konverge as kv
from konverge.client import Client, ClientSettings, ObjectEvent
from konverge.errors import BadRequest, Expired, Invalid, UsageError
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import About, Cut, Expire, Fault, Match, Refuse, Rule

CONFIG_MAP = kv.kind("v1", "ConfigMap")
NAMESPACE = kv.kind("v1", "Namespace")
POD = kv.kind("v1", "Pod")
WATCHES = Match(verbs=("watch",), resources=("configmaps",))


async def create(lab: Lab, *names: str, **labels: str) -> None:
    for name in names:
        await lab.create(CONFIG_MAP.new(name, labels=labels))


def names_of(objects: Any) -> list[str]:
    return sorted(object_.name for object_ in objects if object_.name != "kube-root-ca.crt")


async def first_events(client: Client, count: int, namespace: str, *, ready: asyncio.Event) -> list[tuple[str, str]]:
    """Return the first events; `ready` is set when the first event has arrived."""
    events: list[tuple[str, str]] = []
    async with aclosing(client.follow(CONFIG_MAP, namespace, labels="app")) as stream:
        async for event in stream:
            ready.set()
            events.append((event.type, event.object.name))
            if len(events) == count:
                return events
    raise AssertionError


async def test_a_list_is_read_page_by_page(lab: Lab) -> None:
    await create(lab, *(f"m{number}" for number in range(5)), app="x")
    async with Client(lab.config, name="reader", settings=ClientSettings(page_size=2)) as client:
        pages = [names_of(page) async for page in client.pages(CONFIG_MAP, lab.namespace, labels="app=x")]
        assert pages == [["m0", "m1"], ["m2", "m3"], ["m4"]]
        versions = {page.resource_version async for page in client.pages(CONFIG_MAP, lab.namespace)}
        assert len(versions) == 1


async def test_pages_of_a_forgotten_version_end_with_expired(lab: Lab) -> None:
    await create(lab, "a", "b", "c")
    async with Client(lab.config, name="reader", settings=ClientSettings(page_size=1)) as client:
        pages = client.pages(CONFIG_MAP, lab.namespace)
        await anext(pages)
        await create(lab, "d")
        assert lab.server is not None
        lab.server.store.forget()
        with pytest.raises(Expired):
            await anext(pages)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(None, id="undisturbed"),
        pytest.param(Cut(lines=1), id="cut"),
        pytest.param(Cut(clean=True), id="ended at once"),
        pytest.param(Expire(), id="expired"),
        pytest.param(Refuse(status=503), id="unavailable"),
        pytest.param(Refuse(status=429), id="throttled"),
        pytest.param(Refuse(status=410, reason="Expired"), id="too old"),
    ],
)
async def test_a_followed_collection_shows_each_change_once(lab: Lab, fault: Fault | None) -> None:
    assert lab.server is not None
    if fault is not None:
        lab.server.faults.add(Rule(WATCHES, fault, count=2))
    await create(lab, "a", app="x")
    await create(lab, "other")
    ready = asyncio.Event()
    following = asyncio.create_task(first_events(lab.client, 4, lab.namespace, ready=ready))
    await ready.wait()
    await asyncio.sleep(60)
    await lab.patch(CONFIG_MAP, "a", {"data": {"k": "v"}})
    await asyncio.sleep(60)
    await lab.delete(CONFIG_MAP, "a")
    await asyncio.sleep(60)
    await create(lab, "b", app="x")
    assert await following == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Cut(clean=True), id="ended at once"),
        pytest.param(Cut(), id="cut"),
        pytest.param(Expire(), id="expired"),
        pytest.param(Refuse(status=410, reason="Expired"), id="too old"),
        pytest.param(Refuse(status=503), id="unavailable"),
    ],
)
async def test_a_watch_that_never_works_is_tried_with_backoff(lab: Lab, fault: Fault) -> None:
    assert lab.server is not None
    lab.server.faults.add(Rule(WATCHES, fault))
    watches = 0

    def count(_: object, about: About, __: object) -> None:
        nonlocal watches
        watches += about.verb == "watch"

    lab.server.on_call.append(count)
    following = asyncio.create_task(first_events(lab.client, 1, lab.namespace, ready=asyncio.Event()))
    await asyncio.sleep(600)
    following.cancel()
    assert 5 < watches < 300, "one in five seconds at most, less the jitter"


async def test_an_object_that_ends_between_two_requests_ends_the_wait(lab: Lab) -> None:
    assert lab.server is not None
    await create(lab, "a")
    deleted = False

    def delete_after_the_read(call: object, about: About, _: object) -> None:
        nonlocal deleted
        if not deleted and about.verb in ("get", "list") and about.name in ("", "a") and about.resource == "configmaps":
            deleted = True
            deleting.append(asyncio.create_task(lab.delete(CONFIG_MAP, "a")))

    deleting: list[asyncio.Task[None]] = []
    lab.server.on_call.append(delete_after_the_read)
    await lab.client.wait_until_deleted(CONFIG_MAP, "a", lab.namespace, timeout=20)
    await asyncio.gather(*deleting)
    assert deleted


async def test_a_predicate_that_raises_a_timeout_is_not_a_wait_that_ended(lab: Lab) -> None:
    await create(lab, "a")

    def predicate(_: kv.Object) -> bool:
        raise TimeoutError("the predicate's own")

    with pytest.raises(TimeoutError, match="the predicate's own"):
        await lab.client.wait_until(CONFIG_MAP, "a", predicate, lab.namespace)


async def test_changes_during_an_interruption_are_followed_by_a_list(lab: Lab) -> None:
    assert lab.server is not None
    await create(lab, "a", "b", app="x")
    down = Rule(WATCHES, Refuse(status=503))
    lab.server.faults.add(down)
    ready = asyncio.Event()
    following = asyncio.create_task(first_events(lab.client, 6, lab.namespace, ready=ready))
    await ready.wait()
    await lab.delete(CONFIG_MAP, "a")
    await lab.delete(CONFIG_MAP, "b")
    await create(lab, "b", "c", app="x")
    lab.server.store.forget()
    lab.server.faults.remove(down)
    assert (await following)[2:] == [("DELETED", "a"), ("DELETED", "b"), ("ADDED", "b"), ("ADDED", "c")]


async def test_a_followed_kind_without_rights_raises_forbidden(lab: Lab) -> None:
    assert lab.server is not None
    lab.server.faults.add(Rule(WATCHES, Refuse(status=403)))
    with pytest.raises(kv.Forbidden):
        async for _ in lab.client.follow(CONFIG_MAP, lab.namespace):
            pass
    with pytest.raises(UsageError, match="label selector"):
        async for _ in lab.client.follow(CONFIG_MAP, lab.namespace, labels="a in"):
            pass


async def test_an_awaited_object_is_returned_once_the_predicate_holds(lab: Lab) -> None:
    async def work() -> None:
        await asyncio.sleep(5)
        await create(lab, "a")
        await asyncio.sleep(5)
        await lab.patch(CONFIG_MAP, "a", {"data": {"ready": "yes"}})

    working = asyncio.create_task(work())
    ready = await lab.client.wait_until(CONFIG_MAP, "a", lambda map_: bool(map_.get("data", "ready")), lab.namespace)
    assert ready.get("data") == {"ready": "yes"}
    await working


@pytest.mark.parametrize(
    ("prepared", "last"),
    [((), "it does not exist"), (("a",), r"its resourceVersion is \d+")],
    ids=["absent", "present"],
)
async def test_a_wait_that_ends_names_the_last_state(lab: Lab, prepared: tuple[str, ...], last: str) -> None:
    await create(lab, *prepared)
    with pytest.raises(
        TimeoutError, match=f"ConfigMap {lab.namespace}/a: the predicate does not hold after 3 s; {last}"
    ):
        await lab.client.wait_until(CONFIG_MAP, "a", lambda _: False, lab.namespace, timeout=3)


async def test_a_wait_for_a_deletion_ends_with_the_object(lab: Lab) -> None:
    await lab.create(CONFIG_MAP.decode({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}))
    await lab.delete(CONFIG_MAP, "a")
    with pytest.raises(TimeoutError, match=r"it still exists after 3 s; .*its finalizers are example\.com/hold"):
        await lab.client.wait_until_deleted(CONFIG_MAP, "a", lab.namespace, timeout=3)
    waiting = asyncio.create_task(lab.client.wait_until_deleted(CONFIG_MAP, "a", lab.namespace))
    await asyncio.sleep(5)
    assert not waiting.done()
    await lab.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}})
    await waiting
    await lab.client.wait_until_deleted(CONFIG_MAP, "never", lab.namespace)


async def test_a_successor_ends_the_wait_for_a_deletion_by_uid(lab: Lab) -> None:
    first = await lab.create(CONFIG_MAP.new("a"))
    waiting = asyncio.create_task(lab.client.wait_until_deleted(CONFIG_MAP, "a", lab.namespace, uid=first.metadata.uid))
    await asyncio.sleep(1)
    await lab.delete(CONFIG_MAP, "a")
    await create(lab, "a")
    await waiting


async def test_a_collection_is_deleted_by_its_selectors(lab: Lab) -> None:
    await create(lab, "a", "b", app="x")
    await create(lab, "c", app="y")
    kept = await lab.client.delete_collection(CONFIG_MAP, lab.namespace, labels="app=x", dry_run=True)
    assert names_of(kept) == ["a", "b"]
    deleted = await lab.client.delete_collection(CONFIG_MAP, lab.namespace, labels="app=x", fields="metadata.name!=b")
    assert names_of(deleted) == ["a"]
    assert names_of(await lab.client.list(CONFIG_MAP, lab.namespace)) == ["b", "c"]
    with pytest.raises(UsageError, match="give the namespace"):
        await lab.client.delete_collection(CONFIG_MAP)
    with pytest.raises(UsageError, match="label selector"):
        await lab.client.delete_collection(CONFIG_MAP, lab.namespace, labels="a in")


async def pod(lab: Lab, name: str, *containers: str) -> None:
    spec = {"nodeName": "n", "containers": [{"name": container, "image": "x"} for container in containers]}
    await lab.create(POD.new(name, spec=spec))


async def test_a_log_is_read_line_by_line(lab: Lab) -> None:
    assert lab.server is not None
    await pod(lab, "shop", "app")
    lab.server.logs.write(lab.namespace, "shop", "one\ntwo\nthree\n")
    log = [line async for line in lab.client.logs("shop", lab.namespace)]
    assert log == ["one", "two", "three"]
    assert [line async for line in lab.client.logs("shop", lab.namespace, tail_lines=1)] == ["three"]
    await asyncio.sleep(60)
    lab.server.logs.write(lab.namespace, "shop", "late\n")
    assert [line async for line in lab.client.logs("shop", lab.namespace, since_seconds=30)] == ["late"]
    (stamped,) = [line async for line in lab.client.logs("shop", lab.namespace, tail_lines=1, timestamps=True)]
    assert stamped.endswith("Z late")


async def test_the_log_of_a_pod_without_a_node_is_empty(lab: Lab) -> None:
    await lab.create(POD.new("waits", spec={"containers": [{"name": "a", "image": "x"}]}))
    for follow in (False, True):
        assert [line async for line in lab.client.logs("waits", lab.namespace, follow=follow)] == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("10 %\r20 %\r\ndone\n", ["10 %\r20 %", "done"]),
        ("a\x0bb\u2028c\x85d\n", ["a\x0bb\u2028c\x85d"]),
        ("\n\nlast", ["", "", "last"]),
        ("\x1b[31mred\x1b[0m\n", ["\x1b[31mred\x1b[0m"]),
    ],
    ids=["carriage returns", "other line ends", "empty lines", "colours"],
)
async def test_only_a_newline_ends_a_line(lab: Lab, written: str, read: list[str]) -> None:
    assert lab.server is not None
    await pod(lab, "shop", "app")
    lab.server.logs.write(lab.namespace, "shop", written)
    assert [line async for line in lab.client.logs("shop", lab.namespace)] == read


@pytest.mark.parametrize("number", [10**400, -1, 2**63], ids=["400 digits", "negative", "64 bits"])
async def test_a_wrong_number_of_lines_is_refused(lab: Lab, number: int) -> None:
    await pod(lab, "shop", "app")
    with pytest.raises((BadRequest, Invalid), match=r"value out of range|must be greater than or equal to 0"):
        await anext(lab.client.logs("shop", lab.namespace, tail_lines=number))


async def test_a_followed_log_ends_with_its_container(lab: Lab) -> None:
    assert lab.server is not None
    await pod(lab, "shop", "app")
    lines: list[str] = []

    async def read() -> None:
        async for line in lab.client.logs("shop", lab.namespace, follow=True):
            lines.append(line)

    reading = asyncio.create_task(read())
    await asyncio.sleep(100)
    assert (lines, reading.done()) == ([], False)
    lab.server.logs.write(lab.namespace, "shop", "ready\n")
    await asyncio.sleep(1)
    assert lines == ["ready"]
    lab.server.logs.end(lab.namespace, "shop")
    await reading


async def test_a_log_of_several_containers_needs_a_name(lab: Lab) -> None:
    assert lab.server is not None
    await pod(lab, "shop", "app", "side")
    lab.server.logs.write(lab.namespace, "shop", "aside\n", container="side")
    with pytest.raises(BadRequest, match=r"choose one of: \[app side\]"):
        await anext(lab.client.logs("shop", lab.namespace))
    with pytest.raises(BadRequest, match="container no is not valid for pod shop"):
        await anext(lab.client.logs("shop", lab.namespace, container="no"))
    with pytest.raises(BadRequest, match="previous terminated container"):
        await anext(lab.client.logs("shop", lab.namespace, container="app", previous=True))
    with pytest.raises(kv.NotFound):
        await anext(lab.client.logs("absent", lab.namespace))
    assert [line async for line in lab.client.logs("shop", lab.namespace, container="side")] == ["aside"]


def test_an_event_of_an_object_is_a_value() -> None:
    map_ = CONFIG_MAP.new("a", "web")
    assert ObjectEvent("ADDED", map_) == ObjectEvent("ADDED", map_)
