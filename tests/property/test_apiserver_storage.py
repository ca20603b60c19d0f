"""The in-memory server's store and watches under random histories: a client that lists, watches, is cut off and resumes knows what is there.

Each client keeps what a reflector keeps (names with versions, and the version to go on from), and holds the server to its word on the way: versions
only grow, ADDED is new to it, MODIFIED and DELETED are known. In the end every client's picture is the store's.
"""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from konverge.testing.apiserver.nodes import Node
from konverge.testing.apiserver.reading import (
    Page,
    StreamCut,
    Watch,
    bookmark_of,
    list_body,
    list_page,
    read_options,
)
from konverge.testing.apiserver.requests import Query
from konverge.testing.apiserver.resources import Resource, Version
from konverge.testing.apiserver.statuses import StatusError
from konverge.testing.apiserver.storage import Store
from konverge.testing.loop import VirtualTimeLoop

THINGS = Resource(
    group="example.com",
    plural="things",
    kind="Thing",
    list_kind="ThingList",
    versions=(Version("v1", Node({}), selectable=(".spec.color",)),),
    custom=True,
)
OTHERS = ("", "configmaps")

KEYS = st.tuples(st.sampled_from(["a", "a-b", "b"]), st.sampled_from(["x", "x-1", "y", "z"]))
COLORS = st.sampled_from(["red", "blue", None])
SELECTIONS = st.sampled_from(
    [
        ("", ()),
        ("a", ()),
        ("", (("labelSelector", "color=red"),)),
        ("a", (("labelSelector", "color!=red"),)),
        ("", (("fieldSelector", "spec.color=red"),)),
        ("b", (("fieldSelector", "metadata.name=x"),)),
        ("", (("fieldSelector", "metadata.namespace!=a,spec.color!=blue"), ("labelSelector", "color"))),
    ]
)


class Client:
    """What one client knows."""

    def __init__(self, store: Store, namespace: str, selectors: tuple[tuple[str, str], ...], seed: int) -> None:
        self.store = store
        self.namespace = namespace
        self.selectors = selectors
        self.random = Random(seed)
        self.known: dict[tuple[str, str], int] = {}
        self.version = ""
        self.watch: Watch | None = None
        self.synced = True
        """False while the initial events of a watch come in."""

    def ask(self, *query: tuple[str, str]) -> Any:
        return read_options(Query([*self.selectors, *query]), THINGS, "v1", self.namespace)

    def page(self, *query: tuple[str, str]) -> Page:
        page = list_page(self.store, self.ask(*query))
        told = json.loads(list_body(page, "example.com/v1", "ThingList", custom=True))
        assert told["metadata"]["resourceVersion"] == str(page.version)
        for item in told["items"]:
            assert _key(item) not in self.known
            self.known[_key(item)] = int(item["metadata"]["resourceVersion"])
        return page

    def begin(self, *query: tuple[str, str]) -> None:
        bookmark = bookmark_of("example.com/v1", "Thing")
        self.watch = Watch(self.store, self.ask(("watch", "1"), *query), bookmark=bookmark, random=self.random)

    def leave(self) -> None:
        if self.watch is not None:
            self.watch.close()
        self.watch = None
        if not self.synced:
            self.version = ""

    async def read(self, most: int = 10_000) -> None:
        """Read what has come."""
        while self.watch is not None and most:
            most -= 1
            try:
                async with asyncio.timeout(0.001):
                    text = await anext(self.watch)
            except TimeoutError:
                return
            except (StopAsyncIteration, StreamCut):
                self.leave()
                return
            if text.endswith(b"\n"):
                self.hear(json.loads(text))

    def hear(self, line: dict[str, Any]) -> None:
        kind, found = line["type"], line["object"]
        if kind == "ERROR":
            assert found["code"] == 410
            self.leave()
            self.version = ""
            return
        version = int(found["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            self.synced = self.synced or "annotations" in found["metadata"]
        elif kind == "ADDED":
            assert _key(found) not in self.known
            self.known[_key(found)] = version
        elif kind == "MODIFIED":
            assert self.known[_key(found)] < version
            self.known[_key(found)] = version
        else:
            assert self.known.pop(_key(found)) < version
        if self.synced:
            assert version >= int(self.version or 0)
            self.version = str(version)

    def truth(self) -> dict[tuple[str, str], int]:
        found = {}
        for entry in self.store.list(THINGS.id):
            if self.ask().selection.matches(entry):
                found[entry.namespace, entry.name] = entry.version
        return found


def _key(found: dict[str, Any]) -> tuple[str, str]:
    return found["metadata"]["namespace"], found["metadata"]["name"]


class Reading(RuleBasedStateMachine):
    """Writers and two clients."""

    @initialize(
        selections=st.lists(SELECTIONS, min_size=2, max_size=2),
        seed=st.integers(0, 99),
        window=st.sampled_from([3, 10, 1000]),
    )
    def start(self, selections: list[tuple[str, tuple[tuple[str, str], ...]]], seed: int, window: int) -> None:
        self.loop = VirtualTimeLoop()
        self.store = Store(window=window)
        self.clients = [Client(self.store, namespace, selectors, seed) for namespace, selectors in selections]

    def run(self, what: Any) -> None:
        self.loop.run_until_complete(what)

    @rule(key=KEYS, color=COLORS, number=st.integers(0, 3))
    def write(self, key: tuple[str, str], color: str | None, number: int) -> None:
        namespace, name = key
        metadata: dict[str, Any] = {"namespace": namespace, "name": name}
        spec: dict[str, Any] = {"number": number}
        if color is not None:
            metadata["labels"], spec["color"] = {"color": color}, color
        found = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec}
        before = self.store.get(THINGS.id, namespace, name)
        if before is None:
            self.store.create(THINGS.id, found)
        else:
            self.store.update(THINGS.id, before, found)

    @rule(key=KEYS)
    def delete(self, key: tuple[str, str]) -> None:
        before = self.store.get(THINGS.id, *key)
        if before is not None:
            self.store.delete(THINGS.id, before)

    @rule(count=st.integers(1, 5))
    def something_else_is_written(self, count: int) -> None:
        if count == 1:
            metadata = {"name": f"n{self.store.version}", "namespace": "a"}
            self.store.create(OTHERS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        else:
            self.store.jump(count)

    @rule()
    def forget(self) -> None:
        self.store.forget()

    @rule(
        who=st.integers(0, 1), limit=st.sampled_from([0, 1, 2, 5]), writes=st.lists(st.tuples(KEYS, COLORS), max_size=3)
    )
    def list_again(self, who: int, limit: int, writes: list[tuple[tuple[str, str], str | None]]) -> None:
        client = self.clients[who]
        client.leave()
        client.known, client.synced = {}, True
        page = client.page(("limit", str(limit)))
        version = page.version
        while page.token:
            if writes:
                self.write(*writes.pop(), number=version)
            try:
                page = client.page(("limit", str(limit)), ("continue", page.token))
            except StatusError as error:
                # Paging came too late; as a reflector does, begin again with everything at once.
                if error.code != 410:
                    raise
                client.known = {}
                page = client.page()
                version = page.version
            else:
                assert page.version == version
        client.version = str(version)

    @rule(who=st.integers(0, 1))
    def watch_list(self, who: int) -> None:
        client = self.clients[who]
        client.leave()
        client.known, client.version, client.synced = {}, "", False
        query = [
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
        ]
        self.run(self._begin(client, *query))

    @rule(who=st.integers(0, 1), bookmarks=st.booleans())
    def watch(self, who: int, bookmarks: bool) -> None:
        client = self.clients[who]
        if client.watch is None and client.version:
            query = [("resourceVersion", client.version), ("allowWatchBookmarks", str(bookmarks).lower())]
            self.run(self._begin(client, *query))

    async def _begin(self, client: Client, *query: tuple[str, str]) -> None:
        client.begin(*query)

    @rule(who=st.integers(0, 1), most=st.sampled_from([1, 3, 1000]))
    def read(self, who: int, most: int) -> None:
        self.run(self.clients[who].read(most))

    @rule(who=st.integers(0, 1), after=st.integers(0, 600))
    def cut(self, who: int, after: int) -> None:
        if (watch := self.clients[who].watch) is not None:
            watch.cut(after)

    @rule(who=st.integers(0, 1))
    def disconnect(self, who: int) -> None:
        self.clients[who].leave()

    @rule(who=st.integers(0, 1), frozen=st.booleans())
    def freeze(self, who: int, frozen: bool) -> None:
        if (watch := self.clients[who].watch) is not None:
            if frozen:
                watch.freeze()
            else:
                watch.thaw()

    @precondition(lambda self: any(client.watch for client in self.clients))
    @rule(seconds=st.sampled_from([10, 100, 4000]))
    def wait(self, seconds: int) -> None:
        self.run(asyncio.sleep(seconds))

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            for client in self.clients:
                self._settle(client)
                assert client.known == client.truth()
                client.leave()
        finally:
            self.loop.close()

    def _settle(self, client: Client) -> None:
        if client.watch is not None:
            client.watch.thaw()
        # An interrupted stream and a lost history each take one more round.
        for _ in range(4):
            self.run(client.read())
            if client.watch is None:
                if not client.version:
                    client.known, client.synced = {}, True
                    client.version = str(client.page().version)
                self.run(self._begin(client, ("resourceVersion", client.version)))


Reading.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestReading = Reading.TestCase
