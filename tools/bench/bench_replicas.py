"""Replicas: what each of 1, 2, 4 and 8 replicas costs in each sharding mode, on the stand-in of the API server, and a hand-over.

Each replica is a process (`shard_replica.py`) that copies ConfigMaps into Secrets. The main figures are CPU for a changed object, of all
replicas and of the busiest, memory, and bytes of bodies by replica, which the stand-in counts; they hold on a loaded machine too. The
seconds are an indication: eight processes and their server share the cores of one machine.

The hand-over is a replica that joins others who own all objects and only read them, until it has its share. Half an hour at full size.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from peers import building, machine
from peers.cluster import MERGE, Cluster, cluster, gathered
from rows import QUICK, Figures, Row
from shard_replica import NAMESPACE, encoded

from konverge.clock import monotonic

BY_NAME_ONLY = True

OBJECTS = 60 if QUICK else 2_000
BODY = 5_000
"""Bytes of the data of an object."""
REPLICAS = (2,) if QUICK else (2, 4, 8)
MODES = ("hash", "coordinator", "ordinal")
HANDED = 60 if QUICK else 100_000
SENDERS = 16
PATIENCE = 1_500.0
MAPS, SECRETS = (f"/api/v1/namespaces/{NAMESPACE}/{plural}" for plural in ("configmaps", "secrets"))
_COUNT = re.compile(r'standin_client_(\w+)_total\{client="-(\S+)"\} (\d+)')


class _Replicas:
    """The replicas of one measurement, each with a token by which the stand-in counts its bytes."""

    def __init__(self, made: Cluster, folder: Path, mode: str, work: str) -> None:
        self._made, self._folder, self._mode, self._work = made, folder, mode, work
        self.processes: dict[str, Process] = {}
        self._mount = folder / "mount"

    async def start(self, name: str) -> None:
        if not self._mount.exists():
            await self._made.server.account_files(self._mount)
        server = f"https://{self._made.server.host}:{self._made.server.port}"
        user = {"token": f"{(self._mount / 'token').read_text()}-{name}"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "b", "cluster": {"server": server, "certificate-authority": str(self._mount / "ca.crt")}}
            ],
            "users": [{"name": "b", "user": user}],
            "contexts": [{"name": "b", "context": {"cluster": "b", "user": "b", "namespace": NAMESPACE}}],
            "current-context": "b",
        }
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_text(json.dumps(document))
        words = (str(Path(__file__).with_name("shard_replica.py")), str(path), self._mode, name, self._work)
        errors = DEVNULL if "BENCH_ERRORS" not in os.environ else None
        self.processes[name] = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdin=PIPE, stdout=PIPE, stderr=errors
        )

    async def used(self) -> dict[str, dict[str, float]]:
        """The usage of each replica: its own report, and what the stand-in has counted."""
        found: dict[str, dict[str, float]] = {}
        for name, process in self.processes.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"\n")
            line = await process.stdout.readline()
            if not line:
                raise RuntimeError(f"replica {name} ended")
            found[name] = json.loads(line)
        async with self._made.session.get("/metrics", raise_for_status=True) as answer:
            for what, name, number in _COUNT.findall(await answer.text()):
                found[name][what] = float(number)
        return found

    async def owning(self, count: int) -> None:
        """Wait until every replica has objects, and together they own so many."""
        async with asyncio.timeout(PATIENCE):
            while True:
                owned = [each["owned"] for each in (await self.used()).values()]
                if min(owned) > 0 and sum(owned) == count:
                    return
                await asyncio.sleep(0.25)

    async def end(self) -> None:
        for process in self.processes.values():
            assert process.stdin is not None
            process.stdin.close()
        await asyncio.gather(*(process.wait() for process in self.processes.values()))


@contextlib.asynccontextmanager
async def _replicas(program: Path, mode: str, work: str, members: int) -> AsyncIterator[tuple[Cluster, _Replicas]]:
    async with cluster(warm=0, program=program) as made:
        await made.send(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        stateful = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "bench"},
            "spec": {"replicas": members},
        }
        await made.send("POST", f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets", stateful)
        with tempfile.TemporaryDirectory(prefix="konverge-replicas-") as folder:
            replicas = _Replicas(made, Path(folder), mode, work)
            try:
                yield made, replicas
            finally:
                await replicas.end()


def _config(number: int, body: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"source-{number}"},
        "data": {"v": "1", "body": body},
    }


async def _copied(made: Cluster, value: str) -> None:
    """Wait until the copy of each object has this value."""
    wanted = encoded(value)
    async with asyncio.timeout(PATIENCE):
        while sum(each["data"]["v"] == wanted for each in (await made.send("GET", SECRETS))["items"]) < OBJECTS:
            await asyncio.sleep(0.25)


async def _throughput(program: Path, mode: str, members: int) -> list[Row]:
    """Change each object once under some replicas."""
    async with _replicas(program, mode, "copy", members) as (made, replicas):
        for number in range(members):
            await replicas.start(f"bench-{number}")
        await gathered((made.send("POST", MAPS, _config(number, "x" * BODY)) for number in range(OBJECTS)), SENDERS)
        await _copied(made, "1")
        # Without a ring a replica counts its cache, which has all objects.
        await replicas.owning(OBJECTS * (members if mode in ("off", "ordinal") else 1))
        before, served, began = await replicas.used(), machine.cpu_seconds(made.server.pids()), monotonic()
        patches = (
            made.send("PATCH", f"{MAPS}/source-{number}", {"data": {"v": "2"}}, as_=MERGE) for number in range(OBJECTS)
        )
        await gathered(patches, SENDERS)
        await _copied(made, "2")
        seconds, served = monotonic() - began, machine.cpu_seconds(made.server.pids()) - served
        after = await replicas.used()
    differ = [{figure: after[name][figure] - before[name].get(figure, 0.0) for figure in after[name]} for name in after]
    how = f"{OBJECTS:,} objects of {BODY / 1000:g} kB, each changed once; load of the machine {os.getloadavg()[0]:.1f}"
    rows = Figures(f"{mode}, replicas: {members}", how)
    rows.add("CPU of all", 1000 * sum(each["cpu"] for each in differ) / OBJECTS, "ms/object")
    rows.add(
        "CPU of the busiest",
        1000 * max(each["cpu"] for each in differ) / OBJECTS,
        "ms/object",
        remark="its inverse bounds the rate",
    )
    rows.add("bytes to each", sum(each["sent_bytes"] for each in differ) / members / OBJECTS, "bytes/object")
    rows.add("bytes from each", sum(each["received_bytes"] for each in differ) / members / OBJECTS, "bytes/object")
    rows.add("requests of all", sum(each["requests"] for each in differ) / OBJECTS, "1/object")
    rows.add("memory of the largest", max(each["rss"] for each in after.values()), "MiB")
    rows.add("objects cached whole by the one with the most", max(each["whole"] for each in after.values()), "1")
    rows.add("CPU of the server", 1000 * served / OBJECTS, "ms/object")
    rows.add("objects in a second", OBJECTS / seconds, "1/s", remark="an indication: all processes share the cores")
    return rows


async def _hand_over(program: Path, mode: str) -> list[Row]:
    """A third replica joins two that own all objects."""
    async with _replicas(program, mode, "none", 3) as (made, replicas):
        asked = {
            "group": "",
            "version": "v1",
            "plural": "configmaps",
            "manager": "bench",
            "count": HANDED,
            "namespaces": 1,
        }
        source = {"metadata": {"namespace": NAMESPACE}, "data": {"v": "1"}}
        await made.send("POST", "/copies", {**asked, "object": source})
        for number in range(2):
            await replicas.start(f"bench-{number}")
        began = monotonic()
        await replicas.owning(HANDED)
        claimed = monotonic() - began
        before, began = await replicas.used(), monotonic()
        await replicas.start("bench-2")
        await replicas.owning(HANDED)
        seconds, after = monotonic() - began, await replicas.used()
    moved = after["bench-2"]["owned"]
    figures = {
        name: sum(each[name] for each in after.values()) - sum(each[name] for each in before.values())
        for name in ("cpu", "requests")
    }
    rows = Figures(
        f"{mode}, hand-over",
        f"{HANDED:,} objects, a third replica joins two; load of the machine {os.getloadavg()[0]:.1f}",
    )
    rows.add("first owner of all objects", claimed, "s", remark="two replicas start")
    rows.add("moved", moved, "objects")
    rows.add("from the start of the replica until it has its share", seconds, "s")
    rows.add("CPU of all for a moved object", 1000 * figures["cpu"] / moved, "ms/object")
    rows.add("requests of all for a moved object", figures["requests"] / moved, "1/object")
    rows.add("memory of the replica that joined", after["bench-2"]["rss"], "MiB")
    return rows


async def _measured(program: Path, names: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for mode, members in (("off", 1), *((mode, members) for mode in MODES for members in REPLICAS)):
        if mode in names:
            print(f"{mode}, {members} replicas", flush=True)
            rows += await _throughput(program, mode, members)
    for mode in ("hash", "coordinator"):
        if f"{mode}-hand-over" in names:
            print(f"{mode}, hand-over of {HANDED:,} objects", flush=True)
            rows += await _hand_over(program, mode)
    return rows


def run() -> list[Row]:
    """Measure all modes and hand-overs, or those that the variable SHARDS names ("off hash hash-hand-over")."""
    programs = building.programs({building.STAND_IN}, os.environ, lambda words: print(words, file=sys.stderr))
    if building.STAND_IN not in programs:
        return []
    names = os.environ.get("SHARDS", " ".join(("off", *MODES, "hash-hand-over", "coordinator-hand-over"))).split()
    return asyncio.run(_measured(programs[building.STAND_IN], names))
