"""The turns of workers on a loop whose time each reconcile advances."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from controller_harness import ControllerHarness
from event_loops import LOOPS, Factory
from widgets import By, Widget, widget

import konverge as kv
from konverge.runtime.reconcile.turns import ReconcileTurns
from konverge_testing import ApiServer
from konverge_testing.loop import VirtualTimeLoop

SLICE = 0.005


class CountedTurns(ReconcileTurns):
    """Counts the workers that waited."""

    waits = 0

    async def wait(self) -> None:
        self.waits += 1
        await super().wait()


class Workers:
    """Workers that begin one reconcile in an iteration, as the queue lets them, and how long the longest iteration was."""

    def __init__(self) -> None:
        self.loop: Any = asyncio.get_running_loop()
        self.turns = CountedTurns(self.loop, SLICE)
        self.begun: Counter[int] = Counter()
        self.longest = 0.0
        self._last = self.loop.time()

    async def work(self, number: int, reconciles: int, seconds: float) -> None:
        for _ in range(reconciles):
            await asyncio.sleep(0)
            if not self.turns.may_begin():
                await self.turns.wait()
            self.begun[number] += 1
            self.loop.advance(seconds)

    async def iterations(self, ended: Callable[[], bool]) -> None:
        """Measure each iteration until the end."""
        self._last = self.loop.time()
        while not ended():
            await asyncio.sleep(0)
            self.longest = max(self.longest, self.loop.time() - self._last)
            self._last = self.loop.time()

    async def run(self, *workers: tuple[int, float]) -> None:
        work = asyncio.gather(*(self.work(number, *worker) for number, worker in enumerate(workers)))
        await self.iterations(work.done)


@pytest.mark.parametrize("seconds", [0.0001, 0.0005, 0.001, 0.004, 0.02])
async def test_an_iteration_takes_the_slice_and_one_reconcile_at_most(seconds: float) -> None:
    workers = Workers()
    await workers.run(*[(20, seconds)] * 300)
    assert workers.longest <= SLICE + seconds + 1e-9
    assert set(workers.begun.values()) == {20}


async def test_no_worker_starves_behind_others() -> None:
    workers = Workers()
    running = asyncio.create_task(workers.run(*[(50, 0.001)] * 100))
    while not running.done():
        await asyncio.sleep(0)
        if len(workers.begun) == 100:
            assert max(workers.begun.values()) - min(workers.begun.values()) <= 2
    await running


async def test_a_reconcile_that_grows_shortens_the_next_slices() -> None:
    workers = Workers()
    await workers.run(*[(10, 0.0001)] * 200, *[(10, 0.003)] * 5)
    assert workers.longest <= 2 * SLICE + 0.003 * 5
    assert len(workers.begun) == 205


async def test_few_workers_never_wait() -> None:
    workers = Workers()
    await workers.run(*[(20, 0.0001)] * 10)
    assert workers.turns.waits == 0


async def test_a_cancelled_worker_keeps_no_turn_from_the_others() -> None:
    workers = Workers()
    tasks = [asyncio.create_task(workers.work(number, 5, 0.002)) for number in range(50)]
    while len(workers.begun) < 5:
        await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(workers.begun[number] == 5 for number in range(1, 50, 2))
    for _ in range(2):
        await asyncio.sleep(0)
    assert workers.turns.may_begin()


@pytest.mark.parametrize("limited", [True, False])
async def test_workers_of_a_controller_begin_within_the_slice(limited: bool) -> None:
    watch = Workers()
    reconciled: list[str] = []

    async def reconcile(each: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.skip_write()
        reconciled.append(each.name)
        watch.loop.advance(0.002)
        return kv.Done()

    spec = kv.Controller.of(Widget).with_(concurrency=30).reconciled_by(By(reconcile))
    async with ControllerHarness(spec, turns=watch.turns if limited else None) as harness:
        for number in range(30):
            harness.put(widget(f"w-{number}"))
        await watch.iterations(lambda: len(reconciled) == 30)
    assert sorted(reconciled) == sorted(f"w-{number}" for number in range(30))
    assert (watch.longest <= SLICE + 0.002 + 1e-9) is limited


async def shares_turns() -> bool:
    async with ApiServer(random=Random(1)) as server, kv.Manager("m", server.config()) as manager:
        services = manager._core.services
        assert services is not None
        return services.turns is not None


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_manager_limits_reconciles_on_a_real_loop(loop: Factory) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(shares_turns())


def test_a_manager_does_not_limit_reconciles_in_virtual_time() -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert not runner.run(shares_turns())
