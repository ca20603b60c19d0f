"""The shell of stand-ins for other projects' controllers: each object has a task of its own, its story.

A story reads like the log of the real controller: a write, a pause, the next write. Stories are in `konverge_testing.velero`, `argo` and
`volsync`; what they write is compared with recordings of the real controllers.

Guarantees: a story begins once for each new UID, also after a restart of the stand-in, and then finds its earlier writes in the object. A
write changes the newest version of exactly that object: a conflict is retried, another object of the same name is not changed. Errors of
the API server are retried. All time is the loop's, so a virtual loop plays hours in milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import cache, partial
from importlib import resources
from random import Random
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias

import msgspec
import yaml

from konverge.client import Client, ClientConfig
from konverge.clock import rfc3339, wall_clock
from konverge.errors import AlreadyExists, Conflict, KonvergeError, NotFound
from konverge.informers import Change, Informer, InformerSet, Selection
from konverge.kinds import Kind
from konverge.logs import get_logger
from konverge.objects import Object
from konverge.tasks import Broadcast

__all__ = ["Json", "StandIn", "definitions"]

Json: TypeAlias = dict[str, Any]
"""An object as plain JSON data."""

_AGAIN = 0.5
"""Seconds until a failed write is retried."""


def definitions(package: str) -> list[Json]:
    """Return the CustomResourceDefinitions in the folder `crds` of a package, a copy for each caller."""
    results: list[Json] = msgspec.json.decode(_definitions(package))
    return results


@cache
def _definitions(package: str) -> bytes:
    folder = resources.files(package) / "crds"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    return msgspec.json.encode([item for file in files for item in yaml.safe_load_all(file.read_text())])


class StandIn:
    """Plays a controller on an API server until its `async with` ends. Constructing it starts nothing.

    `namespace` None serves all namespaces. `pace` multiplies every pause of the stories: 0 plays them at once.
    """

    NAME: ClassVar[str]
    """The field manager and user agent."""
    KINDS: ClassVar[Mapping[str, Kind[Object]]]

    def __init__(
        self, config: ClientConfig, *, namespace: str | None = None, pace: float = 1.0, random: Random | None = None
    ) -> None:
        self.pace = pace
        self._config = config
        self._namespace = namespace
        self._random = Random() if random is None else random  # noqa: S311  # jitter, no secret
        self._informers: dict[str, Informer] = {}
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = Broadcast()
        self._stack = AsyncExitStack()
        self._log = get_logger(f"konverge_testing.{type(self).__name__}")

    # --- written by each stand-in --------------------------------------------------------------------------------------------

    def story(self, manifest: Json) -> Coroutine[Any, Any, None] | None:
        """Return the story of a new object, None if it has none."""
        raise LookupError(f"{type(self).__name__} has no story for {manifest['kind']}")

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work beside the stories."""
        return []

    # --- used by stories -----------------------------------------------------------------------------------------------------

    def cached(self, kind: str) -> list[Json]:
        """Return all objects of a kind, oldest first."""
        results = [cached.data() for cached in self._informers[kind].store.list()]
        return sorted(
            results, key=lambda manifest: (manifest["metadata"]["creationTimestamp"], manifest["metadata"]["name"])
        )

    def now(self, after: float = 0.0) -> str:
        """Return the present moment, or a moment so many seconds later, as a timestamp."""
        moment = wall_clock()
        return rfc3339(moment if not after else moment.fromtimestamp(moment.timestamp() + after, moment.tzinfo))

    async def sleep(self, seconds: float) -> None:
        """Pause a story."""
        await asyncio.sleep(seconds * self.pace)

    async def until(self, test: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a test of the cache holds; False on a timeout."""
        try:
            async with asyncio.timeout(None if timeout is None else timeout * self.pace):
                while not test():
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """Let every story test its condition again."""
        self._news.notify()

    def present(self, manifest: Json) -> Json | None:
        """Return the cached object of this UID."""
        metadata = manifest["metadata"]
        result = self._informers[manifest["kind"]].store.get(metadata.get("namespace", ""), metadata["name"])
        return result.data() if result is not None and result.metadata.uid == metadata["uid"] else None

    async def read(self, manifest: Json) -> Json | None:
        """Return the stored object of this UID."""
        metadata = manifest["metadata"]
        kind = self.KINDS[manifest["kind"]]
        while True:
            try:
                result = await self._client.get(kind, metadata["name"], metadata.get("namespace", ""))
            except NotFound:
                return None
            except KonvergeError as error:
                await self._failed(error)
                continue
            return result.to_dict() if result.metadata.uid == metadata["uid"] else None

    async def write(self, manifest: Json, edit: Callable[[Json], object], subresource: str = "") -> Json | None:
        """Change the newest version of exactly this object; None if it is deleted."""
        while True:
            newest = await self.read(manifest)
            if newest is None:
                return None
            edit(newest)
            try:
                return (await self._client.replace(Object(newest), subresource=subresource)).to_dict()
            except Conflict:
                continue
            except NotFound:
                return None
            except KonvergeError as error:
                await self._failed(error)

    async def create(self, manifest: Json) -> None:
        """Create an object; an existing object is left unchanged, and nothing is created in a deleted namespace."""
        while True:
            try:
                await self._client.create(Object(manifest))
            except (AlreadyExists, NotFound):
                return
            except KonvergeError as error:
                await self._failed(error)
                continue
            return

    async def delete(self, manifest: Json) -> None:
        """Delete exactly this object."""
        metadata = manifest["metadata"]
        kind = self.KINDS[manifest["kind"]]
        while True:
            try:
                await self._client.delete(kind, metadata["name"], metadata.get("namespace", ""), uid=metadata["uid"])
            except (NotFound, Conflict):
                return
            except KonvergeError as error:
                await self._failed(error)
                continue
            return

    async def _failed(self, error: KonvergeError) -> None:
        self._log.warning("the stand-in could not write", error=str(error))
        await asyncio.sleep(_AGAIN)

    # --- running -------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end)
            self._client = await stack.enter_async_context(Client(self._config, name=self.NAME, random=self._random))
            informers = await stack.enter_async_context(InformerSet(self._client, random=self._random))
            for name, kind in self.KINDS.items():
                self._informers[name] = informers.acquire(Selection(kind, self._namespace if kind.namespaced else None))
            for name, informer in self._informers.items():
                await informer.add_handler(self.NAME, partial(self._on_change, name)).synced()
            for work in self.background():
                self._spawn(work)
            stack.push_async_callback(self._end)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _on_change(self, name: str, change: Change) -> None:
        self._news.notify()
        if change.new is None:
            return
        uid = change.new.metadata.uid
        if uid in self._seen:
            return
        self._seen.add(uid)
        manifest = change.new.data()
        manifest.setdefault("kind", name)
        story = self.story(manifest)
        if story is not None:
            self._spawn(story)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=self.NAME)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
