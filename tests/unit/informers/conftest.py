"""A scripted API: the test receives each request of an informer, responds to it, and controls its stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from konverge.client import ListQuery, Page, ResourceInfo, WatchEvent, WatchIdle, WatchQuery
from konverge.errors import NotServed
from konverge.informers import InformerSet, InformerSettings, Selection
from konverge.kinds import kind
from konverge.metrics import Metrics

THING = kind("example.com/v1", "Thing")
INFO = ResourceInfo(api_version="example.com/v1", kind="Thing", plural="things", namespaced=True)


class ListRequest:
    """A request for a page that waits for its response."""

    def __init__(self, query: ListQuery) -> None:
        self.query = query
        self.reply: asyncio.Future[Page] = asyncio.get_running_loop().create_future()

    def answer(self, *bodies: bytes, version: str, continue_: str = "") -> None:
        self.reply.set_result(
            Page(items=[msgspec.Raw(body) for body in bodies], resource_version=version, continue_=continue_)
        )

    def refuse(self, error: Exception) -> None:
        self.reply.set_exception(error)


class WatchRequest:
    """A request for a watch; once accepted, the stream that the test feeds."""

    def __init__(self, query: WatchQuery) -> None:
        self.query = query
        self.opening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.feed: asyncio.Queue[list[WatchEvent] | Exception | None] = asyncio.Queue()
        self.closed = False

    def accept(self) -> WatchRequest:
        self.opening.set_result(None)
        return self

    def refuse(self, error: Exception) -> None:
        self.opening.set_exception(error)

    def send(self, *events: WatchEvent) -> None:
        """Send these events in one network read."""
        self.feed.put_nowait(list(events))

    def end(self) -> None:
        self.feed.put_nowait(None)

    def cut(self, error: Exception) -> None:
        self.feed.put_nowait(error)

    async def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        while True:
            try:
                async with asyncio.timeout(self.query.idle_seconds):
                    given = await self.feed.get()
            except TimeoutError as error:
                raise WatchIdle(f"no byte for {self.query.idle_seconds:g} s") from error
            if given is None:
                return
            if isinstance(given, Exception):
                raise given
            yield given


class ScriptedApi:
    """Hands each request of an informer to the test."""

    name = "test"

    def __init__(self) -> None:
        self.info: ResourceInfo | Exception = INFO
        self.discoveries: list[float] = []
        self.forgotten: list[str | None] = []
        self._lists: asyncio.Queue[ListRequest] = asyncio.Queue()
        self._watches: asyncio.Queue[WatchRequest] = asyncio.Queue()

    async def resource(self, asked: Any) -> ResourceInfo:
        self.discoveries.append(asyncio.get_running_loop().time())
        if isinstance(self.info, Exception):
            raise self.info
        return self.info

    def forget_discovery(self, group_version: str | None = None) -> None:
        self.forgotten.append(group_version)

    async def list_page(self, info: ResourceInfo, query: ListQuery) -> Page:
        request = ListRequest(query)
        self._lists.put_nowait(request)
        return await request.reply

    @asynccontextmanager
    async def watch(self, info: ResourceInfo, query: WatchQuery) -> AsyncIterator[Any]:
        request = WatchRequest(query)
        self._watches.put_nowait(request)
        try:
            await request.opening
            yield request
        finally:
            request.closed = True

    async def next_list(self, within: float = 3600.0) -> ListRequest:
        async with asyncio.timeout(within):
            return await self._lists.get()

    async def next_watch(self, within: float = 3600.0) -> WatchRequest:
        async with asyncio.timeout(within):
            return await self._watches.get()

    async def synced_stream(self, *bodies: bytes, version: str = "100") -> WatchRequest:
        """Respond to the next watch with a streaming list of these objects; return the stream, which continues as the watch."""
        stream = (await self.next_watch()).accept()
        stream.send(*(self.event("ADDED", body) for body in bodies), self.bookmark(version, ends=True))
        await self.settle()
        return stream

    @property
    def idle(self) -> bool:
        """Whether no request waits for the test."""
        return self._lists.empty() and self._watches.empty()

    # Objects and events on the wire

    @staticmethod
    def body(name: str, version: int, *, namespace: str = "web", uid: str = "", **more: Any) -> bytes:
        metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
        metadata |= more.pop("metadata", {})
        return json.dumps({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, **more}).encode()

    @staticmethod
    def event(type_: str, body: bytes) -> WatchEvent:
        return WatchEvent(type_, msgspec.Raw(body))

    def added(self, name: str, version: int, **more: Any) -> WatchEvent:
        return self.event("ADDED", self.body(name, version, **more))

    def modified(self, name: str, version: int, **more: Any) -> WatchEvent:
        return self.event("MODIFIED", self.body(name, version, **more))

    def deleted(self, name: str, version: int, **more: Any) -> WatchEvent:
        return self.event("DELETED", self.body(name, version, **more))

    def bookmark(self, version: int | str, *, ends: bool = False) -> WatchEvent:
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if ends:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body = {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": metadata}
        return self.event("BOOKMARK", json.dumps(body).encode())

    def error(self, code: int, reason: str, message: str) -> WatchEvent:
        status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
        return self.event("ERROR", json.dumps(status).encode())

    @staticmethod
    async def settle() -> None:
        """Run all ready tasks: virtual time advances only if no task is ready."""
        await asyncio.sleep(0.001)


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def selection() -> Selection:
    return Selection(THING)


@pytest.fixture
def not_served() -> NotServed:
    return NotServed("example.com/v1", "Thing")


@pytest.fixture
def make_set(api: ScriptedApi, metrics: Metrics) -> Callable[..., InformerSet]:
    def make(**settings: Any) -> InformerSet:
        managers = settings.pop("managers", frozenset({"ours"}))
        return InformerSet(
            api, settings=InformerSettings(**settings), metrics=metrics, managers=managers, random=Random(7)
        )

    return make


class Heard:
    """A handler that records its changes, and the objects that they add up to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.view: dict[tuple[str, str], Any] = {}
        self.wrong: list[str] = []

    def __call__(self, change: Any) -> None:
        path = (change.namespace, change.name)
        known = self.view.get(path)
        if (None if known is None else known.version) != (None if change.old is None else change.old.version):
            self.wrong.append(f"{change!r} after {known!r}")  # an exception here would only be counted
        word = "+" if change.old is None else "-" if change.new is None else "~"
        self.lines.append(f"{word}{change.name}{'!' if change.initial else ''}")
        if change.new is None:
            self.view.pop(path, None)
        else:
            self.view[path] = change.new

    @property
    def versions(self) -> Mapping[str, str]:
        return {name: cached.version for (_, name), cached in self.view.items()}

    def drain(self) -> list[str]:
        assert self.wrong == []
        lines, self.lines = self.lines, []
        return lines


@pytest.fixture
def heard() -> Heard:
    return Heard()
