"""The turns of workers on a loop whose time each reconcile advances."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from konverge.runtime.reconcile.turns import ReconcileTurns

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
        self.least = 0
        self.longest = 0.0
        self._last = self.loop.time()

    async def work(self, number: int, reconciles: int, seconds: float) -> None:
        for _ in range(reconciles):
            await asyncio.sleep(0)
            if not self.turns.may_begin():
                await self.turns.wait()
            self.begun[number] += 1
            self.loop.advance(seconds)

    async def watch(self) -> None:
        """Measure each iteration."""
        while True:
            await asyncio.sleep(0)
            self.longest = max(self.longest, self.loop.time() - self._last)
            self._last = self.loop.time()

    async def run(self, *workers: tuple[int, float]) -> None:
        watching = asyncio.create_task(self.watch())
        await asyncio.gather(*(self.work(number, *worker) for number, worker in enumerate(workers)))
        watching.cancel()


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
