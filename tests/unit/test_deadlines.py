"""Deadlines with a shared timer behave as `asyncio.timeout_at`, at the cost of a note."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from konverge.tasks import Deadline, Deadlines
from konverge_testing.loop import VirtualTimeLoop

Guarded = Callable[[float | None, Callable[[Any], Awaitable[object]]], Awaitable[object]]


async def by_asyncio(when: float | None, body: Callable[[Any], Awaitable[object]]) -> object:
    async with asyncio.timeout_at(when) as deadline:
        return await body(deadline)


def by_shared_timer(deadlines: Deadlines) -> Guarded:
    async def guarded(when: float | None, body: Callable[[Any], Awaitable[object]]) -> object:
        with Deadline(deadlines, when) as deadline:
            return await body(deadline)

    return guarded


async def work(_: Any) -> object:
    await asyncio.sleep(3)
    return "done"


async def stubborn(deadline: Any) -> object:
    try:
        return await work(deadline)
    except asyncio.CancelledError:
        return f"kept on, expired: {deadline.expired()}"


async def failing(deadline: Any) -> object:
    try:
        return await work(deadline)
    except asyncio.CancelledError:
        raise ValueError("its own error") from None


async def later(deadline: Any) -> object:
    deadline.reschedule(asyncio.get_running_loop().time() + 4)
    return await work(deadline)


async def sooner(deadline: Any) -> object:
    deadline.reschedule(asyncio.get_running_loop().time() + 1)
    return await work(deadline)


async def cancels_itself(deadline: Any) -> object:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_at(2, task.cancel)
    return await work(deadline)


async def outcome(guarded: Guarded, when: float | None, body: Callable[[Any], Awaitable[object]]) -> object:
    """Return how the operation ends, when, and how often its task stays cancelled."""
    task = asyncio.current_task()
    assert task is not None
    try:
        result: object = await guarded(when, body)
    except (Exception, asyncio.CancelledError) as error:
        result = type(error).__name__, type(error.__cause__).__name__
    return result, asyncio.get_running_loop().time(), task.cancelling()


@pytest.mark.parametrize("when", [None, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("body", [work, stubborn, failing, later, sooner, cancels_itself])
def test_an_operation_ends_as_with_a_timer_of_its_own(
    when: float | None, body: Callable[[Any], Awaitable[object]]
) -> None:
    ends = []
    for guarded in (by_asyncio, by_shared_timer(Deadlines())):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            ends.append(runner.run(outcome(guarded, when, body)))
    assert ends[0] == ends[1]


async def test_each_of_many_operations_expires_at_its_own_time() -> None:
    deadlines, loop = Deadlines(), asyncio.get_running_loop()
    ends: dict[float, float] = {}

    async def operation(when: float) -> None:
        try:
            with Deadline(deadlines, when):
                await asyncio.sleep(100)
        except TimeoutError:
            ends[when] = loop.time()

    start = loop.time()
    whens = [start + delay for delay in (5.0, 1.0, 9.0, 2.0, 2.5, 7.0)]
    await asyncio.gather(*map(operation, whens))
    assert ends == {when: when for when in whens}


async def test_an_inner_deadline_leaves_the_outer_deadline_running() -> None:
    deadlines, loop = Deadlines(), asyncio.get_running_loop()
    start = loop.time()
    with pytest.raises(TimeoutError), Deadline(deadlines, start + 3):
        with pytest.raises(TimeoutError), Deadline(deadlines, start + 1):
            await asyncio.sleep(100)
        assert loop.time() == start + 1
        await asyncio.sleep(100)
    assert loop.time() == start + 3


async def test_operations_that_end_in_time_set_one_timer_and_leave_few_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines, loop = Deadlines(), asyncio.get_running_loop()
    timers: list[float] = []
    call_at = loop.call_at

    def counted(when: float, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *arguments, **options)

    monkeypatch.setattr(loop, "call_at", counted)
    start = loop.time()
    with Deadline(deadlines, start + 60):  # runs all the while
        for _ in range(1000):
            with Deadline(deadlines, loop.time() + 30):
                await asyncio.sleep(0)
    assert timers == [start + 60, start + 30]
    assert len(deadlines._notes) < 100


async def test_a_deadline_without_a_task_is_refused() -> None:
    refused: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def enter() -> None:
        try:
            with Deadline(Deadlines(), None):
                pass
        except RuntimeError as error:
            refused.set_result(error)

    asyncio.get_running_loop().call_soon(enter)
    assert str(await refused) == "a deadline needs a task"
