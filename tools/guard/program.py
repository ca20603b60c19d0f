"""The cost of one thousand objects to the library, counted and not timed: requests, Python calls, bytes that stay.

Run as a program it prints one JSON object, the `Counts` of one run. `--bytes` counts bytes (tracing slows calls down many times, so calls
and bytes are counted in separate runs), `--planted` decodes each object twice, `--children` counts a pass over a thousand unchanged
children, `--objects` sets another number of objects. The API server is in memory and time is virtual, so the figures of two runs differ by
little more than the order of sets; the server's own calls and bytes are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from cProfile import Profile
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final, Self
from unittest import mock

import structlog

import konverge as kv
import konverge_testing
from konverge.client import Client
from konverge.crds import crd
from konverge.informers.store import Cached
from konverge_testing import ApiServer
from konverge_testing.lab import install_crds
from konverge_testing.loop import VirtualTimeLoop

OBJECTS: Final = 1000
PACKAGE: Final = Path(kv.__file__).resolve().parent
LINKED: Final = {path.resolve(): path.name for path in PACKAGE.iterdir() if path.is_symlink()}
"""The rooms outside the package that are linked into it."""
KIT: Final = Path(konverge_testing.__file__).resolve().parent
GROUND: Final = "the ground floor"
NAMESPACE: Final = "default"
NAME: Final = "guard"


class GaugeSpec(kv.Model):
    target: int
    notes: dict[str, str]


class GaugeStatus(kv.Status):
    seen: int | None = None


@kv.resource("guard.example.com/v1", conditions=("Ready",))
class Gauge(kv.CustomResource[GaugeSpec, GaugeStatus]):
    """The counted resource: about two kilobytes each."""


class GaugeReconciler:
    async def reconcile(self, gauge: Gauge, ctx: kv.Context[Gauge]) -> kv.Outcome:
        ctx.status.draft.seen = gauge.spec.target
        ctx.status.set_condition("Ready", True, "Seen", "the target was seen")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Gauge).reconciled_by(GaugeReconciler()))


class Calls(AbstractContextManager["Calls"]):
    """Counts calls of Python functions and of C functions, by the calling room of the library."""

    def __init__(self) -> None:
        self.by_room: Counter[str] = Counter()
        self._profile = Profile()

    def __enter__(self) -> Self:
        self._profile.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self._profile.disable()
        room = lru_cache(maxsize=None)(room_of)
        for entry in self._profile.getstats():
            if isinstance(entry.code, str):
                continue  # a C function: it counts for its callers, below
            called = sum(inner.callcount for inner in entry.calls or () if isinstance(inner.code, str))
            self.by_room[room(entry.code.co_filename)] += entry.callcount + called


class Traced:
    """Records allocations from here on: tracing the creation of the objects too would take half as long again."""

    def __enter__(self) -> Self:
        tracemalloc.start(_FRAMES)
        return self

    def __exit__(self, *_: object) -> None:
        tracemalloc.stop()


def room_of(path: str) -> str:
    """Return the room of a file of the library, `GROUND` for its ground floor, "testing" for the test kit, else "elsewhere"."""
    file = Path(path).resolve()
    if file.is_relative_to(KIT):
        return "testing"
    if file.is_relative_to(PACKAGE):
        inside = file.relative_to(PACKAGE).parts
        return inside[0] if len(inside) > 1 else GROUND
    return next((name for folder, name in LINKED.items() if file.is_relative_to(folder)), "elsewhere")


_FRAMES: Final = 5
"""Frames of each allocation that are kept: an allocation deeper than that inside another library is not counted."""
CONFIG_MAP: Final = kv.kind("v1", "ConfigMap")


class HolderSpec(kv.Model):
    revision: int = 0


@kv.resource("guard.example.com/v1", conditions=("Ready",))
class Holder(kv.CustomResource[HolderSpec, kv.Status]):
    """The owner of a thousand children."""


class HolderReconciler:
    """Applies its children in each reconcile; the applies of the last reconcile, which need not send anything, are counted."""

    def __init__(self, counting: AbstractContextManager[object], objects: int) -> None:
        self.passed: asyncio.Queue[int] = asyncio.Queue()
        self._counting = counting
        self._objects = objects

    async def reconcile(self, holder: Holder, ctx: kv.Context[Holder]) -> kv.Outcome:
        with self._counting if holder.spec.revision == 2 else nullcontext():
            for number in range(self._objects):
                name = f"{holder.name}-{number}"
                await ctx.own(CONFIG_MAP.new(name, holder.namespace, labels={"app": "guard"}, data={"value": name}))
        ctx.status.set_condition("Ready", True, "Owned", f"revision {holder.spec.revision}")
        self.passed.put_nowait(holder.spec.revision)
        return kv.Done()


async def children(counting: AbstractContextManager[object], objects: int) -> None:
    """Create children, then reconcile them twice without a change: once uncounted, once counted."""
    async with (
        ApiServer(random=Random(1), rbac=False) as server,  # uids, no secrets
        Client(server.config(), name="somebody", random=Random(2)) as client,  # no secrets
    ):
        await install_crds(client, [crd(Holder)])
        await client.create(Holder.new("holder", NAMESPACE, spec=HolderSpec()))
        manager = kv.Manager(NAME, server.config(), random=Random(3))  # jitter
        reconciler = HolderReconciler(counting, objects)
        manager.add(kv.Controller.of(Holder).owns(CONFIG_MAP).reconciled_by(reconciler))
        async with manager:
            for revision in range(3):
                await client.patch(Holder, "holder", NAMESPACE, patch={"spec": {"revision": revision}}, style="merge")
                while await reconciler.passed.get() < revision:
                    pass
                await asyncio.sleep(5)


async def work(counting: AbstractContextManager[object], after: Callable[[], None], objects: int) -> dict[str, int]:
    """Reconcile and count everything; call `after` at the end. Returns the requests of the manager."""
    requests: Counter[str] = Counter()
    written = asyncio.Event()
    async with ApiServer(random=Random(1), rbac=False) as server:  # uids, no secrets
        async with Client(server.config(), name="somebody", random=Random(2)) as client:  # no secrets
            await install_crds(client, [crd(Gauge)])
            for number in range(objects):
                await client.create(gauge(number))
        statuses = 0

        def count(call: Any, about: Any, _: object) -> None:
            nonlocal statuses
            if call.headers.get("user-agent", "").startswith(NAME):
                requests[
                    f"{'apply' if about.apply else about.verb} {about.resource}/{about.subresource}".rstrip("/")
                ] += 1
                statuses += about.subresource == "status"
                if statuses == objects:
                    written.set()

        server.on_call.append(count)
        with counting:
            manager = kv.Manager(NAME, server.config(), random=Random(3))  # jitter
            build(manager)
            async with manager:
                await written.wait()
                await asyncio.sleep(5)
                after()
    return dict(sorted(requests.items()))


def gauge(number: int) -> Gauge:
    notes = {f"note-{line}": f"what was noted of gauge {number} in line {line}, " + "x" * 120 for line in range(10)}
    return Gauge.new(f"gauge-{number}", NAMESPACE, spec=GaugeSpec(target=number, notes=notes))


def kept_bytes() -> int:
    """Return the bytes that the library's own lines hold, and the calls below them; the test kit's bytes are left out.

    The innermost frame of konverge decides: `ast` allocates for the CEL rules of the in-memory server too.
    """
    total = 0
    room = lru_cache(maxsize=None)(room_of)
    gc.collect()  # the syntax trees that docstrings are read from are garbage in cycles
    for statistic in tracemalloc.take_snapshot().statistics("traceback"):
        rooms = (room(frame.filename) for frame in reversed(statistic.traceback))
        if next((name for name in rooms if name != "elsewhere"), "elsewhere") not in ("testing", "elsewhere"):
            total += statistic.size
    return total


def planted() -> AbstractContextManager[object]:
    """Decode each object twice instead of once."""
    decode = Cached.decode

    def twice(self: Cached, *arguments: Any) -> Any:
        decode(self, *arguments)
        return decode(self, *arguments)

    return mock.patch.object(Cached, "decode", twice)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", action="store_true")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--children", action="store_true")
    parser.add_argument("--objects", type=int, default=OBJECTS)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    calls, held = Calls(), [0]

    def note() -> None:
        held[0] = kept_bytes()

    loop = VirtualTimeLoop()
    with planted() if options.planted else nullcontext():
        if options.children:
            loop.run_until_complete(children(calls, options.objects))
            print(json.dumps({"objects": options.objects, "children": sum(calls.by_room.values())}))
        elif options.bytes:
            requests = loop.run_until_complete(work(Traced(), note, options.objects))
            print(json.dumps({"objects": options.objects, "requests": requests, "bytes": held[0]}))
        else:
            requests = loop.run_until_complete(work(calls, lambda: None, options.objects))
            counted = {name: number for name, number in sorted(calls.by_room.items()) if name != "testing"}
            print(json.dumps({"objects": options.objects, "requests": requests, "calls": counted}))


if __name__ == "__main__":
    main()
