"""Watches over time, slow readers, and the faults of a stream. Their content is tested in `test_recorded.py`."""

import asyncio
import json
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import pytest

from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.reading import (
    BUFFER,
    StreamCut,
    Watch,
    bookmark_of,
    list_page,
    read_options,
)
from konverge_testing.apiserver.requests import Query
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.storage import Entry, Store

MAPS = Resource(group="", plural="configmaps", kind="ConfigMap", versions=(Version("v1", Node({})),))


def write(store: Store, name: str, namespace: str = "default", **data: str) -> Entry:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    before = store.get(MAPS.id, namespace, name)
    return store.create(MAPS.id, found) if before is None else store.update(MAPS.id, before, found)


def watch(store: Store, query: str = "", namespace: str = "default", seed: int = 1, **more: Any) -> Watch:
    options = read_options(Query([("watch", "1"), *parse_qsl(query)]), MAPS, "v1", namespace)
    return Watch(store, options, bookmark=bookmark_of("v1", "ConfigMap"), random=Random(seed), **more)


async def line(stream: Watch) -> tuple[str, str]:
    found = json.loads(await anext(stream))
    metadata = found["object"]["metadata"]
    return found["type"], metadata.get("name", metadata["resourceVersion"])


async def nothing(stream: Watch, seconds: float = 1.0) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await anext(stream)
    except TimeoutError:
        return True
    return False


async def rest(stream: Watch) -> list[tuple[str, str]]:
    found = []
    async for text in stream:
        what = json.loads(text)
        metadata = what["object"]["metadata"]
        found.append((what["type"], metadata.get("name", metadata.get("resourceVersion", ""))))
    return found


# Time


@pytest.mark.parametrize("seed", range(5))
async def test_watch_without_timeout_ends_after_30_to_60_minutes(seed: int) -> None:
    assert await rest(watch(Store(), seed=seed)) == []
    assert 1800 <= asyncio.get_running_loop().time() <= 3600


async def test_bookmarks_come_about_once_a_minute_and_before_the_end() -> None:
    store = Store()
    stream = watch(store, "resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=200")
    times = []
    async for text in stream:
        times.append(asyncio.get_running_loop().time())
        assert json.loads(text)["object"] == {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "1"},
        }
    assert [pytest.approx(time, abs=3) for time in times] == [60, 120, 180, 198]
    assert times[-1] == 198
    assert asyncio.get_running_loop().time() == 200


async def test_a_bookmark_carries_the_version_of_the_whole_store() -> None:
    store = Store()
    stream = watch(store, "resourceVersion=1&allowWatchBookmarks=true")
    store.jump(40)
    assert await line(stream) == ("BOOKMARK", "41")


async def test_a_watch_that_asks_for_no_bookmarks_gets_none() -> None:
    assert await rest(watch(Store(), "resourceVersion=1&timeoutSeconds=200")) == []


async def test_the_same_seed_gives_the_same_times() -> None:
    ends = []
    for _ in range(2):
        began = asyncio.get_running_loop().time()
        await rest(watch(Store(), seed=7))
        ends.append(asyncio.get_running_loop().time() - began)
    assert ends[0] == pytest.approx(ends[1])


FUTURE = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=5"


async def test_a_version_that_comes_in_time_is_waited_for() -> None:
    store = Store()
    stream = watch(store, FUTURE)
    assert await nothing(stream)
    store.jump(3)
    write(store, "a")
    assert await line(stream) == ("ADDED", "a")
    assert store.observers == []


async def test_a_version_that_other_resources_reach_is_noticed_after_the_wait() -> None:
    store = Store()
    write(store, "a")
    stream = watch(store, FUTURE)
    store.jump(3)
    assert await line(stream) == ("ADDED", "a")
    assert asyncio.get_running_loop().time() == 3


async def test_a_version_from_the_future_is_silent_until_then() -> None:
    store = Store()
    stream = watch(store, "resourceVersion=4")
    for name in "abcd":
        write(store, name)
    assert await line(stream) == ("ADDED", "d")


# Backlogs


async def test_events_between_request_and_first_read_are_not_lost() -> None:
    store = Store()
    entry = write(store, "a")
    stream = watch(store)
    store.delete(MAPS.id, entry)
    write(store, "b")
    assert [await line(stream) for _ in range(3)] == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    assert await nothing(stream)


async def test_watch_that_starts_during_a_commit_gets_every_event_once() -> None:
    store = Store()
    made: list[Watch] = []

    def callback(_event: object) -> None:
        if not made:
            write(store, "b")
            made.append(watch(store))

    store.subscribe(MAPS.id, callback)
    write(store, "a")
    write(store, "c")
    assert [await line(made[0]) for _ in range(3)] == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    assert await nothing(made[0])


async def test_a_slow_reader_gets_the_buffered_events_and_is_cut_off() -> None:
    store = Store()
    stream = watch(store, buffer=3)
    for name in "abcdefg":
        write(store, name)
    assert await rest(stream) == [("ADDED", name) for name in "abcd"]
    assert asyncio.get_running_loop().time() == 0


async def test_initial_events_do_not_count_towards_the_buffer() -> None:
    store = Store()
    for number in range(BUFFER // 100):
        write(store, f"n{number:03}")
    stream = watch(store, buffer=3)
    write(store, "z")
    assert len([await line(stream) for _ in range(BUFFER // 100 + 1)]) == BUFFER // 100 + 1


async def test_a_long_backlog_lets_others_run() -> None:
    store = Store()
    for number in range(1000):
        write(store, f"n{number:04}")
    ran: list[int] = []
    other = asyncio.create_task(asyncio.sleep(0))
    other.add_done_callback(lambda _: ran.append(read))
    read = 0
    async for _ in watch(store, "timeoutSeconds=5"):
        read += 1
    assert read == 1000
    assert ran[0] < 1000


async def test_watchers_with_the_same_encoding_share_a_line() -> None:
    store = Store()
    encoded: list[str] = []

    def encode(entry: Entry) -> bytes:
        encoded.append(entry.name)
        return entry.raw

    streams = [watch(store, "resourceVersion=1", encode=encode) for _ in range(3)]
    write(store, "a")
    lines = [await anext(stream) for stream in streams]
    assert lines[0] is lines[1] is lines[2]
    assert encoded == ["a"]
    assert all(event.lines is None for event in store.since(MAPS.id, 1))


async def test_a_closed_watch_is_unsubscribed() -> None:
    store = Store()
    encoded: list[str] = []

    def encode(entry: Entry) -> bytes:
        encoded.append(entry.name)
        return entry.raw

    stream = watch(store, "resourceVersion=1", encode=encode)
    write(store, "a")
    await stream.aclose()
    write(store, "b")
    assert await rest(stream) == []
    assert encoded == ["a"]


async def test_closing_ends_a_reader_that_waits() -> None:
    stream = watch(Store())
    reader = asyncio.create_task(rest(stream))
    await asyncio.sleep(1)
    stream.close()
    assert await reader == []


# Faults


async def test_a_frozen_watch_sends_nothing_until_it_thaws_and_then_everything() -> None:
    store = Store()
    stream = watch(store)
    stream.freeze()
    write(store, "a")
    assert await nothing(stream, 10)
    stream.thaw()
    assert await line(stream) == ("ADDED", "a")


async def test_a_frozen_watch_does_not_even_end() -> None:
    stream = watch(Store(), "timeoutSeconds=5")
    stream.freeze()
    assert await nothing(stream, 100)
    stream.thaw()
    assert await rest(stream) == []


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("bytes_", [0, 10, 100_000])
async def test_a_cut_stream_ends_in_the_middle(clean: bool, bytes_: int) -> None:
    store = Store()
    stream = watch(store, "timeoutSeconds=5")
    whole = b'{"type":"ADDED","object":%b}\n' % write(store, "a").raw
    stream.cut(bytes_, clean=clean)
    got = b""
    try:
        async for text in stream:
            got += text
    except StreamCut:
        assert not clean
    else:
        assert clean or bytes_ > len(whole)
    assert got == whole[:bytes_]


async def test_a_frozen_watch_can_be_cut() -> None:
    stream = watch(Store())
    stream.freeze()
    reader = asyncio.create_task(rest(stream))
    await asyncio.sleep(1)
    stream.cut()
    with pytest.raises(StreamCut):
        await reader


async def test_single_lines_can_be_lost_and_repeated() -> None:
    times = {"a": 0, "b": 2}
    store = Store()
    write(store, "a")
    stream = watch(
        store,
        "allowWatchBookmarks=true&timeoutSeconds=5",
        tell=lambda kind, entry: 0 if entry is None else times.get(entry.name, 1),
    )
    for name in "abc":
        write(store, name, x="1")
    assert await rest(stream) == [("ADDED", "b"), ("ADDED", "b"), ("ADDED", "c")]


# Selection


async def test_a_namespace_is_watched_alone() -> None:
    store = Store()
    stream, everything = watch(store), watch(store, namespace="")
    write(store, "a", "elsewhere")
    write(store, "b")
    assert await line(stream) == ("ADDED", "b")
    assert [await line(everything) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]


def test_all_pages_show_the_state_of_the_first_one() -> None:
    store = Store()
    for namespace in ("a", "a-b", "b"):
        for name in "abcd":
            write(store, name, namespace)
    expected = [entry.version for entry in store.list(MAPS.id)]
    token, found = "", []
    while True:
        page = list_page(store, read_options(Query([("limit", "5"), ("continue", token)]), MAPS, "v1"))
        found += [entry.version for entry in page.entries]
        write(store, "aa", "a", x=token)
        if (gone := store.get(MAPS.id, "a-b", "d")) is not None:
            store.delete(MAPS.id, gone)
        token = page.token
        if not token:
            break
    assert found == expected
