"""Informers against a model of an API server, under random histories and faults, on virtual time.

After any history the store equals the server, and the replay of each handler's changes equals the store.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from konverge.client import ListQuery, Page, ResourceInfo, WatchEvent, WatchIdle, WatchQuery
from konverge.errors import (
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    ServerFailure,
    TooManyRequests,
    Unreachable,
)
from konverge.informers import Change, Informer, InformerSet, InformerSettings, Registration, Selection
from konverge.kinds import kind
from konverge_testing.loop import VirtualTimeLoop

THING = kind("example.com/v1", "Thing")
INFO = ResourceInfo(api_version="example.com/v1", kind="Thing", plural="things", namespaced=True)
NAMES = st.sampled_from("abcde")
OWNERS = st.sampled_from(["", "one", "two"])


# The server


def encode(what: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(what).encode())


@dataclass
class Stream:
    """An open watch, with the network reads that it still has to send."""

    reads: asyncio.Queue[list[WatchEvent] | Exception | None]
    idle: float
    dead: bool = False

    async def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        while True:
            try:
                async with asyncio.timeout(self.idle):
                    read = await self.reads.get()
            except TimeoutError as error:
                raise WatchIdle("silent") from error
            if read is None:
                return
            if isinstance(read, Exception):
                raise read
            yield read

    def send(self, *events: WatchEvent) -> None:
        if not self.dead and events:
            self.reads.put_nowait(list(events))


@dataclass
class Server:
    """Objects, their history, and the faults of this server."""

    name = "model"
    revision: int = 10
    compacted: int = 0
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    served: bool = True
    streaming: str = "yes"
    lag: int = 0
    refusals: list[Exception] = field(default_factory=list)
    uids: Any = field(default_factory=lambda: itertools.count(1))
    tokens: dict[str, tuple[int, list[dict[str, Any]]]] = field(default_factory=dict)

    # Changes by the test

    def put(self, name: str, owner: str) -> None:
        known = self.objects.get(name)
        uid = known["metadata"]["uid"] if known else f"uid-{next(self.uids)}"
        self.revision += 1
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": "web",
            "uid": uid,
            "resourceVersion": str(self.revision),
            "managedFields": [{"manager": "ours", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
        }
        if owner:
            reference = {"apiVersion": "v1", "kind": "Owner", "name": owner, "uid": owner, "controller": True}
            metadata["ownerReferences"] = [reference]
        made = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}
        self.objects[name] = made
        self._happened("MODIFIED" if known else "ADDED", made)

    def delete(self, name: str) -> None:
        known = self.objects.pop(name, None)
        if known is not None:
            self.revision += 1
            last = known | {"metadata": known["metadata"] | {"resourceVersion": str(self.revision)}}
            self._happened("DELETED", last)

    def _happened(self, type_: str, what: dict[str, Any]) -> None:
        self.history.append((self.revision, type_, what))
        for stream in self.streams:
            stream.send(WatchEvent(type_, encode(what)))

    def bookmark(self, *, ends: bool = False) -> WatchEvent:
        metadata: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if ends:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return WatchEvent("BOOKMARK", encode({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}))

    def end_streams(self, how: Exception | None) -> None:
        for stream in self.streams:
            stream.reads.put_nowait(how)
        self.streams.clear()

    def status_event(self, code: int, reason: str) -> None:
        body = {"kind": "Status", "code": code, "reason": reason, "message": reason}
        for stream in self.streams:
            stream.send(WatchEvent("ERROR", encode(body)))
        self.end_streams(None)

    def lose_kind(self) -> None:
        for name in list(self.objects):
            self.delete(name)
        self.served = False
        self.end_streams(None)

    def heal(self) -> None:
        self.served, self.streaming, self.lag = True, "yes", 0
        self.refusals.clear()

    # Requests of informers

    async def resource(self, asked: Any) -> ResourceInfo:
        if not self.served:
            raise NotServed("example.com/v1", "Thing")
        return INFO

    def forget_discovery(self, group_version: str | None = None) -> None:
        pass

    async def list_page(self, info: ResourceInfo, query: ListQuery) -> Page:
        await asyncio.sleep(0.001)
        self._refuse(query.resource_version)
        if query.continue_:
            at, rest = self.tokens.pop(query.continue_)
            if at < self.compacted:
                raise Expired("the continue token is too old", status=410)
        else:
            at, rest = self.revision, list(self.objects.values())
        items, rest = (rest[: query.limit], rest[query.limit :]) if query.limit else (rest, [])
        token = f"{at}/{len(self.tokens)}/{len(rest)}/{self.revision}" if rest else ""
        if rest:
            self.tokens[token] = (at, rest)
        return Page(items=[encode(item) for item in items], resource_version=str(at), continue_=token)

    @asynccontextmanager
    async def watch(self, info: ResourceInfo, query: WatchQuery) -> AsyncIterator[Any]:
        await asyncio.sleep(0.001)
        self._refuse(query.resource_version)
        stream = Stream(asyncio.Queue(), query.idle_seconds)
        now = [WatchEvent("ADDED", encode(item)) for item in self.objects.values()]
        if query.send_initial_events:
            if self.streaming == "unknown":
                raise Invalid("sendInitialEvents is forbidden", status=422)
            for event in now:
                stream.send(event)
            if self.streaming == "yes":
                stream.send(self.bookmark(ends=True))
        elif query.resource_version:
            since = int(query.resource_version)
            if since < self.compacted:
                raise Expired("too old resource version", status=410)
            stream.send(*(WatchEvent(type_, encode(what)) for at, type_, what in self.history if at > since))
        self.streams.append(stream)
        try:
            yield stream
        finally:
            if stream in self.streams:
                self.streams.remove(stream)

    def _refuse(self, version: str) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        if not self.served:
            raise NotFound("404 page not found", status=404)
        if version and int(version) > self.revision - self.lag:
            raise ServerFailure("Timeout: Too large resource version", status=504)


# Handlers


class Replay:
    """A handler that replays its changes and records every contradiction."""

    def __init__(self) -> None:
        self.view: dict[str, tuple[str, str]] = {}
        self.wrong: list[str] = []
        self.registration: Registration | None = None

    def __call__(self, change: Change) -> None:
        old = None if change.old is None else (change.old.uid, change.old.version)
        new = None if change.new is None else (change.new.uid, change.new.version)
        if self.view.get(change.name) != old:
            self.wrong.append(f"{change.name}: told of {old}, knew {self.view.get(change.name)}")
        if old == new:
            self.wrong.append(f"{change.name}: nothing changed")
        if old and new and old[0] != new[0]:
            self.wrong.append(f"{change.name}: another object came as a change")
        if change.initial and old is not None:
            self.wrong.append(f"{change.name}: initial, but known")
        if new is None:
            self.view.pop(change.name, None)
        else:
            self.view[change.name] = new


# The program


@dataclass
class World:
    server: Server
    informers: InformerSet
    informer: Informer
    replays: list[Replay] = field(default_factory=list)

    def listen(self) -> None:
        replay = Replay()
        replay.registration = self.informer.add_handler(f"h{len(self.replays)}", replay)
        self.replays.append(replay)

    @property
    def differs(self) -> str:
        """The deviation from the expected end state, "" without one."""
        truth = {
            name: (one["metadata"]["uid"], one["metadata"]["resourceVersion"])
            for name, one in self.server.objects.items()
        }
        store = self.informer.store
        if not store.synced or self.informer.problem is not None:
            return f"synced: {store.synced}, {self.informer.problem}"
        held = {one.metadata.name: (one.uid, one.version) for one in store.list()}
        if held != truth:
            return f"the store has {held}, the server {truth}"
        for replay in self.replays:
            assert replay.registration is not None
            if replay.view != truth or not replay.registration.has_synced:
                return f"a handler has {replay.view}, the server {truth}"
        for owner in ("one", "two"):
            owned = {one.metadata.name for one in store.by_index("owner", owner)}
            if owned != {name for name, one in self.server.objects.items() if _owner(one) == owner}:
                return f"the index of {owner} has {owned}"
        return ""


def _owner(one: dict[str, Any]) -> str:
    references = one["metadata"].get("ownerReferences", [])
    return references[0]["uid"] if references else ""


ERRORS: dict[str, Callable[[], Exception]] = {
    "refused": lambda: Unreachable("refused"),
    "cut": lambda: Unreachable("cut", maybe_done=True),
    "busy": lambda: TooManyRequests("busy", status=429, retry_after=2.0),
    "failure": lambda: ServerFailure("failure", status=500),
    "denied": lambda: Forbidden("denied", status=403),
    "expired": lambda: Expired("expired", status=410),
    "missing": lambda: NotFound("missing", status=404),
    "defect": lambda: ZeroDivisionError("a defect"),
}

CHANGES = st.one_of(
    st.tuples(st.just("put"), NAMES, OWNERS),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("replace"), NAMES, OWNERS),
)
STEPS = st.one_of(
    CHANGES,
    CHANGES,
    st.tuples(st.just("missed"), st.lists(CHANGES, min_size=1, max_size=4)),
    st.tuples(st.just("pause"), st.sampled_from([0.0, 0.001, 0.5, 3.0, 40.0, 80.0])),
    st.tuples(st.just("turns"), st.integers(1, 6)),
    st.tuples(st.just("bookmark")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("end")),
    st.tuples(st.just("cut"), st.sampled_from(["cut", "refused", "defect"])),
    st.tuples(st.just("status"), st.sampled_from([(410, "Expired"), (500, "InternalError"), (429, "TooManyRequests")])),
    st.tuples(st.just("silence")),
    st.tuples(st.just("refuse"), st.lists(st.sampled_from(sorted(ERRORS)), min_size=1, max_size=4)),
    st.tuples(st.just("streaming"), st.sampled_from(["yes", "never ends", "unknown"])),
    st.tuples(st.just("lag"), st.integers(0, 5)),
    st.tuples(st.just("lose")),
    st.tuples(st.just("serve")),
    st.tuples(st.just("listen")),
    st.tuples(st.just("leave")),
)


async def take(world: World, step: tuple[Any, ...]) -> None:
    server = world.server
    match step:
        case ("put", name, owner) if server.served:
            server.put(name, owner)
        case ("delete", name):
            server.delete(name)
        case ("replace", name, owner) if server.served:
            server.delete(name)
            server.put(name, owner)
        case ("missed", changes):
            # Only a relist can show the following changes.
            for stream in server.streams:
                stream.dead = True
            for change in changes:
                await take(world, change)
            server.compacted = server.revision
            server.history.clear()
            server.end_streams(None)
        case ("pause", seconds):
            await asyncio.sleep(seconds)
        case ("turns", count):
            for _ in range(count):
                await asyncio.sleep(0)
        case ("bookmark",):
            for stream in server.streams:
                stream.send(server.bookmark())
        case ("compact",):
            server.compacted = server.revision
            server.history.clear()
        case ("end",):
            server.end_streams(None)
        case ("cut", how):
            server.end_streams(ERRORS[how]())
        case ("status", (code, reason)):
            server.status_event(code, reason)
        case ("silence",):
            for stream in server.streams:
                stream.dead = True
        case ("refuse", kinds):
            server.refusals += [ERRORS[one]() for one in kinds]
        case ("streaming", how):
            server.streaming = how
        case ("lag", by):
            server.lag = by
        case ("lose",):
            server.lose_kind()
        case ("serve",):
            server.served = True
        case ("listen",):
            world.listen()
        case ("leave",) if len(world.replays) > 1:
            registration = world.replays.pop().registration
            assert registration is not None
            registration.remove()


async def program(steps: list[tuple[Any, ...]], settings_: dict[str, Any], seed: int) -> None:
    server = Server()
    # A slice of zero yields to the loop after every piece of work, for the most interleavings.
    informer_settings = InformerSettings(slice=0.0, slice_objects=1, page_size=2, **settings_)
    async with InformerSet(
        server, settings=informer_settings, managers=frozenset({"ours"}), random=Random(seed)
    ) as informers:
        world = World(server, informers, informers.acquire(Selection(THING)))
        world.listen()
        for step in steps:
            await take(world, step)
        server.heal()
        for _ in range(100):
            if not world.differs:
                break
            await asyncio.sleep(5)
            await take(world, ("bookmark",))
        assert world.differs == ""
        assert [wrong for replay in world.replays for wrong in replay.wrong] == []
        assert all(handler.errors == 0 for handler in world.informer.statistics().handlers)


@pytest.mark.filterwarnings("error")
@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=40),
    watch_list=st.booleans(),
    consistent=st.booleans(),
    seed=st.integers(0, 3),
)
def test_the_store_and_every_handler_converge_to_the_server(
    steps: list[tuple[Any, ...]], watch_list: bool, consistent: bool, seed: int
) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(program(steps, {"watch_list": watch_list, "consistent_lists": consistent}, seed))
