"""Informers: initial sync and watch events per second, CPU per event, memory per object, the longest stall of the event loop.

A process replays prepared bytes over loopback HTTP (`bench_informers_server.py`): 20,000 objects of 3 KB, then one change of each. Every
round is a fresh process, so that nothing is warm and memory is its own. kubernetes_asyncio's Watch reads the same bytes in the same run.
If a control plane is installed, a second set of rows measures a real kube-apiserver.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import TypeAlias

from rows import Row, row

from konverge.client import Client, ClientConfig
from konverge.clock import cpu_time, monotonic
from konverge.informers import Change, InformerSet, InformerSettings, Selection
from konverge.kinds import kind
from konverge_testing import BinariesMissing, ControlPlane, ControlPlaneConfig

Figures: TypeAlias = dict[str, float]

COUNT = 20_000
SIZE = 3_000
ROUNDS = 3
OTHER_COUNT = 3_000
RATE, FACTOR, STALL = ">= 25000", "<= 1.6", "<= 50"

CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
HERE = Path(__file__)


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    rows: list[Row] = []
    with stub() as (url, size):
        ours = {way: rounds(way, url) for way in ("stream", "list")}
        theirs = {way: rounds(way, url) for way in ("typed", "untyped")}
    for way, name in (("stream", "WatchList"), ("list", "LIST")):
        rows += own_rows(name, ours[way], size)
    rows += other_rows(theirs, ours["stream"])
    rows += real_rows()
    return rows


def own_rows(name: str, figures: Figures, size: float) -> list[Row]:
    how = f"{COUNT:,} objects of {size / COUNT:,.0f} B from a stub process; best of {ROUNDS} fresh processes"
    wall, work = f"wall time, so a busy machine shows in it; {how}", f"CPU time of this process; {how}"
    return [
        row(f"initial sync, {name}", figures["sync_rate"], "objects/s", how + "; until the handler was told", RATE),
        row(f"initial sync, {name}: CPU", figures["sync_cpu"], "us/object", how),
        row(
            f"watch events after {name}", figures["event_rate"], "events/s", how + "; until the handler was told", RATE
        ),
        row(f"watch events after {name}: CPU", figures["event_cpu"], "us/event", how),
        row(f"memory per object after {name}", figures["memory"], "B", "resident, all that the sync added"),
        row(
            f"memory per object after {name}, relative",
            figures["memory"] * COUNT / size,
            "x raw",
            "resident, against the bytes on the wire",
            FACTOR,
        ),
        row(f"longest stall, initial sync, {name}", figures["sync_stall"], "ms", wall, STALL),
        row(f"longest work in one iteration, initial sync, {name}", figures["sync_work"], "ms", work, STALL),
        row(f"longest stall, watch events after {name}", figures["event_stall"], "ms", wall, STALL),
        row(f"longest work in one iteration, events after {name}", figures["event_work"], "ms", work, STALL),
        row(
            f"full garbage collection after {name}", figures["collection"], "ms", "CPU; what all the objects add to it"
        ),
    ]


def other_rows(theirs: dict[str, Figures], ours: Figures) -> list[Row]:
    rows = []
    for way, figures in theirs.items():
        how = f"the first {OTHER_COUNT:,} of the same events; best of {ROUNDS} fresh processes"
        rows += [
            row(f"kubernetes_asyncio Watch, {way}", figures["event_rate"], "events/s", how),
            row(f"kubernetes_asyncio Watch, {way}: CPU", figures["event_cpu"], "us/event", how),
            row(
                f"CPU of kubernetes_asyncio Watch, {way}, against ours",
                figures["event_cpu"] / ours["sync_cpu"],
                "x",
                "per initial event, cached, indexed and delivered here, only decoded there",
            ),
        ]
    return rows


def real_rows() -> list[Row]:
    """The same from a real kube-apiserver, which encodes each response again; no rows if none is installed."""
    try:
        figures = asyncio.run(real())
    except BinariesMissing as missing:
        print(f"no rows from a real server: {missing}", file=sys.stderr)
        return []
    how = f"{COUNT:,} ConfigMaps of about {SIZE:,} B on a real kube-apiserver on the same cores"
    return [
        row(f"real server, {name}", figures[key], unit, how)
        for name, key, unit in (
            ("initial sync, WatchList", "stream_rate", "objects/s"),
            ("initial sync, WatchList: CPU", "stream_cpu", "us/object"),
            ("initial sync, LIST", "list_rate", "objects/s"),
            ("initial sync, LIST: CPU", "list_cpu", "us/object"),
            ("longest stall, WatchList", "stream_stall", "ms"),
            ("longest stall, LIST", "list_stall", "ms"),
        )
    ]


# The stub


@contextlib.contextmanager
def stub() -> Iterator[tuple[str, float]]:
    """Run the stub process; give its address and the bytes of all its objects."""
    command = [sys.executable, str(HERE.with_name("bench_informers_server.py")), str(COUNT), str(SIZE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        yield url, reset(url)
        process.stdin.close()


def reset(url: str) -> float:
    with urllib.request.urlopen(f"{url}/bytes") as answer:
        return float(answer.read())


def go(url: str) -> None:
    with urllib.request.urlopen(f"{url}/go", data=b""):
        pass


def rounds(way: str, url: str) -> Figures:
    """Run fresh processes and return the best of each figure."""
    result: list[Figures] = []
    for _ in range(ROUNDS):
        reset(url)
        done = subprocess.run([sys.executable, str(HERE), way, url], stdout=subprocess.PIPE, text=True, check=True)
        result.append(json.loads(done.stdout))
    return {name: (max if name.endswith("rate") else min)(figures[name] for figures in result) for name in result[0]}


# One round


class Stalls:
    """Measures the delay of due callbacks, and the share of this process's own work in it, in milliseconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.work = 0.0

    async def watch(self) -> None:
        last, used = monotonic(), cpu_time()
        while True:
            await asyncio.sleep(0.001)
            now, spent = monotonic(), cpu_time()
            self.longest = max(self.longest, (now - last - 0.001) * 1000)
            self.work = max(self.work, (spent - used) * 1000)
            last, used = now, spent

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Stalls]:
        task = asyncio.create_task(self.watch())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def full_collection() -> float:
    """How long a full garbage collection stops everything, in milliseconds; the second collection, which finds nothing new."""
    gc.collect()
    start = cpu_time()
    gc.collect()
    return (cpu_time() - start) * 1000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def ours(way: str, url: str) -> Figures:
    """Sync, then take one change of each object."""
    told = asyncio.Event()
    changes = 0

    def handler(change: Change) -> None:
        nonlocal changes
        if not change.initial:
            changes += 1
            if changes == COUNT:
                told.set()

    settings = InformerSettings(watch_list=way == "stream")
    managers = frozenset({"konverge"})
    client = Client(ClientConfig.direct(url), name="bench")
    async with client, InformerSet(client, settings=settings, managers=managers, random=Random(1)) as informers:
        await client.raw("GET", "/bytes")  # the connection and late imports are not measured
        empty = full_collection()
        before, start, used = resident(), monotonic(), cpu_time()
        async with Stalls().running() as sync:
            informer = informers.acquire(Selection(CONFIG_MAP))
            await informer.add_handler("bench", handler).synced()
        sync_seconds, sync_cpu = monotonic() - start, cpu_time() - used
        assert len(informer.store) == COUNT
        assert informer.statistics().fallbacks == {}
        memory = (resident() - before) / COUNT
        collection = full_collection() - empty
        await asyncio.to_thread(go, url)
        start, used = monotonic(), cpu_time()
        async with Stalls().running() as events:
            await told.wait()
        event_seconds, event_cpu = monotonic() - start, cpu_time() - used
    return {
        "sync_rate": COUNT / sync_seconds,
        "sync_cpu": sync_cpu / COUNT * 1e6,
        "sync_stall": sync.longest,
        "sync_work": sync.work,
        "collection": collection,
        "event_rate": COUNT / event_seconds,
        "event_cpu": event_cpu / COUNT * 1e6,
        "event_stall": events.longest,
        "event_work": events.work,
        "memory": memory,
    }


async def theirs(way: str, url: str) -> Figures:
    """Read the events with kubernetes_asyncio's own Watch."""
    from kubernetes_asyncio import client, watch

    configuration = client.Configuration(host=url)
    async with client.ApiClient(configuration) as api:
        core = client.CoreV1Api(api)
        watcher = watch.Watch(return_type="object" if way == "untyped" else None)
        start, used, count = monotonic(), cpu_time(), 0
        async for _ in watcher.stream(core.list_config_map_for_all_namespaces, resource_version="0"):
            count += 1
            if count == OTHER_COUNT:
                break
        seconds, cpu = monotonic() - start, cpu_time() - used
        await watcher.close()
    return {"event_rate": count / seconds, "event_cpu": cpu / count * 1e6}


# The real server


async def real() -> Figures:
    async with ControlPlane(ControlPlaneConfig()) as plane:
        config = await ClientConfig.load(kubeconfig=plane.admin_kubeconfig)
        async with Client(config, name="bench") as client:
            await plane.create_namespace("bench")
            await fill(client)
        figures: Figures = {}
        for way in ("stream", "list"):
            command = [sys.executable, str(HERE), f"real-{way}", str(plane.admin_kubeconfig)]
            results = []
            for _ in range(ROUNDS):
                process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
                out, _ = await process.communicate()
                assert process.returncode == 0
                results.append(json.loads(out))
            figures[f"{way}_rate"] = max(each["rate"] for each in results)
            figures[f"{way}_cpu"] = statistics.median(each["cpu"] for each in results)
            figures[f"{way}_stall"] = min(each["stall"] for each in results)
    return figures


async def fill(client: Client) -> None:
    """Create the objects, sixteen at a time."""
    numbers = iter(range(COUNT))

    async def worker() -> None:
        for number in numbers:
            data = {f"key-{index}": "x" * (SIZE // 16 - 20) for index in range(14)}
            await client.create(CONFIG_MAP.new(f"config-{number:06d}", "bench", data=data))

    await asyncio.gather(*(worker() for _ in range(16)))


async def real_round(way: str, kubeconfig: str) -> Figures:
    config = await ClientConfig.load(kubeconfig=kubeconfig)
    settings = InformerSettings(watch_list=way == "stream")
    client = Client(config, name="bench")
    async with client, InformerSet(client, settings=settings, random=Random(1)) as informers:
        await client.raw("GET", "/version")
        start, used = monotonic(), cpu_time()
        async with Stalls().running() as stalls:
            informer = informers.acquire(Selection(CONFIG_MAP, namespace="bench"))
            await informer.add_handler("bench", lambda change: None).synced()
        seconds, cpu = monotonic() - start, cpu_time() - used
        assert len(informer.store) >= COUNT
    return {"rate": COUNT / seconds, "cpu": cpu / COUNT * 1e6, "stall": stalls.longest}


def main() -> None:
    if len(sys.argv) == 3:
        asyncio.run(one_round(*sys.argv[1:]))
        return
    for each in run():
        mark = {None: "", True: "holds", False: "MISSED"}[each["holds"]]
        print(f"{each['name']:58} {each['value']:>12,} {each['unit']:10} {mark}")


async def one_round(way: str, where: str) -> None:
    async with asyncio.timeout(120):
        if way in {"stream", "list"}:
            figures = await ours(way, where)
        elif way in {"typed", "untyped"}:
            figures = await theirs(way, where)
        else:
            figures = await real_round(way.removeprefix("real-"), where)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
