"""The in-memory server's store and watches under random histories: a client that lists, watches, is cut off and resumes knows every object.

Each client keeps the state of a reflector (names with versions, and the version to resume from), and checks the server's promises on the
way: versions only grow, ADDED is new to it, MODIFIED and DELETED are known. In the end every client's picture is the store's.
"""

import asyncio
import json
from random import Random
from typing import Any, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.reading import (
    Page,
    StreamCut,
    Watch,
    bookmark_of,
    list_body,
    list_page,
    read_options,
)
from konverge_testing.apiserver.requests import Query
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.apiserver.storage import Store
from konverge_testing.loop import VirtualTimeLoop

THINGS = Resource(
    group="example.com",
    plural="things",
    kind="Thing",
    list_kind="ThingList",
    versions=(Version("v1", Node({}), selectable=(".spec.color",)),),
    custom=True,
)
OTHERS = ("", "configmaps")

Write: TypeAlias = tuple[tuple[str, str], str | None, int]

KEYS = st.sampled_from([("a", "x"), ("a", "x-1"), ("a-b", "x"), ("b", "x")])
COLORS = st.sampled_from(["red", "blue", None, "gone"])
WRITES = st.lists(st.tuples(KEYS, COLORS, st.integers(0, 2)), min_size=1, max_size=8)
CLIENTS = st.integers(0, 1)
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
    """The state of one client."""

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
        """Read what has arrived."""
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
    """Writers and two clients, which watch nearly always, since most errors are in watches."""

    @initialize(
        selections=st.lists(SELECTIONS, min_size=2, max_size=2),
        seed=st.integers(0, 99),
        window=st.sampled_from([3, 30, 1000]),
    )
    def start(self, selections: list[tuple[str, tuple[tuple[str, str], ...]]], seed: int, window: int) -> None:
        self.loop = VirtualTimeLoop()
        self.store = Store(window=window)
        self.clients = [Client(self.store, namespace, selectors, seed) for namespace, selectors in selections]
        for who in (0, 1):
            self.list_and_watch(who, 0, [], False)

    def run(self, what: Any) -> None:
        self.loop.run_until_complete(what)

    async def begin(self, client: Client, *query: tuple[str, str]) -> None:
        client.begin(*query)

    def put(self, key: tuple[str, str], color: str | None, number: int) -> None:
        namespace, name = key
        before = self.store.get(THINGS.id, namespace, name)
        if color == "gone":
            if before is not None:
                self.store.delete(THINGS.id, before)
            return
        metadata: dict[str, Any] = {"namespace": namespace, "name": name}
        spec: dict[str, Any] = {"number": number}
        if color is not None:
            metadata["labels"], spec["color"] = {"color": color}, color
        found = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec}
        if before is None:
            self.store.create(THINGS.id, found)
        else:
            self.store.update(THINGS.id, before, found)

    @rule(writes=WRITES)
    def write(self, writes: list[Write]) -> None:
        for write in writes:
            self.put(*write)

    @rule(count=st.integers(1, 5))
    def something_else_is_written(self, count: int) -> None:
        metadata = {"name": f"n{self.store.version}", "namespace": "a"}
        self.store.create(OTHERS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        self.store.jump(count - 1)

    @rule()
    def forget(self) -> None:
        self.store.forget()

    @rule(who=CLIENTS, limit=st.sampled_from([0, 1, 2]), writes=WRITES, bookmarks=st.booleans())
    def list_and_watch(self, who: int, limit: int, writes: list[Write], bookmarks: bool) -> None:
        client = self.clients[who]
        client.leave()
        client.known, client.synced = {}, True
        page = client.page(("limit", str(limit)))
        version = page.version
        pending = list(writes)
        while page.token:
            if pending:
                self.put(*pending.pop())
            try:
                page = client.page(("limit", str(limit)), ("continue", page.token))
            except StatusError as error:
                if error.code != 410:
                    raise
                # The continue token has expired; as a reflector does, begin again with a single large page.
                client.known = {}
                page = client.page()
                version = page.version
            assert page.version == version
        client.version = str(version)
        self.resume(client, bookmarks)

    @rule(who=CLIENTS)
    def watch_list(self, who: int) -> None:
        client = self.clients[who]
        client.leave()
        client.known, client.version, client.synced = {}, "", False
        initial = (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
        self.run(self.begin(client, *initial, ("allowWatchBookmarks", "true")))

    @rule(who=CLIENTS, writes=WRITES, bookmarks=st.booleans())
    def reconnect(self, who: int, writes: list[Write], bookmarks: bool) -> None:
        client = self.clients[who]
        client.leave()
        self.write(writes)
        if client.version:
            self.resume(client, bookmarks)

    def resume(self, client: Client, bookmarks: bool) -> None:
        query = [("resourceVersion", client.version), ("allowWatchBookmarks", str(bookmarks).lower())]
        self.run(self.begin(client, *query))

    @rule(who=CLIENTS, most=st.sampled_from([1, 3, 1000]))
    def read(self, who: int, most: int) -> None:
        self.run(self.clients[who].read(most))

    @rule(who=CLIENTS, after=st.integers(0, 600))
    def cut(self, who: int, after: int) -> None:
        if (watch := self.clients[who].watch) is not None:
            watch.cut(after)

    @rule(who=CLIENTS, writes=WRITES)
    def freeze(self, who: int, writes: list[Write]) -> None:
        if (watch := self.clients[who].watch) is not None:
            watch.freeze()
            self.write(writes)
            self.run(self.clients[who].read())
            watch.thaw()

    @rule(seconds=st.sampled_from([10, 100, 4000]))
    def wait(self, seconds: int) -> None:
        self.run(asyncio.sleep(seconds))

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            for client in self.clients:
                self.settle(client)
                assert client.known == client.truth()
                client.leave()
        finally:
            self.loop.close()

    def settle(self, client: Client) -> None:
        # An interrupted stream and a lost history each take one more round.
        for _ in range(4):
            self.run(client.read())
            if client.watch is None:
                if not client.version:
                    client.known, client.synced = {}, True
                    client.version = str(client.page().version)
                self.resume(client, False)


Reading.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestReading = Reading.TestCase
