"""The lower limit of a controller in asyncio: a watch, a set of dirty keys, workers that send one apply per object; no library.

It requeues a failed object without backoff, and has no relist and no metrics: these are the work of a library.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
from baselines.peer import Item, Told, answering, apply, due, ready

STREAM = "?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600"
INITIAL = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


class Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


EVENT, ITEM = msgspec.json.Decoder(Event), msgspec.json.Decoder(Item)


class Loop:
    def __init__(self, told: Told) -> None:
        self.told, self.session, self.errors = told, told.session(), 0
        self.version = ""
        self.synced = asyncio.Event()
        self.cache: dict[str, bytes] = {}
        self.queue: asyncio.Queue[str] = asyncio.Queue()
        self.dirty: set[str] = set()
        self.busy: set[str] = set()

    def add(self, name: str) -> None:
        if name not in self.dirty:
            self.dirty.add(name)
            if name not in self.busy:
                self.queue.put_nowait(name)

    async def watch(self) -> None:
        while True:  # a server may end a watch at any time; the next watch continues at the last version
            since = f"&resourceVersion={self.version}" if self.version else INITIAL
            async with self.session.get(self.told.items + STREAM + since, raise_for_status=True) as answer:
                async for line in answer.content:
                    self.take(line)

    def take(self, line: bytes) -> None:
        event = EVENT.decode(line)
        if event.type == "ERROR":
            self.version = ""
            return
        item = ITEM.decode(event.object)
        begins = "k8s.io/initial-events-end" in item.metadata.annotations
        # The initial events are in the order of names: a watch cannot continue from their versions.
        if self.version or begins:
            self.version = item.metadata.resource_version
        if event.type == "BOOKMARK":
            if begins and not self.synced.is_set():
                self.synced.set()
                ready({"workers": self.told.workers, "cache": "raw bytes", "limiter": "none"}, "aiohttp", "msgspec")
        elif event.type == "DELETED":
            self.cache.pop(item.metadata.name, None)
        else:
            self.cache[item.metadata.name] = bytes(event.object)
            self.add(item.metadata.name)

    async def work(self) -> None:
        await self.synced.wait()
        while True:
            name = await self.queue.get()
            self.dirty.discard(name)
            self.busy.add(name)
            try:
                if name in self.cache and (body := due(ITEM.decode(self.cache[name]))):
                    await apply(self.session, f"{self.told.items}/{name}/status", body)
            except Exception as error:
                print(f"{name}: {error!r}", file=sys.stderr)
                self.errors += 1
                self.dirty.add(name)
            self.busy.discard(name)
            if name in self.dirty:
                self.queue.put_nowait(name)


async def main() -> None:
    loop = Loop(Told.from_environment())
    async with loop.session, answering(lambda: loop.errors) as stop:
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(work()) for work in (loop.watch, *[loop.work] * loop.told.workers)
        ]
        ended, _ = await asyncio.wait([asyncio.create_task(stop.wait()), *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in ended:
            task.result()  # an error ends the program


if __name__ == "__main__":
    asyncio.run(main())
