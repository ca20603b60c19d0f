"""The player of recordings for stand-ins of engines.

A stage keeps every event of a namespace. A `Story` repeats the steps of a recording on the stage, and `facts_of` returns what is compared:
of the events of the stand-in, and of the events of the real controller.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import msgspec
from recordings import Json, Line, lines

from konverge.client import ListQuery, WatchQuery
from konverge.kinds import Kind
from konverge.objects import Object
from konverge_testing import Lab, install_crds

Fact = Callable[[str, Json], Any]
"""From the type of an event and its object to what is compared."""


def ways(events: list[Line], which: str, fact: Fact) -> list[list[Any]]:
    """Return for each object of a name (`Kind/name`) its facts over time, without repetitions."""
    found: dict[str, list[Any]] = {}
    for event in events:
        if event.is_of(which):
            way = found.setdefault(event.object["metadata"]["uid"], [])
            seen = fact(event.type, event.object)
            if not way or way[-1] != seen:
                way.append(seen)
    return list(found.values())


def facts_of(events: list[Line], objects: list[str], fact: Fact) -> dict[str, list[list[Any]]]:
    """Return the facts of some objects over time; each object has an event at least."""
    found = {which: ways(events, which, fact) for which in objects}
    assert all(found.values()), f"no event of {[which for which, facts in found.items() if not facts]}"
    return found


def recorded(engine: str, recording: str) -> list[Line]:
    return [line for line in lines(engine, recording) if line.object]


class EngineStage:
    """Records the events of some kinds in the lab's namespace; `async with` begins and ends it."""

    def __init__(self, lab: Lab, kinds: Mapping[str, Kind[Object]], crds: list[Json]) -> None:
        self.lab, self.kinds, self.crds = lab, kinds, crds
        self.events: list[Line] = []
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
                        self.events.append(Line(0.0, type=event.type, object=msgspec.json.decode(event.object)))

    async def make(self, /, kind: str, name: str, spec: Json, **metadata: Any) -> Object:
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


class Actor(ABC):
    """A stage with a stand-in and its world: what the steps of a recording change. Subclasses have verbs of their own."""

    world: Any

    def __init__(self, stage: EngineStage) -> None:
        self.stage = stage
        self._controller = AsyncExitStack()
        stage.stack.push_async_callback(self.kill)

    @abstractmethod
    def controller(self) -> AbstractAsyncContextManager[object]:
        """Return the stand-in, which is not started yet."""

    async def start(self) -> None:
        """Create the objects of the set-up, and start the stand-in."""
        await self.serve()

    async def serve(self) -> None:
        await self._controller.enter_async_context(self.controller())

    async def kill(self) -> None:
        await self._controller.aclose()


P = ParamSpec("P")
A = TypeVar("A", bound=Actor)
Act = Callable[[A], Awaitable[object]]
"""One step of a story."""


def act(verb: Callable[Concatenate[A, P], Awaitable[object]]) -> Callable[P, Act[A]]:
    """Return the function that binds the arguments of a verb, so that a table can hold its calls."""

    def bind(*arguments: P.args, **named: P.kwargs) -> Act[A]:
        return lambda actor: verb(actor, *arguments, **named)

    return bind


def staged(verb: Callable[Concatenate[EngineStage, P], Awaitable[object]]) -> Callable[P, Act[Any]]:
    """Return the same for a verb of the stage."""

    def bind(*arguments: P.args, **named: P.kwargs) -> Act[Any]:
        return lambda actor: verb(actor.stage, *arguments, **named)

    return bind


make = staged(EngineStage.make)
delete = staged(EngineStage.delete)
until = staged(EngineStage.until)
until_is = staged(EngineStage.until_is)
until_gone = staged(EngineStage.until_gone)
rest = staged(EngineStage.rest)
serve = act(Actor.serve)
kill = act(Actor.kill)


def world(**fields: Any) -> Act[Any]:
    """Set fields of the stand-in's world; sets and mappings are changed in place, as the stand-in may hold them."""

    async def set_fields(actor: Actor) -> None:
        for name, value in fields.items():
            present = getattr(actor.world, name)
            if isinstance(present, set | dict):
                present.clear()
                present.update(value)
            else:
                setattr(actor.world, name, value)

    return set_fields


class Story(Generic[A]):
    """The compared objects of a recording (`Kind/name`, with spaces between them), and the steps that a person took."""

    def __init__(self, objects: str, *acts: Act[A]) -> None:
        self.objects, self.acts = objects.split(), acts

    async def play(self, actor: A) -> None:
        """Start the stand-in and repeat the steps."""
        await actor.start()
        for step in self.acts:
            await step(actor)
