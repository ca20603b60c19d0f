"""The surroundings of benchmarks: virtual time, a control plane, and a lab that counts the writes of the process under test."""

import asyncio
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import thread_time
from typing import Any, Final, Self, TypeVar
from unittest.mock import patch

import structlog
from prometheus_client import Counter as PrometheusCounter
from rows import Figures, Row

from konverge.clock import cpu_time
from konverge_testing import BinariesMissing, Lab
from konverge_testing.apiserver.faults.rules import About
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.apiserver.server import MemoryServer
from konverge_testing.binaries import find_binaries
from konverge_testing.lab.environments import memory_lab
from konverge_testing.loop import VirtualTimeLoop

T = TypeVar("T")

PROCESS: Final = "konverge"
"""The name of the process whose writes are counted."""
PORTS: Final = (
    *("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0", "--debug", "127.0.0.1:0"),
    *("--log-format", "json"),
)
"""The arguments of a daemon that chooses its ports and logs them."""
_AT_ONCE: Final = 50
_PATIENCE: Final = 36_000.0


def virtual(measured: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a measurement in virtual time, without log lines below errors."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(measured())


def on_control_plane(measured: Callable[[], Coroutine[Any, Any, list[Row]]]) -> list[Row]:
    """Run a measurement that needs the programs of a control plane; no rows without them."""
    try:
        find_binaries(os.environ)
    except BinariesMissing as missing:
        print(f"skipped: no control plane to measure on ({missing})", file=sys.stderr)
        return []
    return asyncio.run(measured())


async def in_batches(calls: Iterable[Awaitable[object]]) -> None:
    """Await calls, fifty at once."""
    batch: list[Awaitable[object]] = []
    for call in calls:
        batch.append(call)
        if len(batch) == _AT_ONCE:
            await asyncio.gather(*batch)
            batch.clear()
            await asyncio.sleep(0.01)  # the loop limits its iterations at one moment of virtual time
    await asyncio.gather(*batch)


class Lap:
    """The seconds of the loop and of CPU since a start."""

    def __init__(self) -> None:
        self._time, self._cpu = asyncio.get_running_loop().time(), cpu_time()

    @property
    def seconds(self) -> float:
        """Seconds of the loop, virtual in a virtual loop."""
        return asyncio.get_running_loop().time() - self._time

    @property
    def cpu(self) -> float:
        """Seconds of CPU of this process."""
        return cpu_time() - self._cpu


class World:
    """A lab, and the writes of the process under test as the server received them."""

    controller = ""
    """The controller whose reconciles a part counts; "" for all."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.writes: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        lab.server.on_call.append(self._called)

    @classmethod
    @asynccontextmanager
    async def open(cls, *arguments: Any) -> AsyncIterator[Self]:
        """Open a lab in memory for a world of this class, without the lab's limits of CPU and real time."""
        async with memory_lab() as lab:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualTimeLoop)
            loop.no_limit()
            yield cls(lab, *arguments)

    def _called(self, call: Call, about: About, response: Response) -> None:
        if about.verb in ("create", "update", "patch", "delete") and about.user_agent.startswith(PROCESS):
            self.wrote(call, about, response)

    def wrote(self, call: Call, about: About, response: Response) -> None:
        """Count a write."""
        name = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
        self.writes[name] += 1
        self.bytes[name] += len(call.body or b"")

    def clear(self) -> None:
        """Forget the writes."""
        self.writes.clear()
        self.bytes.clear()

    async def quiet(self) -> None:
        """Wait until the lab is settled, and for the Events, which are sent after the reconciles."""
        await self.lab.settled(quiet=5, timeout=_PATIENCE)
        await asyncio.sleep(30)
        await self.lab.settled(quiet=5, timeout=_PATIENCE)

    def reconciles(self, controller: str = "") -> float:
        """Return the number of reconciles, of one controller if it is named."""
        return total(self.lab.metrics.reconcile_total, controller)


@contextmanager
def turns(prefix: str) -> Iterator[list[float]]:
    """Collect the CPU seconds of each turn of the event loop in which a task with this prefix of a name ran, without the server's part.

    CPU time of this thread, so other load of the machine counts little. The server in memory runs in the turn of its client; its part is
    subtracted unless the request was suspended.
    """
    costs: list[float] = []
    number, served = 0, 0.0
    run, handle = asyncio.Handle._run, MemoryServer.handle

    async def serve(server: MemoryServer, call: Call) -> Response:
        nonlocal served
        turn, began = number, thread_time()
        response = await handle(server, call)
        if turn == number:
            served += thread_time() - began
        return response

    def turn(self: asyncio.Handle) -> None:
        nonlocal number, served
        owner = getattr(self._callback, "__self__", None)  # type: ignore[attr-defined]  # of CPython
        number, served, began = number + 1, 0.0, thread_time()
        run(self)
        if isinstance(owner, asyncio.Task) and owner.get_name().startswith(prefix):
            costs.append(thread_time() - began - served)

    with patch.object(asyncio.Handle, "_run", turn), patch.object(MemoryServer, "handle", serve):
        yield costs


def total(counter: PrometheusCounter, controller: str = "") -> float:
    """Return the sum of a counter, for one controller if it is named."""
    return sum(
        sample.value
        for family in counter.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and controller in ("", sample.labels["controller"])
    )


class Part(Figures):
    """One part of a benchmark on a world: it counts writes, reconciles and time from its beginning."""

    seconds = cpu = reconciles = 0.0

    def __init__(self, world: World, part: str, how: str) -> None:
        super().__init__(part, how)
        world.clear()
        gc.collect()
        self._world, self._before, self._lap = world, world.reconciles(world.controller), Lap()

    def stop(self) -> None:
        """Set `seconds`, `cpu` and `reconciles` to what the part has taken until now."""
        self.seconds, self.cpu = self._lap.seconds, self._lap.cpu
        self.reconciles = self._world.reconciles(self._world.controller) - self._before

    def add_writes(
        self, name: str, resources: str, unit: str, target: str | int | None = None, *, per: float = 1, remark: str = ""
    ) -> None:
        """Add a row of the writes of some resources (all if none is named), divided by a number."""
        counts = self._world.writes
        number = sum(counts[resource] for resource in resources.split() or counts)
        self.add(name, number / per if per != 1 else number, unit, target, remark=remark)
