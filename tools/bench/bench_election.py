"""Leader election: the gap in the work when a leader stops or dies, and the cost of a standby beside its leader.

Replicas of the smallest operator (`tests/support/copy_operator.py`) run as processes on a real kube-apiserver with the default times (15, 10
and 2 s). A hand-over is measured from the signal to the first effect of the new leader, on an object that was created at that moment.
"""

import asyncio
import statistics
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from fleet import Fleet, Member
from harness import on_control_plane
from peers.machine import cpu_seconds, memory, tree
from rows import QUICK, Row, row
from widgets import CONFIG_MAP, SECRET

from konverge.client import Client, ClientConfig
from konverge.clock import monotonic
from konverge.errors import NotFound
from konverge_testing import ControlPlane, ControlPlaneConfig

ROUNDS: Final = 2 if QUICK else 10
IDLE: Final = 5.0 if QUICK else 60.0
DEFAULTS: Final = (15.0, 10.0, 2.0)
NAMESPACE: Final = "election"


def run() -> list[Row]:
    """Measure everything and return one row per figure; none without a control plane."""
    return on_control_plane(_measured)


async def _measured() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with ControlPlane(ControlPlaneConfig(audit=True)) as plane:
            return await _measure(plane, Path(folder))


async def _measure(plane: ControlPlane, folder: Path) -> list[Row]:
    await plane.create_namespace(NAMESPACE)
    fleet = Fleet(plane, NAMESPACE, folder, lease=DEFAULTS)
    released, killed = list[float](), list[float]()
    async with (
        Client(await ClientConfig.from_kubeconfig(plane.kubeconfig), name="bench") as client,
        AsyncExitStack() as stack,
    ):
        await stack.enter_async_context(fleet.member("r0"))
        await stack.enter_async_context(fleet.member("r1"))
        rows = await _at_rest(fleet)
        for number in range(ROUNDS):
            for way, times in (("stop", released), ("kill", killed)):
                leader = await _leader(fleet)
                name = f"source-{way}-{number}"
                began = monotonic()
                ending = asyncio.create_task(leader.operator.stop() if way == "stop" else _kill(leader))
                await client.create(CONFIG_MAP.new(name, NAMESPACE, data={"value": "1"}))
                await _copied(client, name)
                times.append(monotonic() - began)
                await ending
                fleet.members.pop(leader.name)
                await stack.enter_async_context(fleet.member(f"r{2 * number + 2 + (way == 'kill')}"))
    how = f"median of {ROUNDS}, to the first effect of the successor"
    return [
        *rows,
        row("hand-over by a stop", statistics.median(released), "s", how, "<= 3"),
        row("hand-over by a stop, longest", max(released), "s", how),
        row("take-over after a kill", statistics.median(killed), "s", how, "<= 20"),
        row("take-over after a kill, longest", max(killed), "s", how, "<= 20"),
    ]


async def _at_rest(fleet: Fleet) -> list[Row]:
    """Measure the CPU and memory of leader and standby while nothing changes."""
    leader = await _leader(fleet)
    rows = []
    for role, member in (
        ("leader", leader),
        ("standby", next(item for item in fleet.members.values() if item is not leader)),
    ):
        assert member.operator.process is not None
        pids = tree(member.operator.process.pid)
        before = cpu_seconds(pids)
        await asyncio.sleep(IDLE)
        used = (cpu_seconds(pids) - before) / IDLE * 1000
        rows += [
            row(f"CPU of the {role} at rest", used, "ms/s", f"over {IDLE:g} s"),
            row(f"memory of the {role}", memory(pids).now, "MiB", "resident"),
        ]
    return rows


async def _leader(fleet: Fleet) -> Member:
    while True:
        for member in list(fleet.members.values()):
            if member.operator.running and await fleet.leads(member):
                return member
        await asyncio.sleep(0.05)


async def _kill(member: Member) -> int:
    member.operator.kill()
    return await member.operator.ended()


async def _copied(client: Client, name: str) -> None:
    while True:
        try:
            await client.get(SECRET, f"copy-of-{name}", NAMESPACE)
        except NotFound:
            await asyncio.sleep(0.01)
        else:
            return
