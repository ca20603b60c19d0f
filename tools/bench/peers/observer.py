"""The outside observer: a watch of the harness' own that reports when objects have the expected state.

Guarantees: a waiter for an object is woken at the moment its event was read, with that moment. An item is in step if its
`status.observedGeneration` and its condition's observedGeneration have reached the wanted generation; a child is in step if its data match
its name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import aiohttp
import msgspec

from konverge.clock import monotonic

STREAM = "?watch=true&allowWatchBookmarks=true&timeoutSeconds=7200"
INITIAL = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
BEGIN_SECONDS = 120
GONE = 410
ERROR = b'{"type":"ERROR"'


class _Condition(msgspec.Struct, rename="camel"):
    observed_generation: int = 0


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    conditions: list[_Condition] = []


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    generation: int = 0
    resource_version: str = "0"
    annotations: dict[str, str] = {}


class _Item(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


class _Map(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    data: dict[str, str] = {}


class _ItemEvent(msgspec.Struct):
    type: str
    object: _Item


class _MapEvent(msgspec.Struct):
    type: str
    object: _Map


class _Waiting:
    """Awaited names, and the time when the last of them was in step; `ends` counts streams that the server ended."""

    def __init__(self) -> None:
        self.version = ""
        self.ends = 0
        self.begun = asyncio.Event()
        self.done_at = 0.0
        self._empty = asyncio.Event()
        self._empty.set()
        self._names: dict[str, int] = {}

    def wait_for(self, wanted: Mapping[str, int]) -> None:
        """Wait for these names too, each with the generation or version that counts."""
        self._names.update(wanted)
        if self._names:
            self._empty.clear()

    @property
    def missing(self) -> int:
        return len(self._names)

    async def all_done(self, seconds: float) -> float:
        """Wait until all are in step; returns the time of the last. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            await self._empty.wait()
        return self.done_at

    def came(self, name: str, reached: int, now: float) -> None:
        wanted = self._names.get(name)
        if wanted is not None and reached >= wanted:
            del self._names[name]
            self.done_at = now
            if not self._names:
                self._empty.set()

    def broken(self, line: bytes) -> bool:
        """Return whether the server reports an error of the stream; the next stream then begins with the initial state."""
        if not line.startswith(ERROR):
            return False
        self.version = ""
        return True

    def noted(self, type_: str, metadata: _Metadata) -> bool:
        """Remember the version of the stream; returns whether the event is about an object.

        The initial events are in the order of names: a watch cannot continue from their versions.
        """
        ends = "k8s.io/initial-events-end" in metadata.annotations
        if self.version or ends:
            self.version = metadata.resource_version
        if ends:
            self.begun.set()
        return type_ != "BOOKMARK"


class Items(_Waiting):
    """Observes when items are in step; `latencies` holds the seconds from each mark to the event that settled it."""

    decoder = msgspec.json.Decoder(_ItemEvent)

    def __init__(self) -> None:
        super().__init__()
        self.observed: dict[str, int] = {}
        self.seen: dict[str, float] = {}
        self.latencies: list[float] = []
        self._marks: dict[str, list[tuple[int, float]]] = {}

    @property
    def open_marks(self) -> int:
        return sum(map(len, self._marks.values()))

    def mark(self, name: str, generation: int, answered: float) -> None:
        """Mark the moment of the response to a change; if its status was observed even earlier, the latency is 0."""
        if self.observed.get(name, 0) >= generation:
            self.latencies.append(max(0.0, self.seen[name] - answered))
        else:
            self._marks.setdefault(name, []).append((generation, answered))

    def take(self, line: bytes) -> None:
        """Read one line of the watch."""
        if self.broken(line):
            return
        event, now = self.decoder.decode(line), monotonic()
        metadata, status = event.object.metadata, event.object.status
        if not self.noted(event.type, metadata):
            return
        reached = min((condition.observed_generation for condition in status.conditions), default=0)
        reached = min(reached, status.observed_generation)
        if reached <= self.observed.get(metadata.name, 0):
            return
        self.observed[metadata.name], self.seen[metadata.name] = reached, now
        self.came(metadata.name, reached, now)
        if marks := self._marks.pop(metadata.name, None):
            self.latencies += [now - answered for generation, answered in marks if generation <= reached]
            if left := [mark for mark in marks if mark[0] > reached]:
                self._marks[metadata.name] = left


class Maps(_Waiting):
    """Observes when children are restored; `good` holds the version and time of each child's last restoration."""

    decoder = msgspec.json.Decoder(_MapEvent)

    def __init__(self) -> None:
        super().__init__()
        self.good: dict[str, tuple[int, float]] = {}
        self.latencies: list[float] = []
        self._marks: dict[str, tuple[int, float]] = {}

    @property
    def open_marks(self) -> int:
        return len(self._marks)

    def mark(self, name: str, version: int, answered: float) -> None:
        """Mark the edit or deletion of a child: the version, and the moment of the response."""
        good = self.good.get(name)
        if good is not None and good[0] > version:
            self.latencies.append(max(0.0, good[1] - answered))
        else:
            self._marks[name] = (version, answered)

    def take(self, line: bytes) -> None:
        """Read one line of the watch."""
        if self.broken(line):
            return
        event, now = self.decoder.decode(line), monotonic()
        metadata = event.object.metadata
        if not self.noted(event.type, metadata):
            return
        if event.type == "DELETED" or event.object.data != {"value": metadata.name}:
            return
        version = int(metadata.resource_version)
        self.good[metadata.name] = (version, now)
        self.came(metadata.name, version, now)
        mark = self._marks.get(metadata.name)
        if mark is not None and version > mark[0]:
            self.latencies.append(now - mark[1])
            del self._marks[metadata.name]


@contextlib.asynccontextmanager
async def observing(session: aiohttp.ClientSession, path: str, into: Items | Maps) -> AsyncIterator[None]:
    """Watch a collection as long as the block lives; entered when the initial state was seen."""
    task = asyncio.create_task(_watch(session, path, into))
    begun = asyncio.create_task(into.begun.wait())
    try:
        await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED, timeout=BEGIN_SECONDS)
        if task.done():
            task.result()
        yield
    finally:
        for each in (task, begun):
            each.cancel()
        await asyncio.gather(task, begun, return_exceptions=True)


async def _watch(session: aiohttp.ClientSession, path: str, into: Items | Maps) -> None:
    """Follow the collection; after the server ended a stream, the next stream continues at its version, or begins with the initial state if
    the version is too old."""
    while True:
        query = f"&resourceVersion={into.version}" if into.version else INITIAL
        try:
            async with session.get(path + STREAM + query, raise_for_status=True) as answer:
                async for line in answer.content:
                    into.take(line)
        except aiohttp.ClientResponseError as error:
            if error.status != GONE:
                raise
            into.version = ""
        except aiohttp.ClientPayloadError:
            pass
        into.ends += 1
