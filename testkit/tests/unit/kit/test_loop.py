import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from konverge import clock
from konverge_testing.loop import EPOCH, Deadlock, Livelock, VirtualTimeLoop


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


@pytest.mark.parametrize("seconds", [2**24 - 1, 2**24 + 1, 366 * 86_400, 2**31, 100 * 366 * 86_400])
def test_short_timers_are_due_after_years(seconds: int) -> None:
    loop = VirtualTimeLoop()
    loop.limit(seconds=20)

    async def main() -> int:
        await asyncio.sleep(seconds)
        for _ in range(200):
            await asyncio.sleep(0.1)
        async with asyncio.timeout(1):
            return await asyncio.sleep(0.001, 7)

    try:
        assert loop.run_until_complete(main()) == 7
        assert loop.time() == pytest.approx(seconds + 20.001, abs=0.01)
    finally:
        loop.close()


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


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualTimeLoop]:
    """A loop that waits for a thread for a quarter of a real second, and allows a fifth of a second of CPU."""
    monkeypatch.setattr("konverge_testing.loop.MOST_WAITING", 0.25)
    loop = VirtualTimeLoop()
    loop.limit(seconds=0.2)
    yield loop
    loop.close()


async def in_a_thread(work: Callable[[], Any]) -> None:
    await asyncio.to_thread(work)


def test_thread_that_waits_forever_ends_the_run_with_its_name(limited: VirtualTimeLoop) -> None:
    never = threading.Event()
    try:
        with pytest.raises(
            Deadlock, match=r"threading\.Event\.wait did not return in .* s of real time and used no CPU"
        ):
            limited.run_until_complete(in_a_thread(never.wait))
        limited.run_until_complete(limited.shutdown_default_executor())  # does not wait for it either
    finally:
        never.set()


def test_a_thread_that_computes_is_waited_for(limited: VirtualTimeLoop) -> None:
    def compute() -> None:
        end = clock.cpu_time() + 0.4
        while clock.cpu_time() < end:
            sum(range(1000))

    limited.run_until_complete(in_a_thread(compute))


async def sleeps_for_ever() -> None:
    while True:
        await asyncio.sleep(60)


async def waits_for_a_silent_connection() -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        background = asyncio.create_task(sleeps_for_ever())
        try:
            await reader.read()
        finally:
            background.cancel()
            writer.close()


async def waits_for_a_silent_program() -> None:
    program = await asyncio.create_subprocess_exec("sleep", "600")
    background = asyncio.create_task(sleeps_for_ever())
    try:
        await program.wait()
    finally:
        background.cancel()
        program.kill()
        await asyncio.to_thread(until_noticed, program.pid)
        await program.wait()


def until_noticed(pid: int) -> None:
    """Wait until a program has ended and asyncio's thread for it, which may collect it first, has informed its loop."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    for thread in threading.enumerate():
        if thread.name.startswith("waitpid-"):
            thread.join()


@pytest.mark.parametrize(
    "endless",
    [sleeps_for_ever, waits_for_a_silent_connection, waits_for_a_silent_program],
    ids=lambda one: one.__name__,
)
def test_endless_run_ends_when_its_cpu_time_is_used_up(
    endless: Callable[[], Coroutine[Any, Any, None]], limited: VirtualTimeLoop
) -> None:
    with pytest.raises(Livelock, match=r"the run goes on and on: \d+ virtual seconds have passed"):
        limited.run_until_complete(endless())
    tasks = asyncio.all_tasks(limited)
    for task in tasks:
        task.cancel()
    limited.run_until_complete(asyncio.wait(tasks))
    limited.run_until_complete(asyncio.sleep(1))  # for transports that close
