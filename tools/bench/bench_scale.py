"""Scale: what a start costs by the number of objects, kinds, namespaces and watches, on the stand-in of the API server.

Every object is in step, so a contestant only fills its caches and reconciles each object once without a write. The last row of an axis is
the exponent of growth: 1 is in proportion, 0 is constant. The stand-in's own rate is measured first. Rows and plots of growth are
written to build/scale/. Variables: SCALE names axes ("objects kinds"), SCALE_OF contestants ("konverge kube-rs").
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scale_plots
from peers import building, machine, scrape
from peers.cluster import Cluster, cluster
from peers.contestants import BY_NAME, Contestant
from peers.objects import CRD, GROUP, NAMESPACE, VERSION, item, status_intent
from peers.protocol import environment
from peers.running import running
from rows import QUICK, Row, row

BY_NAME_ONLY = True

HERE = Path(__file__).resolve().parent
PATIENCE = 540.0
SETTLE = 1.0 if QUICK else 5.0
RATE_SECONDS = 1 if QUICK else 5
CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Point:
    """One start. `objects` are of all kinds together."""

    objects: int = 10_000
    namespaces: int = 1
    kinds: int = 1
    watches: int = 1


AXES: Mapping[str, tuple[Point, ...]] = (
    {"objects": (Point(50), Point(100)), "kinds": (Point(60, kinds=3),), "namespaces": (Point(60, namespaces=10),), "watches": (Point(60, watches=3),)}
    if QUICK
    else {
        "objects": tuple(Point(number) for number in (1_000, 2_000, 10_000, 20_000, 100_000)),
        "kinds": tuple(Point(kinds=number) for number in (1, 10, 50)),
        "namespaces": tuple(Point(namespaces=number) for number in (1, 100, 5_000)),
        "watches": tuple(Point(watches=number) for number in (1, 3, 10)),
    }
)  # fmt: skip
FIGURES = {"cpu": "s", "memory": "MiB", "synced": "s", "longest turn until ready": "ms", "longest turn": "ms"}
OURS = ("konverge", "konverge-speed")
OTHERS = {
    "objects": ("bare-loop", "cr-unstructured", "cr-typed", "kube-rs"),
    "namespaces": ("cr-unstructured", "cr-typed"),
}
"""Other contestants by axis. Only ours has a form with several kinds or watches; kopf takes hours at 100,000 objects."""
MEMORY = {2_000: "<= 50", 20_000: "<= 120", 100_000: "<= 450"}
TURN = "<= 10"
INTO = Path(__file__).resolve().parents[2] / "build" / "scale"


def exponent(sizes: list[int], values: list[float]) -> float:
    """The exponent of growth: the slope of a line through the logarithms, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(value, 1e-9)) for value in values]
    middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
    below = sum((x - middle) ** 2 for x in xs)
    return sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True)) / below


async def _fill(testbed: Cluster, point: Point) -> None:
    """Create the objects of a point in step, in their kinds and namespaces."""
    for number in range(1, point.namespaces):
        name = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{NAMESPACE}-{number}"}}
        await testbed.send("POST", "/api/v1/namespaces", name)
    wanted = item(1, NAMESPACE)
    wanted["metadata"]["labels"] |= {f"watch-{number}": "yes" for number in range(1, point.watches)}
    status = status_intent("", 1)["status"]
    for number in range(point.kinds):
        plural, kind = (f"item{number}s", f"Item{number}") if number else ("items", "Item")
        if number:
            names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
            crd = {**CRD, "metadata": {"name": f"{plural}.{GROUP}"}, "spec": {**CRD["spec"], "names": names}}
            await testbed.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        asked = {"group": GROUP, "version": VERSION, "plural": plural, "manager": "peer", "status": status}
        counts = {"count": point.objects // point.kinds, "namespaces": point.namespaces}
        await testbed.send("POST", "/copies", {**asked, **counts, "object": {**wanted, "kind": kind}})


async def _start(programs: Mapping[str, Path], contestant: Contestant, point: Point) -> dict[str, float]:
    """Start a contestant on a point; returns its figures, and its writes, of which there should be none."""
    async with cluster(warm=0, program=programs[building.STAND_IN]) as testbed:
        await _fill(testbed, point)
        with tempfile.TemporaryDirectory(prefix="konverge-scale-") as scratch:
            kubeconfig, mount = await testbed.account(Path(scratch), None)
            told = environment(
                os.environ,
                kubeconfig=kubeconfig,
                mount=mount,
                address=(testbed.server.host, testbed.server.port),
                namespace="" if point.namespaces > 1 else NAMESPACE,
                workers=10,
                owners=False,
                extra={
                    **contestant.extra,
                    "PEER_KINDS": str(point.kinds),
                    "PEER_WATCHES": str(point.watches),
                    "PEER_STALLS": "1",
                },
            )
            before = await testbed.counted()
            async with running(contestant.command(programs), told, HERE, Path(scratch) / "log") as peer:
                synced = await peer.ready(PATIENCE)
                assert synced is not None
                starting = (await peer.stats()).turn_ms
                peer.begin_stalls()
                used = -1.0
                while peer.cpu() - used > 0.05 * SETTLE:  # until it has reconciled each object
                    used = peer.cpu()
                    await asyncio.sleep(SETTLE)
                stats = await peer.stats()
                figures = {"synced": synced, "cpu": peer.cpu(), "memory": peer.memory().peak}
                figures["writes"] = scrape.writes(before, await testbed.counted())
                turns = {"longest turn until ready": starting, "longest turn": stats.turn_ms}
                return figures | {name: value for name, value in turns.items() if value is not None}


async def _rate(program: Path) -> list[Row]:
    """Measure the stand-in: status applies a second over some connections, and its CPU for each."""
    async with cluster(warm=0, program=program) as testbed:
        await _fill(testbed, Point(objects=CONNECTIONS))
        with tempfile.TemporaryDirectory(prefix="konverge-scale-") as scratch:
            _, mount = await testbed.account(Path(scratch), None)
            used = machine.cpu_seconds(testbed.server.pids())
            words = (str(mount), str(testbed.server.port), str(RATE_SECONDS), str(CONNECTIONS))
            load = await asyncio.create_subprocess_exec(str(program), "load", *words, stdout=asyncio.subprocess.PIPE)
            output, _ = await load.communicate()
            used = machine.cpu_seconds(testbed.server.pids()) - used
    report = json.loads(output)
    assert report["refused"] == 0
    assert report["events"] >= report["applies"]
    applies = report["applies"]
    print(f"stand-in: {applies / RATE_SECONDS:.0f} applies/s, {applies / used:.0f} for a second of its CPU", flush=True)
    how = f"{CONNECTIONS} connections for {RATE_SECONDS} s from a process beside it, with a watch; load of the machine {os.getloadavg()[0]:.1f}"
    target = None if QUICK else ">= 20000"
    return [
        row("stand-in: status applies", applies / RATE_SECONDS, "applies/s", how, target),
        row("stand-in: status applies for a second of its CPU", applies / used, "applies/s", how, target),
        row("stand-in: CPU for an apply", used / applies * 1e6, "us", how),
        row("load generator: CPU for an apply", report["cpu"] / applies * 1e6, "us", how),
    ]


def _target(name: str, axis: str, size: int, figure: str) -> str | None:
    """The target of one of our figures."""
    if QUICK or name not in OURS:
        return None
    return TURN if figure == "longest turn" else MEMORY.get(size) if (axis, figure) == ("objects", "memory") else None


async def _axis(programs: Mapping[str, Path], contestant: Contestant, axis: str) -> list[Row]:
    rows: list[Row] = []
    sizes = [getattr(point, axis) for point in AXES[axis]]
    measured = []
    for point in AXES[axis]:
        measured.append(await _start(programs, contestant, point))
        figures = ", ".join(f"{name} {value:.4g}" for name, value in measured[-1].items())
        print(f"{contestant.name}, {getattr(point, axis):,} {axis}: {figures}", flush=True)
    for figure, unit in FIGURES.items():
        if any(figure not in each for each in measured):
            continue
        for size, each, point in zip(sizes, measured, AXES[axis], strict=True):
            how = f"{point.objects:,} objects of 2 KB in step, {each['writes']:g} writes; load of the machine {os.getloadavg()[0]:.1f}"
            target = _target(contestant.name, axis, size, figure)
            rows.append(row(f"{contestant.name}, {size:,} {axis}: {figure}", each[figure], unit, how, target))
        if len(sizes) > 1:
            growth = exponent(sizes, [each[figure] for each in measured])
            rows.append(row(f"{contestant.name}, {axis}: exponent of {figure}", growth, "power", f"from {sizes}"))
    return rows


async def _measured(programs: Mapping[str, Path]) -> list[Row]:
    rows: list[Row] = await _rate(programs[building.STAND_IN])
    axes = os.environ.get("SCALE", " ".join(AXES)).split()
    names = os.environ.get("SCALE_OF", " ".join(BY_NAME)).split()
    for axis in (each for each in AXES if each in axes):
        for contestant in (BY_NAME[name] for name in (*OURS, *OTHERS.get(axis, ())) if name in names):
            if contestant.made in programs:
                rows += await _axis(programs, contestant, axis)
    INTO.mkdir(parents=True, exist_ok=True)
    (INTO / "scale.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    print(f"rows and plots are in {INTO}:", *(path.name for path in scale_plots.write(rows, INTO)), flush=True)
    return rows


def run() -> list[dict[str, Any]]:
    """Measure every axis (or those that the variable SCALE names) and return one row per figure."""
    wanted = {building.STAND_IN, building.PYTHON} | (set() if QUICK else {"go", "rust"})  # their builds take minutes
    programs = building.programs(wanted, os.environ, lambda words: print(words, file=sys.stderr))
    if building.STAND_IN not in programs:
        return []
    return asyncio.run(_measured(programs))
