"""The slice of tasks that work, on a loop whose time each piece of work advances."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any

import pytest
from controller_harness import ControllerHarness
from event_loops import LOOPS, Factory
from widgets import By, Widget, widget

import konverge as kv
from konverge.tasks import Slice
from konverge_testing import ApiServer
from konverge_testing.loop import VirtualTimeLoop

SECONDS = 0.005


class CountedSlice(Slice):
    """Counts the tasks that waited."""

    waits = 0

    async def wait(self) -> None:
        self.waits += 1
        await super().wait()


class Workers:
    """Tasks that share a slice, and how long the longest iteration was."""

    def __init__(self) -> None:
        self.loop: Any = asyncio.get_running_loop()
        self.slice = CountedSlice(SECONDS)
        self.begun: Counter[int] = Counter()
        self.longest = 0.0
        self.iterations = 0
        self._last = self.loop.time()

    async def work(self, number: int, pieces: int, seconds: float) -> None:
        """Begin one piece of work in an iteration, as a worker takes one key from a queue."""
        for _ in range(pieces):
            await asyncio.sleep(0)
            if not self.slice.may_begin():
                await self.slice.wait()
            self.begun[number] += 1
            self.loop.advance(seconds)

    async def sync(self, number: int, pieces: int, seconds: float) -> None:
        """Work on one piece after the other, as an informer that has received thousands of objects."""
        if not self.slice.may_begin():
            await self.slice.wait()
        for _ in range(pieces):
            self.begun[number] += 1
            self.loop.advance(seconds)
            if not self.slice.may_continue(self.loop.time()):
                await self.slice.wait()

    async def measure(self, ended: Callable[[], bool]) -> None:
        """Measure each iteration until the end."""
        self._last = self.loop.time()
        while not ended():
            await asyncio.sleep(0)
            self.iterations += 1
            self.longest = max(self.longest, self.loop.time() - self._last)
            self._last = self.loop.time()

    async def run(self, *workers: tuple[int, float]) -> None:
        await self.run_all(self.work(number, *worker) for number, worker in enumerate(workers))

    async def run_all(self, work: Iterable[Coroutine[Any, Any, None]]) -> None:
        tasks = asyncio.gather(*work)
        await self.measure(tasks.done)


@pytest.mark.parametrize("seconds", [0.0001, 0.0005, 0.001, 0.004, 0.02])
async def test_an_iteration_takes_the_slice_and_one_reconcile_at_most(seconds: float) -> None:
    workers = Workers()
    await workers.run(*[(20, seconds)] * 300)
    assert workers.longest <= SECONDS + seconds + 1e-9
    assert set(workers.begun.values()) == {20}


async def test_no_worker_starves_behind_others() -> None:
    workers = Workers()
    running = asyncio.create_task(workers.run(*[(50, 0.001)] * 100))
    while not running.done():
        await asyncio.sleep(0)
        if len(workers.begun) == 100:
            assert max(workers.begun.values()) - min(workers.begun.values()) <= 2
    await running


@pytest.mark.parametrize("long", [0.001, 0.003, 0.02])
async def test_work_that_grows_does_not_lengthen_an_iteration(long: float) -> None:
    workers = Workers()
    await workers.run(*[(10, 0.0001)] * 200, *[(10, long)] * 50)
    assert workers.longest <= SECONDS + long + 1e-9
    assert set(workers.begun.values()) == {10}


@pytest.mark.parametrize("informers", [1, 2, 50])
@pytest.mark.parametrize("seconds", [0.00025, 0.001, 0.02])
async def test_informers_that_sync_at_once_share_the_slice(informers: int, seconds: float) -> None:
    workers = Workers()
    await workers.run_all(workers.sync(number, 40, seconds) for number in range(informers))
    assert workers.longest <= SECONDS + seconds + 1e-9
    assert set(workers.begun.values()) == {40}


async def test_a_task_that_waited_within_its_work_gets_one_slice() -> None:
    workers = Workers()

    async def interrupted() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            await workers.sync(1, 100, 0.001)
            for _ in range(100):  # continues without a new `may_begin`
                workers.loop.advance(0.001)
                if not workers.slice.may_continue(workers.loop.time()):
                    await workers.slice.wait()

    await workers.run_all([interrupted(), workers.sync(0, 50, 0.001)])
    assert workers.longest <= SECONDS + 0.001 * 2 + 1e-9


async def test_a_task_alone_uses_the_whole_slice() -> None:
    workers = Workers()
    await workers.run_all([workers.sync(0, 1000, 0.0001)])
    slices = 1000 * 0.0001 / SECONDS
    assert workers.iterations <= slices + 5


async def test_informers_continue_in_the_order_of_their_arrival() -> None:
    workers, order = Workers(), []

    async def sync(number: int) -> None:
        if not workers.slice.may_begin():
            await workers.slice.wait()
        order.append(number)
        workers.loop.advance(0.002)

    await workers.run_all(sync(number) for number in range(100))
    assert order == list(range(100))


async def test_few_workers_never_wait() -> None:
    workers = Workers()
    await workers.run(*[(20, 0.0001)] * 10)
    assert workers.slice.waits == 0


async def test_a_cancelled_worker_keeps_no_time_from_the_others() -> None:
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
    assert workers.slice.may_begin()


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
    async with ControllerHarness(spec, slice_=watch.slice if limited else None) as harness:
        for number in range(30):
            harness.put(widget(f"w-{number}"))
        await watch.measure(lambda: len(reconciled) == 30)
    assert sorted(reconciled) == sorted(f"w-{number}" for number in range(30))
    assert (watch.longest <= SECONDS + 0.002 + 1e-9) is limited


async def shares_a_slice() -> bool:
    async with ApiServer(random=Random(1)) as server, kv.Manager("m", server.config()) as manager:
        services = manager._core.services
        assert services is not None
        return services.slice is not None


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_manager_limits_reconciles_on_a_real_loop(loop: Factory) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(shares_a_slice())


class NoTime(Slice):
    """A slice that each piece of work uses up."""

    def may_begin(self) -> bool:
        return False

    async def wait(self) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("meanwhile", ["nothing", "one is removed", "one is added"])
def test_other_tasks_run_while_many_controllers_start(meanwhile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("konverge.runtime.parts.controllers.Slice", NoTime)
    seen: set[int] = set()

    def controller(number: int) -> kv.Controller[kv.Object]:
        async def reconcile(each: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
            return kv.Done()

        return kv.Controller.of(kv.kind("example.com/v1", f"Thing{number}")).reconciled_by(By(reconcile))

    async def start() -> list[str]:
        async with ApiServer(random=Random(1)) as server:
            manager = kv.Manager("m", server.config())
            for number in range(10):
                manager.add(controller(number))
            starting = asyncio.create_task(manager.start())
            while not starting.done():
                await asyncio.sleep(0)
                running = len(manager._core.runners)
                if running == 5 not in seen:
                    if meanwhile == "one is removed":
                        await manager.remove("thing9")
                    elif meanwhile == "one is added":
                        manager.add(controller(10))
                seen.add(running)
            names = list(manager._core.runners)
            await manager.stop()
            return names

    with asyncio.Runner() as runner:
        names = runner.run(start())
    expected = {"nothing": 10, "one is removed": 9, "one is added": 11}[meanwhile]
    assert len(names) == len(set(names)) == expected
    assert {1, 2, 3, 4, 5} <= seen


def test_a_manager_does_not_limit_reconciles_in_virtual_time() -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert not runner.run(shares_a_slice())
