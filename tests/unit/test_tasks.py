"""Waiting for the first of several, and for changes."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from konverge.tasks import Broadcast, Signal, cancel_and_wait, wait_first


async def _fail(message: str) -> None:
    raise RuntimeError(message)


async def test_the_first_wait_to_end_ends_the_others_before_wait_first_returns() -> None:
    ended: list[str] = []

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    await wait_first(slow_to_end(), asyncio.sleep(0))
    assert ended == ["cleaned up"]
    assert len(asyncio.all_tasks()) == 1


async def test_a_task_of_the_caller_goes_on_when_another_wait_was_first() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await wait_first(task, asyncio.sleep(0))
    assert not task.cancelling()
    task.cancel()
    await asyncio.wait({task})


async def test_an_error_of_the_first_wait_is_raised() -> None:
    with pytest.raises(RuntimeError, match="broken"):
        await wait_first(asyncio.Event().wait(), _fail("broken"))


async def test_callers_task_that_fails_during_cancellation_of_others_is_not_lost() -> None:
    begun = asyncio.Event()

    async def fails_late() -> None:
        await begun.wait()
        raise RuntimeError("late")

    async def begins_it_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            begun.set()
            for _ in range(3):
                await asyncio.sleep(0)

    task = asyncio.create_task(fails_late())
    with pytest.raises(RuntimeError, match="late"):
        await wait_first(task, begins_it_when_cancelled(), asyncio.sleep(0))


async def test_a_cancelled_caller_leaves_no_task_behind_and_stays_cancelled() -> None:
    task = asyncio.create_task(wait_first(asyncio.Event().wait(), asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert len(asyncio.all_tasks()) == 1


async def test_a_cancellation_of_the_caller_during_the_cleanup_is_not_swallowed() -> None:
    cleaning = asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    task = asyncio.create_task(wait_first(slow_to_end(), asyncio.sleep(0)))
    await cleaning.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_a_task_of_the_caller_that_was_cancelled_cancels_the_wait() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await wait_first(task, asyncio.Event().wait())


async def test_a_broadcast_wakes_all_that_wait_and_keeps_nothing_for_later_waiters() -> None:
    broadcast = Broadcast()
    waiters = [asyncio.create_task(broadcast.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    broadcast.notify()
    await asyncio.wait(waiters)
    late = asyncio.create_task(broadcast.wait())
    await asyncio.sleep(0)
    assert not late.done()
    broadcast.notify()
    await late


@pytest.mark.parametrize("cancelled", [False, True])
async def test_coroutines_that_fail_together_leave_no_complaint_about_dropped_failures(cancelled: bool) -> None:
    complaints = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    start = asyncio.Event()

    async def fail(words: str) -> None:
        await start.wait()
        raise ValueError(words)

    async def wait_for_both() -> None:
        await wait_first(fail("first"), fail("second"))

    waiting = asyncio.create_task(wait_for_both())
    await asyncio.sleep(0.01)
    start.set()
    if cancelled:
        await asyncio.sleep(0)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else ValueError):
        await waiting
    del waiting
    await asyncio.sleep(0.01)
    gc.collect()
    assert complaints == []


async def _wait_first(ended: Coroutine[Any, Any, None], started: asyncio.Event) -> None:
    await wait_first(ended, _fail_after(started))


async def _cancel_and_wait(ended: Coroutine[Any, Any, None], started: asyncio.Event) -> None:
    task = asyncio.create_task(ended)
    await started.wait()
    await cancel_and_wait(task)


async def _fail_after(started: asyncio.Event) -> None:
    await started.wait()
    raise RuntimeError("the first to end")


@pytest.mark.parametrize("end", [_wait_first, _cancel_and_wait])
async def test_a_caller_cancelled_during_the_cleanup_leaves_no_complaint(
    end: Callable[[Coroutine[Any, Any, None], asyncio.Event], Coroutine[Any, Any, None]],
) -> None:
    complaints = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    started, cleaning, proceed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fails_in_its_cleanup() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await proceed.wait()
            raise ValueError("in the cleanup")

    waiting = asyncio.create_task(end(fails_in_its_cleanup(), started))
    await cleaning.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    del waiting
    proceed.set()
    await asyncio.sleep(0.01)
    gc.collect()
    assert complaints == []


async def test_a_signal_wakes_its_task_once_for_all_sets_before_it_ran() -> None:
    signal, woken = Signal(), 0

    async def waiting() -> None:
        nonlocal woken
        while True:
            await signal.wait()
            woken += 1

    signal.set()
    task = asyncio.create_task(waiting())
    await asyncio.sleep(0)
    assert woken == 1, "a set before the wait is kept"
    signal.set()
    signal.set()
    assert woken == 1, "set does not run the task"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert woken == 2
    await cancel_and_wait(task)
    signal.set()  # after the end of the waiting task
    await signal.wait()


async def test_a_cancelled_wait_leaves_a_signal_usable() -> None:
    signal = Signal()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await signal.wait()
    signal.set()
    await signal.wait()
