"""Replicas that share objects: the work of each added replica, the moved objects, and the cost of a move.

Replicas, API server and load are one process on a loop whose time is virtual: a reconcile takes a fixed time, so figures measure the
protocol and not this machine. The rows of 100 replicas are computed: the shares by the hash itself over a sample of objects, the writes
from the row before, which counts two writes for a move between live replicas and one write for an object of a stopped replica.

`bench_replicas.py` measures CPU, memory and bytes of each replica as processes.
"""

from __future__ import annotations

import asyncio
import uuid
from functools import partial
from random import Random
from typing import Final

from harness import virtual
from replicas import NAMESPACE
from rows import QUICK, Row, row
from shards import COORDINATOR, HASH, Shards
from widgets import CONFIG_MAP

from konverge.runtime.sharding.hashing import owner_of
from konverge.runtime.sharding.settings import ShardingSettings

OBJECTS: Final = 120 if QUICK else 1000
SAMPLE: Final = 2000 if QUICK else 20000
COST: Final = 0.5
"""Seconds of a reconcile."""
WORKERS: Final = 5
BODY: Final = 5000
"""Bytes of the data of an object whose bodies are counted."""
REPLICAS: Final = (1, 2, 4)
MANY: Final = 100
ALL: Final = 1_000_000
WRITES_PER_SECOND: Final = 500
"""Stamps that a replica writes per second, as an assumption: a Python process sends that many small patches on one core."""


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    rows = [*throughput(), *virtual(_moves), *(virtual(partial(_bodies, mode)) for mode in (HASH, COORDINATOR))]
    return rows + shares() + rolling_update()


def throughput() -> list[Row]:
    """Measure how long replicas take for one reconcile of each object."""
    seconds = {count: virtual(partial(_all_once, count)) for count in REPLICAS}
    how = f"{OBJECTS:,} objects, a reconcile takes {COST:g} s, {WORKERS} workers each; virtual time"
    first = seconds[REPLICAS[0]]
    targets = {4: None if QUICK else ">= 3.4"}
    rows = [row(f"reconciles, replicas: {count}", OBJECTS / took, "1/s", how) for count, took in seconds.items()]
    return rows + [
        row(f"times the work of one, replicas: {count}", first / took, "x", how, targets.get(count))
        for count, took in seconds.items()
        if count > 1
    ]


async def _started(shards: Shards, count: int) -> str:
    names = "abcdefgh"[:count]
    await asyncio.gather(*(shards.start(name) for name in names))
    await shards.objects(OBJECTS)
    await shards.settled(names, within=600)
    return names


async def _all_once(count: int) -> float:
    async with Shards(concurrency=WORKERS) as shards:
        owners = await shards.settled(await _started(shards, count), within=600)
        await asyncio.sleep(30)
        shards.cost = lambda: COST
        began = asyncio.get_running_loop().time()
        for name in owners:
            await shards.change(name, "2")
        await shards.all_run_by(owners, since=began, within=36000)
        assert shards.overlaps() == []
        return max(span.ended or 0.0 for span in shards.spans if span.began >= began) - began


async def _moves() -> list[Row]:
    """Count the moved objects and the writes when a fourth replica joins three and when it leaves."""
    async with Shards(concurrency=WORKERS) as shards:
        await _started(shards, 3)
        await asyncio.sleep(30)
        before, writes = await shards.stamps(), _stamps_written(shards)
        await shards.start("d")
        after = await shards.settled("abcd", within=600)
        await asyncio.sleep(10)
        moved = sum(before[name] != after[name] for name in before)
        joined = _stamps_written(shards) - writes
        writes = _stamps_written(shards)
        await shards.stop("d")
        await shards.settled("abc", within=600)
        left = _stamps_written(shards) - writes
        writes = _stamps_written(shards)
        await asyncio.sleep(3600)
        at_rest = _stamps_written(shards) - writes
    how = f"{OBJECTS:,} objects, 3 replicas; stamps that the API server has committed"
    return [
        row("moved when a fourth joins", 100 * moved / OBJECTS, "%", how, "<= 40" if QUICK else "<= 28"),
        row("writes of a move to it", joined / moved, "1", how, "<= 2"),
        row("writes of a move back when it stops", left / moved, "1", how, "<= 1"),
        row("writes in an hour at rest", at_rest, "1", how, "<= 0"),
    ]


async def _bodies(mode: ShardingSettings) -> Row:
    """Count the bytes of bodies of the shared kind in the caches of three replicas, as a share of one cache that has them all."""
    async with Shards(concurrency=WORKERS, sharding=mode) as shards:
        await asyncio.gather(*(shards.start(name) for name in "abc"))
        for number in range(OBJECTS):
            manifest = CONFIG_MAP.new(f"source-{number}", NAMESPACE, data={"value": "x" * BODY})
            await shards.client.create(manifest)
        await shards.settled("abc", within=600)
        await asyncio.sleep(30)
        stores = [replica.manager.runner("configmap")._watches.primary.store for replica in shards.replicas.values()]
        cached = [[store.get(*path) for path in store.keys()] for store in stores]  # noqa: SIM118  # no dict
        held = [sum(len(item.body) for item in of_one if item is not None) for of_one in cached]
        whole = OBJECTS * max(len(item.body) for of_one in cached for item in of_one if item is not None)
    how = f"{OBJECTS:,} objects of {BODY / 1000:g} kB, 3 replicas; the replica with the most"
    return row(f"bodies in the cache of a replica, {mode.mode}", 100 * max(held) / whole, "%", how, "<= 45")


def _stamps_written(shards: Shards) -> int:
    return sum(replica != "" and what.startswith("MODIFIED configmaps") for replica, what in _commits(shards))


def _commits(shards: Shards) -> list[tuple[str, str]]:
    return [(item.replica, item.what) for item in shards.audit]


def _uids() -> list[str]:
    random = Random(1)
    return [str(uuid.UUID(int=random.getrandbits(128))) for _ in range(SAMPLE)]


def shares() -> list[Row]:
    """Compute the evenness of the hash, and the objects that move from 3 to 4 replicas."""
    uids = _uids()
    owners = {count: [owner_of(uid, _names(count)) for uid in uids] for count in (3, 4)}
    counts = [owners[3].count(name) for name in _names(3)]
    moved = sum(first != second for first, second in zip(owners[3], owners[4], strict=True))
    how = f"the hash over {SAMPLE:,} random uids"
    return [
        row("largest share of 3, of the mean", 100 * max(counts) * 3 / SAMPLE, "%", how, None if QUICK else "<= 105"),
        row("moved from 3 to 4 by the hash", 100 * moved / SAMPLE, "%", how, "<= 28"),
    ]


def rolling_update() -> list[Row]:
    """Compute a rolling update of many replicas, one after another: a new replica joins, then an old replica is stopped."""
    uids = _uids()
    before, surged = _names(MANY), [*_names(MANY), "new"]
    gained = sum(owner_of(uid, surged) == "new" for uid in uids) / len(uids)
    lost = sum(owner_of(uid, before) == before[0] for uid in uids) / len(uids)
    step = ALL * (2 * gained + lost)
    how = f"{ALL:,} objects, {MANY} replicas; computed from a sample of {len(uids):,} uids"
    paced = f"{how}; if the replica that joins writes {WRITES_PER_SECOND} stamps in a second"
    return [
        row("rolling update: objects that move in a step", ALL * (gained + lost), "1", how),
        row("rolling update: writes of a step", step, "1", how),
        row("rolling update: writes of all steps for each object", MANY * step / ALL, "1", how),
        row("rolling update: hand-over to a replica that joins", ALL * gained / WRITES_PER_SECOND, "s", paced),
        row("rolling update: writes in a second meanwhile", 2 * WRITES_PER_SECOND, "1/s", paced),
    ]


def _names(count: int) -> list[str]:
    return [f"replica-{number}" for number in range(count)]
