from __future__ import annotations

import asyncio

import pytest

from konverge import clock
from konverge.testing.loop import EPOCH, Deadlock, VirtualTimeLoop


async def test_an_hour_passes_at_once_when_all_tasks_sleep() -> None:
    loop = asyncio.get_running_loop()
    started, wall = loop.time(), clock.wall_clock()
    await asyncio.sleep(3600)
    assert loop.time() - started == pytest.approx(3600)
    assert (clock.wall_clock() - wall).total_seconds() == pytest.approx(3600)


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    woken: list[int] = []

    async def sleeper(seconds: int) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    await asyncio.gather(*(sleeper(seconds) for seconds in (30, 10, 20)))
    assert woken == [10, 20, 30]


async def test_a_timeout_is_virtual_too() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(120):
            await asyncio.Event().wait()


async def test_time_stands_still_while_a_thread_works() -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert await asyncio.to_thread(sum, (1, 2)) == 3
    assert loop.time() == before


def test_a_new_loop_starts_at_the_epoch_and_reports_a_deadlock() -> None:
    loop = VirtualTimeLoop()
    try:
        assert loop.time() == 0
        assert loop.wall_time() == EPOCH
        with pytest.raises(ValueError, match="backwards"):
            loop.advance(-1)
        with pytest.raises(Deadlock):
            loop.run_until_complete(loop.create_future())
    finally:
        loop.close()


def test_a_timer_never_runs_before_its_time_however_times_add_up() -> None:
    loop, early = VirtualTimeLoop(), list[tuple[float, float]]()

    async def many() -> None:
        for number in range(1, 400):
            due = loop.time() + 1 / (3 * number)
            waiter = loop.create_future()
            loop.call_at(due, waiter.set_result, None)
            await waiter
            if loop.time() < due:
                early.append((due, loop.time()))

    loop.run_until_complete(many())
    loop.close()
    assert early == []
