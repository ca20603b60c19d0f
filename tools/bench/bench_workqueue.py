"""The work queue: adds and get/done cycles per second at 10,000 and 100,000 keys, and the memory of an entry.

One process, one core, best of three rounds, in CPU time, so that a busy machine disturbs as little as possible. The shell's
figures include the event loop's clock, the core's are the bare rules.
"""

import asyncio
import gc
import math
import tracemalloc
from collections.abc import Callable
from typing import TypeAlias

from rows import Row, row

from konverge.clock import cpu_time
from konverge.workqueue import QueueCore, WorkQueue

Key: TypeAlias = tuple[str, str, str, str]

SIZES = (10_000, 100_000)
ROUNDS = 3


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    return [row for size in SIZES for row in measure(make_keys(size))]


def measure(keys: list[Key]) -> list[Row]:
    return [
        rate("core, adds", core_adds, keys, "new keys, one priority"),
        rate("core, duplicate adds", core_duplicates, keys, "every key waits already; a second reason merges in"),
        rate("core, delayed adds", core_delayed, keys, "new keys, each with a time of its own, in no order"),
        rate("core, get/done cycles", core_cycles, keys, "all keys wait; each is taken and done"),
        rate(
            "queue, add/get/done cycles",
            queue_cycles,
            keys,
            "the async shell: all keys are added, then one worker takes them",
        ),
        memory("ready entry", add_ready, keys),
        memory("delayed entry", add_delayed, keys),
    ]


def make_keys(size: int) -> list[Key]:
    """Keys as callers use them: tuples of strings that differ in the last string."""
    return [("", "thing", "place", f"name-{number}") for number in range(size)]


def core_adds(keys: list[Key]) -> float:
    core = QueueCore[Key]()
    start = cpu_time()
    for key in keys:
        core.add(key, 0.0, reason="event")
    return cpu_time() - start


def core_duplicates(keys: list[Key]) -> float:
    core = QueueCore[Key]()
    for key in keys:
        core.add(key, 0.0, reason="event")
    start = cpu_time()
    for key in keys:
        core.add(key, 0.0, reason="resync")
    return cpu_time() - start


def core_delayed(keys: list[Key]) -> float:
    core = QueueCore[Key]()
    start = cpu_time()
    for number, key in enumerate(keys):
        core.add_after(key, 1.0 + number * 7919 % 100_003, 0.0, reason="event")
    return cpu_time() - start


def core_cycles(keys: list[Key]) -> float:
    core = QueueCore[Key]()
    for key in keys:
        core.add(key, 0.0, reason="event")
    start = cpu_time()
    while (item := core.get(0.0)) is not None:
        core.done(item.key, 0.0)
    return cpu_time() - start


def queue_cycles(keys: list[Key]) -> float:
    async def cycles() -> float:
        queue = WorkQueue[Key]()
        start = cpu_time()
        for key in keys:
            queue.add(key, reason="event")
        for _ in keys:
            item = await queue.get()
            queue.forget(item.key)
            queue.done(item.key)
        return cpu_time() - start

    return asyncio.run(cycles())


def add_ready(core: QueueCore[Key], key: Key, number: int) -> None:
    core.add(key, 0.0, reason="event")


def add_delayed(core: QueueCore[Key], key: Key, number: int) -> None:
    core.add_after(key, 1.0 + number, 0.0, reason="event")


def rate(name: str, work: Callable[[list[Key]], float], keys: list[Key], how: str) -> Row:
    """Return operations per second of the best round."""
    best = math.inf
    for _ in range(ROUNDS):
        gc.collect()
        best = min(best, work(keys))
    return row(f"{name} at {len(keys):,} keys", round(len(keys) / best), "1/s", f"{how}; best of {ROUNDS}, CPU time")


def memory(name: str, add: Callable[[QueueCore[Key], Key, int], None], keys: list[Key]) -> Row:
    """Return the bytes that an entry costs, its key not counted."""
    gc.collect()
    tracemalloc.start()
    try:
        core = QueueCore[Key]()
        for number, key in enumerate(keys):
            add(core, key, number)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return row(
        f"memory per {name} at {len(keys):,} keys", round(taken / len(keys)), "B", "tracemalloc; the keys exist before"
    )


if __name__ == "__main__":
    for each in run():
        print(f"{each['name']:48} {each['value']:>12,} {each['unit']}")
