"""The parts of a run: each does its work from outside, waits for the outcome, and returns plain figures.

A figure that does not exist for a contestant is None; latencies are in milliseconds, memory is in MiB, the rest in seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

from aiohttp import ClientResponseError
from peers.bystander import Bystander
from peers.cluster import MERGE, Cluster, gathered
from peers.machine import busy_seconds, cpu_seconds
from peers.objects import ITEMS, NAMESPACE, in_step, item, item_name
from peers.observer import Items, Maps
from peers.pacing import at_rate
from peers.plan import Session
from peers.running import Running
from peers.statistics_of import percentile

from konverge.clock import monotonic

Figures: TypeAlias = dict[str, Any]

PATH = ITEMS.format(NAMESPACE)
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
CREATING, STORMING = 32, 32
CHILDREN = 20
OVERLOADED = (429, 504)
"""The status codes of an overloaded server: under a load of fixed rate they are a result, not a failure."""
SEED = 20


class Foreign:
    """The CPU that processes other than the named processes use from now on."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self._pids = pids
        self._ours = {pid: cpu_seconds([pid]) for pid in pids()}
        self._busy, self._begun = busy_seconds(), monotonic()

    def so_far(self) -> tuple[float, float, float]:
        """Busy seconds of the machine, busy seconds of our processes, and elapsed seconds."""
        ours = sum(cpu_seconds([pid]) - self._ours.get(pid, 0.0) for pid in self._pids())
        return busy_seconds() - self._busy, ours, monotonic() - self._begun


async def fill(cluster: Cluster, session: Session) -> int:
    """Create the objects that a contestant finds; returns the bytes of one as stored."""
    numbers = range(session.count)
    await gathered((cluster.send("POST", PATH, item(number, NAMESPACE)) for number in numbers), CREATING)
    async with cluster.session.get(f"{PATH}/{item_name(0)}", raise_for_status=True) as answer:
        return len(await answer.read())


async def cold(peer: Running, items: Items, session: Session) -> Figures:
    """From the start of the process until all existing objects are in step; the wait began before the start."""
    synced = await peer.ready(session.patience)
    done = await peer.alive_during(items.all_done(session.patience), session.patience)
    cpu = peer.cpu()
    seconds = done - peer.started
    await asyncio.sleep(session.settle_seconds)
    memory = peer.memory()
    writing = max(items.seen.values()) - min(items.seen.values())
    # The name of each figure is its column in the report.
    return {
        "seconds": seconds,
        "synced": synced,
        "rate": (session.count - 1) / writing if writing else None,
        "cpu": cpu,
        "cpu_ms_per_object": cpu / session.count * 1000,
        "peak_mib": memory.peak,
        "steady_mib": memory.now,
    }


async def storm(cluster: Cluster, peer: Running, items: Items, session: Session) -> Figures:
    """Change every object as fast as the server takes it; from the first change until all are in step again."""
    used, began = peer.cpu(), monotonic()

    async def change(number: int) -> None:
        name = item_name(number)
        answer = await cluster.send("PATCH", f"{PATH}/{name}", {"spec": {"revision": 1_000}}, as_=MERGE)
        generation = answer["metadata"]["generation"]
        items.wait_for({name: generation} if items.observed.get(name, 0) < generation else {})

    await gathered((change(number) for number in range(session.count)), STORMING)
    sent = monotonic()
    await peer.alive_during(items.all_done(session.patience), session.patience)
    cpu = peer.cpu() - used
    return {
        "seconds": max(items.seen.values()) - began,
        "sent": sent - began,
        "cpu": cpu,
        "cpu_ms_per_object": cpu / session.count * 1000,
    }


async def open_loop(
    cluster: Cluster, peer: Running, items: Items, session: Session, bystander: Bystander, rate: float, revision: int
) -> Figures:
    """Change objects at a fixed rate, whatever the contestant does; the latency of each change as an outside observer sees it."""
    items.latencies.clear()
    peer.begin_stalls()
    bystander.begin()
    used, refused = peer.cpu(), 0

    async def change(number: int) -> None:
        nonlocal refused
        name = item_name(number % session.count)
        patch = {"spec": {"revision": revision + number}}
        try:
            answer = await cluster.send("PATCH", f"{PATH}/{name}", patch, as_=MERGE)
        except ClientResponseError as error:
            if error.status not in OVERLOADED:
                raise
            refused += 1
            return
        items.mark(name, answer["metadata"]["generation"], monotonic())

    total = int(rate * session.load_seconds)
    paced = await at_rate(change, total, rate)
    backlog = items.open_marks
    cpu = peer.cpu() - used
    stats, bystander_ms = await peer.stats(), await bystander.longest()
    await _drained(lambda: items.open_marks)
    await _at_rest(cluster, session)
    return {
        **_latencies(items.latencies),
        "changes": paced.begun,
        "achieved": paced.achieved,
        "late_ms": paced.late * 1000,
        "cut": paced.cut,
        "backlog": backlog,
        "lost": items.open_marks,
        "refused": refused,
        "keeps_up": backlog <= rate and items.open_marks == 0 and not refused and not paced.cut,
        "cpu": cpu,
        "stall_ms": stats.stall_ms,
        "work_ms": stats.work_ms,
        "turn_ms": stats.turn_ms,
        "bystander_ms": bystander_ms,
    }


async def restarted(peer: Running, session: Session) -> Figures:
    """A contestant's start on a converged world: seconds until it is ready; the server counts its writes."""
    synced = await peer.ready(session.patience)
    await asyncio.sleep(session.settle_seconds * 2)
    return {"synced": synced, "cpu": peer.cpu()}


async def idle(peer: Running, session: Session) -> Figures:
    """The cost of a time without changes."""
    used, began = peer.cpu(), monotonic()
    await asyncio.sleep(session.idle_seconds)
    share = (peer.cpu() - used) / (monotonic() - began)
    memory = peer.memory()
    return {"memory_mib": memory.now, "peak_mib": memory.peak, "cpu_percent": share * 100}


def children(session: Session) -> list[str]:
    """The names of all children."""
    return [f"{item_name(number)}-{child:02d}" for number in range(session.count) for child in range(CHILDREN)]


async def repairs(cluster: Cluster, peer: Running, maps: Maps, session: Session) -> Figures:
    """Edit and delete children by hand, at a fixed rate, each at most once; the latency until each is as it was."""
    chosen = iter(Random(SEED).sample(children(session), session.repairs))
    names: Iterator[tuple[int, str]] = enumerate(chosen)
    maps.latencies.clear()
    used = peer.cpu()

    async def harm(_: int) -> None:
        number, name = next(names)
        if number % 2:
            answer = await cluster.send("PATCH", f"{MAPS}/{name}", {"data": {"value": "by hand"}}, as_=MERGE)
            version = int(answer["metadata"]["resourceVersion"])
        else:
            version = maps.good[name][0]
            await cluster.send("DELETE", f"{MAPS}/{name}")
        maps.mark(name, version, monotonic())

    await at_rate(harm, session.repairs, session.repair_rate)
    await _drained(lambda: maps.open_marks)
    return {**_latencies(maps.latencies), "repairs": session.repairs, "lost": maps.open_marks, "cpu": peer.cpu() - used}


async def _drained(left: Callable[[], int], seconds: float = 30.0) -> None:
    """Wait for the last outcomes; an outcome that misses this deadline is lost."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while left() and loop.time() < deadline:
        await asyncio.sleep(0.02)


async def _at_rest(cluster: Cluster, session: Session) -> None:
    """Wait until every object is in step, including objects of abandoned changes: the next part begins with a converged world.

    If a contestant does not converge, the counts of the next part show it.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(session.patience):
            while not all(map(in_step, (await cluster.send("GET", PATH))["items"])):
                await asyncio.sleep(1)


def _latencies(seconds: list[float]) -> Figures:
    if not seconds:
        return {"p50_ms": None, "p99_ms": None, "max_ms": None, "samples_ms": []}
    return {
        "p50_ms": percentile(seconds, 50) * 1000,
        "p99_ms": percentile(seconds, 99) * 1000,
        "max_ms": max(seconds) * 1000,
        "samples_ms": [round(each * 1000, 2) for each in seconds],
    }
