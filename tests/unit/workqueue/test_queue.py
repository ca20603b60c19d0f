"""The asyncio shell on virtual time: getters, the timer, cancellation, shut-down."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from konverge.workqueue import Item, ItemExponential, ShutDown, Throttle, WaitReason, WorkQueue


def now() -> float:
    return asyncio.get_running_loop().time()


async def turns(count: int = 3) -> None:
    """Run all ready tasks, without advancing the time."""
    for _ in range(count):
        await asyncio.sleep(0)


async def work(queue: WorkQueue[str], log: list[tuple[str, float]], seconds: float = 0.0) -> None:
    async for item in queue:
        log.append((item.key, now()))
        await asyncio.sleep(seconds)
        queue.done(item.key)


# --- getting ----------------------------------------------------------------------------------------------------------------


async def test_get_returns_a_ready_item() -> None:
    queue = WorkQueue[str]()
    queue.add("a", reason="created", priority=3)
    item = await queue.get()
    assert item == Item("a", 3, ("created",), 0, added_at=now(), waited=0.0, failures=0)


async def test_get_waits_for_an_add() -> None:
    queue = WorkQueue[str]()
    getter = asyncio.create_task(queue.get())
    await turns()
    assert not getter.done()
    queue.add("a", reason="created")
    assert (await getter).key == "a"


class PlainHandle:
    """The handle of uvloop's `call_at` for a time that has passed: `call_soon` returns it, so it has no time."""

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self.cancel = handle.cancel


async def test_a_timer_needs_no_time_of_its_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    call_at = loop.call_at
    monkeypatch.setattr(loop, "call_at", lambda *arguments: PlainHandle(call_at(*arguments)))
    queue, began = WorkQueue[str](), now()
    for key, delay in (("late", 9), ("early", 3), ("middle", 6)):
        queue.add_after(key, delay, reason="resync")
    got = [((await queue.get()).key, now() - began) for _ in range(3)]
    assert got == [("early", 3), ("middle", 6), ("late", 9)]


async def test_get_waits_for_the_time_of_a_delayed_key() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 3600.0, reason="resync")
    item = await queue.get()
    assert (now(), item.waited) == (3600.0, 0.0)


async def test_later_add_with_an_earlier_time_wakes_the_getter_in_time() -> None:
    queue = WorkQueue[str]()
    queue.add_after("late", 100.0, reason="asked")
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(10.0)
    queue.add_after("early", 5.0, reason="asked")
    assert ((await getter).key, now()) == ("early", 15.0)
    assert ((await queue.get()).key, now()) == ("late", 100.0)


async def test_the_timer_of_a_removed_delayed_key_runs_without_effect() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 10.0, reason="asked")
    queue.add_after("b", 20.0, reason="asked")
    queue.remove("a")
    assert ((await queue.get()).key, now()) == ("b", 20.0)


async def test_timer_that_fires_early_on_a_coarse_clock_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    # A loop runs a timer early by up to its clock's resolution. If the queue then found no due key, it would set the timer again
    # and spin until the clock ticks.
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "_clock_resolution", 0.5)
    set_for = []
    call_at = loop.call_at

    def noted(when: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        set_for.append(when)
        return call_at(when, callback, *args)

    queue = WorkQueue[str]()
    sleeper = asyncio.create_task(asyncio.sleep(9.75))
    await turns()
    monkeypatch.setattr(loop, "call_at", noted)
    queue.add_after("a", 10.0, reason="asked")
    item = await queue.get()
    assert (now(), item.waited, set_for) == (9.75, 0.0, [10.0])
    await sleeper


async def test_done_hands_the_waiting_key_to_a_waiting_getter() -> None:
    queue = WorkQueue[str]()
    queue.add("a", reason="created")
    await queue.get()
    queue.add("a", reason="changed")
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(50.0)
    assert not getter.done()
    queue.done("a")
    item = await getter
    assert (item.reasons, item.waited) == (("changed",), 50.0)


async def test_several_getters_share_the_keys_of_one_turn() -> None:
    queue = WorkQueue[str]()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await turns()
    for key in "abc":
        queue.add(key, reason="created")
    assert {item.key for item in await asyncio.gather(*getters)} == set("abc")


async def test_several_getters_share_the_keys_that_become_ready_at_one_time() -> None:
    queue = WorkQueue[str]()
    for key in "abc":
        queue.add_after(key, 10.0, reason="asked")
    items = await asyncio.gather(*(queue.get() for _ in range(3)))
    assert ({item.key for item in items}, now()) == (set("abc"), 10.0)


async def test_workers_run_different_keys_at_once_and_one_key_never() -> None:
    queue = WorkQueue[str]()
    log: list[tuple[str, float]] = []
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(work(queue, log, seconds=10.0))
        queue.add("a", reason="created")
        queue.add("b", reason="created")
        await asyncio.sleep(1.0)
        queue.add("a", reason="changed")
        await asyncio.sleep(20.0)
        assert await queue.drain(60.0)
    assert log == [("a", 0.0), ("b", 0.0), ("a", 10.0)]


async def test_a_rate_limited_key_becomes_ready_at_its_retry_deadline() -> None:
    queue = WorkQueue[str](limiter=ItemExponential(10.0, 100.0))
    queue.add("a", reason="created")
    starts = []
    for _ in range(3):
        item = await queue.get()
        starts.append(now())
        assert queue.add_rate_limited(item.key, reason="retry", priority=item.priority) == 10.0 * 2 ** len(starts) / 2
        queue.done(item.key)
    assert starts == [0.0, 10.0, 30.0]
    assert queue.failures("a") == 3
    queue.forget("a")
    assert queue.failures("a") == 0


async def test_event_before_the_retry_deadline_runs_the_key_and_keeps_the_deadline() -> None:
    queue = WorkQueue[str](limiter=ItemExponential(60.0, 1000.0))
    starts = []

    async def failing() -> None:
        async for item in queue:
            starts.append((now(), item.failures))
            queue.add_rate_limited(item.key, reason="retry")
            queue.done(item.key)

    worker = asyncio.create_task(failing())
    queue.add("a", reason="created")
    for _ in range(10):
        await asyncio.sleep(5.0)
        queue.add("a", reason="child changed")
    await asyncio.sleep(300.0)
    queue.shut_down()
    await worker
    assert starts == [(0.0, 0), *((5.0 * n, 1) for n in range(1, 11)), (60.0, 1), (180.0, 2)]


async def test_the_work_queue_obeys_its_throttle() -> None:
    queue = WorkQueue[str](throttle=Throttle(min_interval=30.0))
    log: list[tuple[str, float]] = []
    worker = asyncio.create_task(work(queue, log))
    for _ in range(7):
        queue.add("a", reason="event")
        await asyncio.sleep(10.0)
    queue.shut_down()
    await worker
    assert log == [("a", 0.0), ("a", 30.0), ("a", 60.0)]


async def test_workers_that_never_wait_do_not_stall_the_loop() -> None:
    queue = WorkQueue[int]()
    for number in range(100):
        queue.add(number, reason="listed")
    done = []

    async def busy() -> None:
        async for item in queue:
            done.append(item.key)
            queue.done(item.key)

    worker = asyncio.create_task(busy())
    await turns(10)
    assert 0 < len(done) < 20
    await queue.drain(1.0)
    await worker
    assert len(done) == 100


# --- cancellation -----------------------------------------------------------------------------------------------------------


async def test_a_cancelled_getter_leaves_the_item_to_the_next() -> None:
    queue = WorkQueue[str]()
    getter = asyncio.create_task(queue.get())
    await turns()
    getter.cancel()
    queue.add("a", reason="created")
    await turns()
    assert getter.cancelled()
    assert (await queue.get()).key == "a"


async def test_a_getter_cancelled_after_it_was_woken_passes_its_turn_on() -> None:
    queue = WorkQueue[str]()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await turns()
    queue.add("a", reason="created")  # wakes the first
    first.cancel()
    async with asyncio.timeout(10):
        assert (await second).key == "a"
    assert first.cancelled()


async def test_getter_cancelled_during_an_add_leaves_the_item_to_the_next() -> None:
    queue = WorkQueue[str]()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await turns()
    first.cancel()  # its future is cancelled, but its task has not run yet
    queue.add("a", reason="created")
    async with asyncio.timeout(10):
        assert (await second).key == "a"
    assert first.cancelled()


async def test_a_cancelled_getter_is_not_counted_any_more() -> None:
    queue = WorkQueue[str]()
    getter = asyncio.create_task(queue.get())
    await turns()
    assert queue.statistics().getters == 1
    getter.cancel()
    await turns()
    assert queue.statistics().getters == 0


async def test_a_getter_whose_item_was_taken_by_another_goes_on_waiting() -> None:
    queue = WorkQueue[str]()
    waiting = asyncio.create_task(queue.get())
    await turns()
    quick = asyncio.create_task(queue.get())
    await asyncio.sleep(0)  # the quick worker has yielded once and is about to take an item
    queue.add("a", reason="created")  # wakes the waiting worker, which runs after it
    assert (await quick).key == "a"
    await turns()
    assert not waiting.done()
    assert queue.statistics().getters == 1
    queue.add("b", reason="created")
    assert (await waiting).key == "b"
    assert queue.statistics().getters == 0


@pytest.mark.parametrize("moment", range(8))
async def test_a_getter_cancelled_at_any_time_loses_no_item(moment: int) -> None:
    queue = WorkQueue[str]()
    getter = asyncio.create_task(queue.get())
    steps: list[Callable[[], object]] = [
        lambda: queue.add("a", reason="created"),
        lambda: queue.add_after("b", 0.0, reason="created"),
    ]
    for step in range(8):
        if step == moment:
            getter.cancel()
        if step % 3 == 1 and steps:
            steps.pop(0)()
        await asyncio.sleep(0)
    got = [getter.result().key] if not getter.cancelled() else []
    queue.shut_down()
    rest = [item.key async for item in queue]
    assert sorted(got + rest) == ["a", "b"]


async def test_a_get_that_times_out_loses_no_item() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 10.0, reason="asked")
    got = []
    for _ in range(4):
        try:
            async with asyncio.timeout(10.0 / 3):
                got.append((await queue.get()).key)
        except TimeoutError:
            pass
    queue.shut_down()
    got += [item.key async for item in queue]
    assert got == ["a"]


# --- shutting down ----------------------------------------------------------------------------------------------------------


async def test_after_shut_down_getters_receive_ready_items_and_then_shutdown() -> None:
    queue = WorkQueue[str]()
    for key in "ab":
        queue.add(key, reason="created")
    queue.add_after("c", 1.0, reason="asked")
    queue.shut_down()
    queue.add("d", reason="created")
    assert queue.shutting_down
    assert [item.key async for item in queue] == ["a", "b"]
    with pytest.raises(ShutDown):
        await queue.get()


async def test_waiting_getters_learn_of_the_end() -> None:
    queue = WorkQueue[str]()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await turns()
    queue.shut_down()
    results = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(result) for result in results] == [ShutDown] * 3


async def test_idle_getter_takes_the_re_run_of_an_ended_workers_key() -> None:
    queue = WorkQueue[str]()
    queue.add("a", reason="created")
    await queue.get()
    queue.add("a", reason="changed")
    dispatcher = asyncio.create_task(queue.get())
    await turns()
    queue.shut_down()
    await turns()
    assert not dispatcher.done()
    queue.done("a")
    assert (await dispatcher).reasons == ("changed",)


async def test_the_last_item_ends_the_other_getters() -> None:
    queue = WorkQueue[str]()
    queue.add("a", reason="created")
    await queue.get()
    queue.add("a", reason="changed")
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await turns()
    queue.shut_down()
    queue.done("a")
    async with asyncio.timeout(10):
        results = await asyncio.gather(*getters, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Item", "ShutDown", "ShutDown"]


async def test_drain_waits_for_work_but_not_for_delayed_keys() -> None:
    queue = WorkQueue[str]()
    log: list[tuple[str, float]] = []
    worker = asyncio.create_task(work(queue, log, seconds=10.0))
    for key in "ab":
        queue.add(key, reason="created")
    queue.add_after("c", 15.0, reason="asked")
    await turns()
    assert await queue.drain(60.0) is True
    assert (now(), log) == (20.0, [("a", 0.0), ("b", 10.0)])
    await worker
    assert queue.statistics().dropped == 1


async def test_drain_includes_the_re_run_of_a_key_in_work() -> None:
    queue = WorkQueue[str]()
    log: list[tuple[str, float]] = []
    worker = asyncio.create_task(work(queue, log, seconds=10.0))
    queue.add("a", reason="created")
    await turns()
    queue.add("a", reason="changed")
    assert await queue.drain(60.0) is True
    assert log == [("a", 0.0), ("a", 10.0)]
    await worker


async def test_drain_returns_false_after_its_timeout() -> None:
    queue = WorkQueue[str]()
    queue.add("a", reason="created")
    await queue.get()
    assert await queue.drain(5.0) is False
    assert now() == 5.0
    queue.done("a")
    assert await queue.drain(0.0) is True


async def test_draining_an_idle_queue_is_immediate() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 100.0, reason="asked")
    assert await queue.drain(5.0) is True
    assert now() == 0.0


async def drain(queue: WorkQueue[str]) -> object:
    return await queue.drain(50.0)


async def shut_down(queue: WorkQueue[str]) -> object:
    queue.shut_down()
    return True


@pytest.mark.parametrize(
    "calls",
    [
        [drain, drain],
        [shut_down, drain],
        [drain, shut_down],
        [shut_down, shut_down],
        [drain, shut_down, drain, drain, shut_down],
    ],
)
async def test_concurrent_and_repeated_shut_down_and_drain_do_not_deadlock(
    calls: list[Callable[[WorkQueue[str]], Awaitable[object]]],
) -> None:
    queue = WorkQueue[str]()
    log: list[tuple[str, float]] = []
    workers = [asyncio.create_task(work(queue, log, seconds=10.0)) for _ in range(2)]
    for key in "abc":
        queue.add(key, reason="created")
    await turns()
    async with asyncio.timeout(100):
        assert await asyncio.gather(*(call(queue) for call in calls)) == [True] * len(calls)
        await asyncio.gather(*workers)
    assert len(log) == 3


async def test_a_cancelled_drain_leaves_the_others_waiting() -> None:
    queue = WorkQueue[str]()
    queue.add("a", reason="created")
    await queue.get()
    first = asyncio.create_task(queue.drain())
    second = asyncio.create_task(queue.drain())
    await turns()
    first.cancel()
    queue.done("a")
    async with asyncio.timeout(10):
        assert await second is True
    assert first.cancelled()


async def test_a_worker_may_drain_its_own_queue_with_a_timeout() -> None:
    queue = WorkQueue[str]()
    queue.add("a", reason="created")
    await queue.get()
    assert await queue.drain(1.0) is False  # its own work is not done; without a timeout this would deadlock
    queue.done("a")


async def test_no_timer_is_left_after_shut_down() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 1e6, reason="asked")
    queue.shut_down()
    assert queue._timer is None


# --- one timer, no tasks ----------------------------------------------------------------------------------------------------


async def test_ten_thousand_delayed_keys_need_one_timer_and_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers = 0
    call_at = loop.call_at

    def counted(when: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        nonlocal timers
        timers += 1
        return call_at(when, callback, *args)

    monkeypatch.setattr(loop, "call_at", counted)
    queue = WorkQueue[int]()
    for number in range(10_000):
        queue.add_after(number, 10.0 + number % 7, reason="asked")
    assert (timers, len(asyncio.all_tasks())) == (1, 1)
    keys = {(await queue.get()).key for _ in range(10_000)}
    assert keys == set(range(10_000))
    assert timers == 7, "one for each instant"


async def test_building_a_queue_needs_no_loop_and_starts_nothing() -> None:
    assert isinstance(await asyncio.to_thread(WorkQueue[str]), WorkQueue)


async def test_the_depth_counts_due_keys_even_if_every_worker_is_busy() -> None:
    queue = WorkQueue[str]()
    queue.add("a", reason="created")
    await queue.get()
    queue.add_after("b", 10.0, reason="asked")
    await asyncio.sleep(20.0)
    assert queue._core.ready == 1, "the timer moved it without anybody asking"


async def test_why_explains_each_waiting_key() -> None:
    queue = WorkQueue[str](limiter=ItemExponential(60.0, 100.0))
    queue.add("a", reason="created")
    item = await queue.get()
    await asyncio.sleep(2.0)
    queue.add_rate_limited(item.key, reason="retry")
    assert queue.has("a")
    snapshot = queue.snapshot()
    assert [(working.key, working.seconds, working.again) for working in snapshot.working] == [("a", 2.0, True)]
    queue.done("a")
    waiting = queue.why("a")
    assert waiting is not None
    assert (waiting.next_at, waiting.in_seconds, waiting.wait, waiting.failures, waiting.why) == (
        62.0,
        60.0,
        WaitReason.BACKOFF,
        1,
        "retry",
    )
    assert queue.snapshot(limit=1).waiting == (waiting,)
    statistics = queue.statistics()
    assert (statistics.delayed, statistics.retries, statistics.getters) == (1, 1, 0)
    assert queue.remove("a")
    assert not queue.has("a")
