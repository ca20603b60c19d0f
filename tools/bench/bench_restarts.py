"""The wait of an object while replicas are killed, crash repeatedly, or stop, and are restarted: three daemons, a real control plane.

The daemons share WorkspaceClaims in the mode `hash` with the default times. Claims are created at a fault, and repeatedly during a crash
loop; a claim has been served when a daemon has reconciled it and its status shows a phase. The start of a process is part of the wait, so a
busy machine adds to it; the longest start is a row of its own. Between two cases all claims are deleted and the Leases of dead processes
expire.
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from harness import PORTS, on_control_plane
from operators import Operator
from rows import QUICK, Row, row

from konverge.client import Client, ClientConfig
from konverge.clock import monotonic
from konverge.crds.manifest import crd
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge_testing import ControlPlane, install_crds

BY_NAME_ONLY = True
CLAIMS: Final = 20 if QUICK else 60
LOOP_SECONDS: Final = 40.0 if QUICK else 120.0
CRASH_SECONDS: Final = 18.0
"""Seconds from one crash of a replica in a crash loop to the next."""
LONGEST: Final = 180.0
"""Seconds after which a claim counts as never served."""
LIMIT: Final = 35.0
LEASE_RUNS_OUT: Final = 35.0
NAMESPACE: Final = "konverge"
NAMES: Final = "abc"
SETTINGS: Final = (
    *("--controllers", "workspaces", "--sharding", "hash"),
    *("--set", "workspaces.provider=memory", "--set", "workspaces.poll=1"),
    *("--set", f"workspaces.namespace={NAMESPACE}", "--set", f"sharding.namespace={NAMESPACE}"),
)


def run() -> list[Row]:
    """Measure each case, and return its worst and median wait, the share of late claims, and the longest start of a process."""
    return on_control_plane(_measured)


class _Daemon(Operator):
    """A replica that is restarted after its end."""

    def __init__(self, name: str, kubeconfig: Path, scratch: Path) -> None:
        variables = {"HOSTNAME": f"replica-{name}", "POD_NAME": f"replica-{name}"}
        words = (*PORTS, "--kubeconfig", str(kubeconfig), *SETTINGS)
        super().__init__(words, scratch / f"{name}.log", environment=variables)
        self._started_at = 0.0
        self.durations: list[float] = []
        """Seconds from the start of a process until it served."""

    async def start(self) -> None:
        """Start the process and the timer."""
        self._started_at = monotonic()
        await super().start()

    def note_start(self) -> None:
        """Record the duration of the start, once the log shows that the process serves."""
        if self._started_at and self.said("serving"):
            self.durations.append(monotonic() - self._started_at)
            self._started_at = 0.0

    async def end(self, number: signal.Signals) -> None:
        """End the process by this signal."""
        if self.running:
            assert self.process is not None
            os.kill(self.process.pid, number)
            await self.ended()


class _Stage:
    """The daemons, and the claims that wait for them."""

    def __init__(self, client: Client, daemons: dict[str, _Daemon]) -> None:
        self.daemons = daemons
        self._client = client
        self._numbers = count()
        self._created: dict[str, float] = {}
        self._served: dict[str, float] = {}

    async def create(self, number: int) -> None:
        for _ in range(number):
            name = f"claim-{next(self._numbers)}"  # never used before: a daemon's memory keeps the workspaces of former claims
            self._created[name] = monotonic()
            await self._client.create(WorkspaceClaim.new(name))

    async def _look(self) -> None:
        for daemon in self.daemons.values():
            daemon.note_start()
        for claim in await self._client.list(WorkspaceClaim):
            if claim.status.phase and claim.name in self._created and claim.name not in self._served:
                self._served[claim.name] = monotonic() - self._created[claim.name]

    async def waits(self, within: float = LONGEST) -> list[float]:
        """Return how many seconds each claim waited, once all are served."""
        end = monotonic() + within
        while monotonic() < end and len(self._served) < len(self._created):
            await self._look()
            await asyncio.sleep(0.3)
        return sorted([*self._served.values(), *[LONGEST] * (len(self._created) - len(self._served))])

    async def clear(self) -> None:
        """Delete all claims, and wait until the Leases of dead processes expire."""
        self._created, self._served = {}, {}
        await asyncio.gather(*(daemon.ready() for daemon in self.daemons.values()))
        for daemon in self.daemons.values():
            daemon.note_start()
            daemon.durations.clear()
        for claim in await self._client.list(WorkspaceClaim):
            await self._client.delete(WorkspaceClaim, claim.name)
        while await self._client.list(WorkspaceClaim):
            await asyncio.sleep(0.5)
        await asyncio.sleep(LEASE_RUNS_OUT)

    async def end(self, names: Iterable[str], number: signal.Signals) -> None:
        await asyncio.gather(*(self.daemons[name].end(number) for name in names))

    async def start(self, names: Iterable[str]) -> None:
        for name in names:
            await self.daemons[name].start()


async def _after(stage: _Stage, names: str, number: signal.Signals) -> list[float]:
    await stage.end(names, number)
    created = asyncio.create_task(stage.create(CLAIMS))
    await stage.start(names)
    await created
    return await stage.waits()


async def _crash_loop(stage: _Stage) -> list[float]:
    end, crash_due = monotonic() + LOOP_SECONDS, monotonic()
    while monotonic() < end:
        await stage.create(3)
        if monotonic() >= crash_due:
            await stage.end("c", signal.SIGKILL)
            await stage.start("c")
            crash_due = monotonic() + CRASH_SECONDS
        await stage.waits(within=1.0)
        await asyncio.sleep(max(0.0, min(1.0, end - monotonic())))
    return await stage.waits()


CASES: Final[dict[str, Callable[[_Stage], Awaitable[list[float]]]]] = {
    "one killed and restarted": lambda stage: _after(stage, "c", signal.SIGKILL),
    "all killed and restarted": lambda stage: _after(stage, NAMES, signal.SIGKILL),
    "one in a crash loop": _crash_loop,
    "one stopped and restarted": lambda stage: _after(stage, "c", signal.SIGTERM),
}


async def _measured() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="konverge-restarts-") as scratch:
        async with ControlPlane() as plane, _stage(plane, Path(scratch)) as stage:
            for case, measure in CASES.items():
                await stage.clear()
                waits = await measure(stage)
                print(f"{case}: {[round(wait) for wait in waits]}", file=sys.stderr)
                starts = [start for daemon in stage.daemons.values() for start in daemon.durations]
                rows += _rows(case, waits, max(starts, default=0.0))
    return rows


@contextlib.asynccontextmanager
async def _stage(plane: ControlPlane, scratch: Path) -> AsyncIterator[_Stage]:
    await plane.create_namespace(NAMESPACE)
    daemons = {name: _Daemon(name, plane.admin_kubeconfig, scratch) for name in NAMES}
    config = await ClientConfig.load(kubeconfig=plane.admin_kubeconfig)
    async with Client(config, name="bench") as client:
        await install_crds(client, [crd(WorkspaceClaim)])
        stage = _Stage(client, daemons)
        try:
            await stage.start(NAMES)
            yield stage
        finally:
            await stage.end(NAMES, signal.SIGTERM)


def _rows(case: str, waits: list[float], start: float) -> list[Row]:
    late = 100 * sum(wait > LIMIT for wait in waits) / len(waits)
    how = f"{len(waits)} WorkspaceClaims, three daemons in the mode hash with the default times, a real control plane"
    return [
        row(f"worst wait, {case}", waits[-1], "s", how, f"<= {LIMIT:g}"),
        row(f"median wait, {case}", median(waits), "s", how),
        row(f"later than {LIMIT:g} s, {case}", late, "%", how),
        row(f"longest start of a process, {case}", start, "s", how),
    ]
