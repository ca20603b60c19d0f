"""A stage for stand-ins of engines: a namespace whose every event is kept, to be compared with a recording of the real controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from konverge.client import ListQuery, WatchQuery
from konverge.kinds import Kind
from konverge.objects import Object
from konverge_testing import Lab, install_crds

RECORDINGS = Path(__file__).parents[1] / "recordings"
Json = dict[str, Any]
Fact = Callable[[str, Json], Any]
"""From the type of an event and its object to what is compared."""


@dataclass(frozen=True)
class Event:
    type: str
    object: Json

    def is_of(self, which: str) -> bool:
        return f"{self.object['kind']}/{self.object['metadata']['name']}" == which


def ways(events: list[Event], which: str, fact: Fact) -> list[list[Any]]:
    """Return for each object of a name (`Kind/name`) its facts over time, without repetitions."""
    found: dict[str, list[Any]] = {}
    for event in events:
        if event.is_of(which):
            way = found.setdefault(event.object["metadata"]["uid"], [])
            seen = fact(event.type, event.object)
            if not way or way[-1] != seen:
                way.append(seen)
    return list(found.values())


def recorded(engine: str, recording: str) -> list[Event]:
    lines = [json.loads(line) for line in (RECORDINGS / engine / f"{recording}.jsonl").read_text().splitlines()]
    return [Event(line["type"], line["object"]) for line in lines if "object" in line]


class EngineStage:
    """Records the events of some kinds in the lab's namespace; `async with` begins and ends it."""

    def __init__(self, lab: Lab, kinds: Mapping[str, Kind[Object]], crds: list[Json]) -> None:
        self.lab, self.kinds, self.crds = lab, kinds, crds
        self.events: list[Event] = []
        self.stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await install_crds(self.lab.client, self.crds)
        for name, kind in self.kinds.items():
            info = await self.lab.client.resource(kind)
            if not info.namespaced:
                continue
            page = await self.lab.client.list_page(info, ListQuery(namespace=self.lab.namespace))
            self._tasks.append(asyncio.create_task(self._watch(name, info, page.resource_version)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stack.aclose()
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception) and error is None:
                raise ended

    async def _watch(self, name: str, info: Any, version: str) -> None:
        query = WatchQuery(
            namespace=self.lab.namespace, resource_version=version, timeout_seconds=36000, idle_seconds=36000.0
        )
        async with self.lab.client.watch(info, query) as stream:
            async for events in stream:
                for event in events:
                    assert event.type != "ERROR", bytes(event.object)
                    if event.type != "BOOKMARK":
                        self.events.append(Event(event.type, msgspec.json.decode(event.object)))

    async def make(self, kind: str, name: str, spec: Json, **metadata: Any) -> Object:
        made = self.kinds[kind].new(name, self.lab.namespace, spec=spec)
        if metadata:
            made = Object({**made.to_dict(), "metadata": {**made.to_dict()["metadata"], **metadata}})
        return await self.lab.client.create(made)

    async def edit(self, kind: str, name: str, patch: Json) -> None:
        await self.lab.patch(self.kinds[kind], name, patch)

    async def delete(self, kind: str, name: str) -> None:
        await self.lab.delete(self.kinds[kind], name)

    async def until(self, kind: str, name: str, *phases: str, timeout: float = 600) -> Object:
        """Wait for one of some phases; without any, for the phase of an end."""
        ends = phases or (
            "Completed",
            "PartiallyFailed",
            "Failed",
            "FailedValidation",
            "Succeeded",
            "Error",
            "Processed",
        )
        return await self.until_is(kind, name, lambda made: made.get("status", "phase") in ends, timeout=timeout)

    async def until_is(self, kind: str, name: str, test: Callable[[Object], bool], *, timeout: float = 600) -> Object:
        return await self.lab.until(self.kinds[kind], name, test, timeout=timeout)

    async def until_gone(self, kind: str, name: str, *, timeout: float = 600) -> None:
        await self.lab.until_gone(self.kinds[kind], name, timeout=timeout)

    async def rest(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    def ways(self, which: str, fact: Fact) -> list[list[Any]]:
        return ways(self.events, which, fact)
