"""One replica of `bench_replicas.py` as a process of its own: it copies ConfigMaps into Secrets, and reports its usage on request.

For each line on standard input it prints a line of JSON: seconds of CPU since the start, resident memory, the objects in its cache, and the
objects that it owns. It ends when standard input does. With the work "none" it only reads.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from widgets import CONFIG_MAP, SECRET, By

import konverge as kv
from konverge.client import ClientConfig
from konverge.runtime.sharding.settings import MODES, ShardingSettings

NAMESPACE = "lab"


async def _copied(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
    await ctx.own(
        SECRET.new(f"copy-of-{object_.name}", object_.namespace, data={"v": encoded(object_.data["data"]["v"])})
    )
    return kv.Done()


async def _read(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
    return kv.Done()


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _value(object_: kv.Object) -> Iterable[tuple[str, ...]]:
    return [(str(object_.get("data", "v", default="")),)]


def _used(manager: kv.Manager) -> dict[str, float]:
    resident = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    store = manager.runner("configmap")._watches.primary.store
    cached = (store.get(*path) for path in store.keys())  # noqa: SIM118  # no dict
    whole = sum(item is not None and not item.metadata_only for item in cached)
    owned = manager.metrics.registry.get_sample_value("konverge_shard_objects", {"name": "bench"})
    figures = {
        "cpu": time.process_time(),
        "rss": int(resident.split()[1]) / 1024,
        "objects": len(store),
        "whole": whole,
    }
    return figures | {"owned": len(store) if owned is None else owned}


async def _run(kubeconfig: str, mode: Any, name: str, work: str) -> None:
    assert mode in MODES
    settings = kv.ManagerSettings(
        namespace=NAMESPACE, instance=name, sharding=ShardingSettings(mode=mode, namespace=NAMESPACE)
    )
    manager = kv.Manager("bench", await ClientConfig.from_kubeconfig(kubeconfig), settings=settings)
    described = kv.Controller.of(CONFIG_MAP).owns(SECRET).sharded().with_(concurrency=20)
    # Counted, as the objects of the daemon are: then the cache keeps only the bodies of the replica's own objects.
    described = described.counts_objects("bench_objects", "ConfigMaps by value", labels=("value",), by=_value)
    manager.add(described.reconciled_by(By(_read if work == "none" else _copied)))
    loop = asyncio.get_running_loop()
    async with manager:
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(_used(manager)), flush=True)


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
