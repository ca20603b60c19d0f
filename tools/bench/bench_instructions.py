"""The instructions that konverge executes for one changed object and for one repaired child, counted by valgrind (callgrind) on the
stand-in of the API server.

Instructions hardly depend on what else the machine does: two runs differ by 1 %, where CPU times of the same runs differ by a third. So
they show whether a change made konverge cheaper. They cannot replace times: in a nanosecond a decoder in C executes more of them than an
interpreter. The periodic work of the measured seconds is counted too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from peers import building, scrape
from peers.cluster import MERGE, Cluster, cluster, gathered
from peers.contestants import BY_NAME, Contestant
from peers.objects import ITEMS, NAMESPACE, item, item_name
from peers.phases import CHILDREN
from peers.protocol import environment
from peers.running import running
from rows import QUICK, Row, row

BY_NAME_ONLY = True

HERE = Path(__file__).resolve().parent
STORM, OWNERS, REPAIRS = (20, 2, 4) if QUICK else (500, 10, 100)
PATIENCE = 540.0
STEP = 2.5
PAUSE = 0.4
"""Seconds between two repairs: valgrind makes a program slower by about fifty times."""
CONTESTANTS = ("konverge", "konverge-speed", "bare-loop")

Work: TypeAlias = Callable[[Cluster], Awaitable[None]]


async def _change_all(testbed: Cluster) -> None:
    """Change every item once."""
    path = ITEMS.format(NAMESPACE)
    change = {"spec": {"revision": 2}}
    await gathered(
        (testbed.send("PATCH", f"{path}/{item_name(number)}", change, as_=MERGE) for number in range(STORM)), 10
    )


async def _break_children(testbed: Cluster) -> None:
    """Delete and edit children by hand, one after the other, so that each is repaired alone."""
    for number in range(REPAIRS):
        child = f"{item_name(number % OWNERS)}-{number // OWNERS % CHILDREN:02}"
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{child}"
        if number % 2:
            await testbed.send("DELETE", path)
        else:
            await testbed.send("PATCH", path, {"data": {"value": f"edited {number}"}}, as_=MERGE)
        await asyncio.sleep(PAUSE)


async def _settled(testbed: Cluster, before: Counter[scrape.Request], least: int) -> None:
    """Wait until so many writes were made, and no more come."""
    last = -1
    async with asyncio.timeout(PATIENCE):
        while True:
            writes = scrape.writes(before, await testbed.counted())
            if writes == last and writes >= least:
                return
            last = writes
            await asyncio.sleep(STEP)


def _control(pid: int, verb: str) -> None:
    subprocess.run(["callgrind_control", verb, str(pid)], check=True, stdout=subprocess.DEVNULL)


def _total(profile: Path) -> int:
    """The instructions of a profile."""
    lines = profile.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("summary:"))


async def _counted(programs: Mapping[str, Path], contestant: Contestant, owners: bool, work: Work) -> float:
    """Start a contestant under valgrind, let it converge, and return the instructions of the work, all together."""
    objects, own_writes, expected = (
        (OWNERS, OWNERS * (CHILDREN + 1), 2 * REPAIRS) if owners else (STORM, STORM, 2 * STORM)
    )
    async with cluster(warm=0, program=programs[building.STAND_IN]) as testbed:
        path = ITEMS.format(NAMESPACE)
        await gathered((testbed.send("POST", path, item(number, NAMESPACE)) for number in range(objects)), 10)
        with tempfile.TemporaryDirectory(prefix="konverge-instructions-") as scratch:
            folder = Path(scratch)
            kubeconfig, mount = await testbed.account(folder, None)
            told = environment(
                os.environ,
                kubeconfig=kubeconfig,
                mount=mount,
                address=(testbed.server.host, testbed.server.port),
                namespace=NAMESPACE,
                workers=10,
                owners=owners,
                extra={**contestant.extra, "PYTHONHASHSEED": "0"},
            )
            command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'profile'}"]
            before = await testbed.counted()
            async with running([*command, *contestant.command(programs)], told, HERE, folder / "log") as peer:
                await peer.ready(PATIENCE)
                await _settled(testbed, before, own_writes)
                _control(peer.process.pid, "--zero")
                before = await testbed.counted()
                await work(testbed)
                await _settled(testbed, before, expected)
                _control(peer.process.pid, "--dump")
            return _total(folder / "profile.1")


async def _measured(programs: Mapping[str, Path]) -> list[Row]:
    rows = []
    for contestant in (BY_NAME[name] for name in CONTESTANTS):
        storm = await _counted(programs, contestant, False, _change_all)
        how = f"{STORM} objects of 2 KB, each changed once, 10 at once, on the stand-in"
        rows.append(row(f"{contestant.label}: instructions for a changed object", storm / STORM, "instructions", how))
        if contestant.owns:
            repairs = await _counted(programs, contestant, True, _break_children)
            how = f"{REPAIRS} children of {OWNERS} owners with {CHILDREN} children each, broken one after the other, on the stand-in"
            rows.append(row(f"{contestant.label}: instructions for a repair", repairs / REPAIRS, "instructions", how))
        print(f"{contestant.label} is counted", flush=True)
    return rows


def run() -> list[Row]:
    """Count the instructions of konverge and of the bare loop; nothing without valgrind or Go."""
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed", file=sys.stderr)
        return []
    wanted = {building.STAND_IN, building.PYTHON}
    programs = building.programs(wanted, os.environ, lambda words: print(words, file=sys.stderr))
    return asyncio.run(_measured(programs)) if wanted <= programs.keys() else []
