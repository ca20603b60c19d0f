"""The watch over the event loop. It measures real time, so these tests run loops of their own, and block them on purpose.

A test waits until the watch has seen the stall or the loop has responded to the watch, never for time to pass. `Watch` looks at the loop
only while `block_until` blocks it: on a busy machine any other line may last longer than the threshold.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from event_loops import LOOPS

from konverge.metrics import Metrics
from konverge.runtime.observability import event_loop
from konverge.runtime.observability.event_loop import EventLoopMonitor, should_watch, trimmed
from konverge_testing.loop import VirtualTimeLoop

PATIENCE = 20.0


def counted(metrics: Metrics) -> dict[str, float]:
    return {
        sample.labels["controller"]: sample.value
        for family in metrics.blocking_calls.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def pings(metrics: Metrics) -> float:
    return next(s.value for f in metrics.loop_lag.collect() for s in f.samples if s.name.endswith("_count"))


BLOCKING = threading.Event()
"""Set while `block_until` blocks a loop."""


class Watch(EventLoopMonitor):
    """A watch that pings a loop only while `block_until` blocks it."""

    def _ping(self) -> bool:
        while not (BLOCKING.wait(0.005) or self._stopping.is_set()):
            pass
        return super()._ping()


def block_until(seen: Callable[[], object]) -> None:
    """Block the loop until the watch has noticed it."""
    checked = threading.Event()
    BLOCKING.set()
    try:
        for _ in range(int(PATIENCE / 0.005)):
            if seen():
                return
            checked.wait(0.005)
    finally:
        BLOCKING.clear()
    raise AssertionError("the watch saw nothing")


def run(program: Coroutine[Any, Any, None], loop: str = "asyncio") -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(program)


def current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


# --- the decision -------------------------------------------------------------------------------------------------------------


def test_loop_with_real_time_is_watched_and_virtual_time_is_not() -> None:
    real, virtual = asyncio.new_event_loop(), VirtualTimeLoop()
    try:
        assert should_watch(real, 0.1)
        assert not should_watch(real, 0)
        assert not should_watch(virtual, 0.1)
    finally:
        real.close()
        virtual.close()


async def test_a_loop_with_virtual_time_gets_no_watching_thread_and_no_warning(
    metrics: Metrics, logs: list[Any]
) -> None:
    before = threading.active_count()
    with EventLoopMonitor(asyncio.get_running_loop(), metrics) as watch, watch.note(current(), "backup", "a"):
        assert threading.active_count() == before
        await asyncio.sleep(3600)
    assert (counted(metrics), pings(metrics), logs) == ({}, 0, [])


# --- stalls -------------------------------------------------------------------------------------------------------------------


def a_blocking_library(metrics: Metrics) -> None:
    block_until(lambda: counted(metrics))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_blocking_reconcile_is_reported_with_its_key_and_its_stack(
    loop: str, metrics: Metrics, logs: list[Any]
) -> None:
    async def reconcile() -> None:
        a_blocking_library(metrics)

    async def program() -> None:
        with (
            Watch(asyncio.get_running_loop(), metrics, threshold=0.02) as watch,
            watch.note(current(), "backup", "Backup web/nightly"),
        ):
            await reconcile()
            await asyncio.sleep(0)

    run(program(), loop)
    assert counted(metrics) == {"backup": 1}
    (entry,) = logs
    assert (entry["log_level"], entry["controller"], entry["key"]) == ("warning", "backup", "Backup web/nightly")
    assert entry["duration_seconds"] >= 0.02
    order = [
        entry["stack"].index(f"in {name}\n") for name in ("program", "reconcile", "a_blocking_library", "block_until")
    ]
    assert order == sorted(order)
    assert "in run" not in entry["stack"]


@pytest.mark.parametrize("loop", LOOPS if sys.version_info >= (3, 12) else ["asyncio"])
def test_a_task_that_a_reconcile_has_started_is_attributed_to_the_reconcile(
    loop: str, metrics: Metrics, logs: list[Any]
) -> None:
    async def child() -> None:
        block_until(lambda: counted(metrics))

    async def program() -> None:
        with (
            Watch(asyncio.get_running_loop(), metrics, threshold=0.02) as watch,
            watch.note(current(), "backup", "a"),
        ):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(child())

    run(program(), loop)
    assert counted(metrics) == {"backup": 1}
    assert logs[0]["key"] == "a"


def test_a_stall_outside_any_reconcile_is_measured_and_attributed_to_no_controller(
    metrics: Metrics, logs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        loop = asyncio.get_running_loop()
        asked = threading.Event()
        genuine = loop.call_soon_threadsafe

        def spied(*call: Any, **more: Any) -> Any:
            handle = genuine(*call, **more)
            asked.set()
            return handle

        monkeypatch.setattr(loop, "call_soon_threadsafe", spied)  # to know when a ping is under way
        with EventLoopMonitor(loop, metrics, threshold=0.02):
            assert asked.wait(PATIENCE)
            threading.Event().wait(0.06)
            while pings(metrics) == 0:
                await asyncio.sleep(0.001)

    run(program())
    slow = next(s.value for f in metrics.loop_lag.collect() for s in f.samples if s.name.endswith("_sum"))
    assert slow >= 0.05
    assert (counted(metrics), logs) == ({}, [])


def test_a_reconcile_that_awaits_does_not_count_as_a_stall(metrics: Metrics, logs: list[Any]) -> None:
    async def program() -> None:
        with (
            EventLoopMonitor(asyncio.get_running_loop(), metrics, threshold=5) as watch,
            watch.note(current(), "backup", "a"),
        ):
            while pings(metrics) < 1:
                await asyncio.sleep(0.001)

    run(program())
    assert (counted(metrics), logs) == ({}, [])


def test_stalling_controller_is_logged_every_ten_seconds_and_counted_each_time(
    metrics: Metrics, logs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        with Watch(asyncio.get_running_loop(), metrics, threshold=0.02) as watch:
            for number in (1, 2):
                with watch.note(current(), "backup", str(number)):
                    block_until(lambda: counted(metrics).get("backup", 0) >= number)  # noqa: B023  # called at once
                    await asyncio.sleep(0)
            with watch.note(current(), "restore", "3"):
                block_until(lambda: counted(metrics).get("restore"))
                await asyncio.sleep(0)
            monkeypatch.setattr(event_loop, "LOG_EVERY", 0.0)
            with watch.note(current(), "backup", "4"):
                block_until(lambda: len(logs) == 3)
                await asyncio.sleep(0)

    run(program())
    assert counted(metrics) == {"backup": 3, "restore": 1}
    assert [(entry["controller"], entry["key"]) for entry in logs] == [
        ("backup", "1"),
        ("restore", "3"),
        ("backup", "4"),
    ]


def test_a_note_inside_a_note_restores_the_outer_one_at_its_end(metrics: Metrics, logs: list[Any]) -> None:
    async def program() -> None:
        with (
            Watch(asyncio.get_running_loop(), metrics, threshold=0.02) as watch,
            watch.note(current(), "outer", "a"),
        ):
            with watch.note(current(), "inner", "b"):
                pass
            block_until(lambda: counted(metrics))
            await asyncio.sleep(0)

    run(program())
    assert [entry["controller"] for entry in logs] == ["outer"]


# --- life ---------------------------------------------------------------------------------------------------------------------


def test_the_thread_ends_with_the_block_and_nothing_is_kept(metrics: Metrics) -> None:
    async def program() -> None:
        before = set(threading.enumerate())
        for _ in range(20):
            with EventLoopMonitor(asyncio.get_running_loop(), metrics) as watch, watch.note(current(), "backup", "a"):
                assert len(set(threading.enumerate()) - before) == 1
            assert set(threading.enumerate()) == before
            assert watch._running == {}

    run(program())


def test_a_loop_that_was_closed_ends_the_thread(metrics: Metrics) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with EventLoopMonitor(loop, metrics):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "konverge stall watch"]


def test_many_short_reconciles_do_not_cause_as_many_pings(metrics: Metrics) -> None:
    async def program() -> None:
        with EventLoopMonitor(asyncio.get_running_loop(), metrics, threshold=4) as watch:
            while pings(metrics) < 1:
                await asyncio.sleep(0)
            for _ in range(300):
                with watch.note(current(), "backup", "a"):
                    await asyncio.sleep(0)

    run(program())
    assert pings(metrics) <= 2


def test_a_loop_that_begins_reconciles_is_not_pinged_at_each_look(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def program() -> None:
        with EventLoopMonitor(asyncio.get_running_loop(), metrics, threshold=0.02) as watch:
            ended, until = threading.Event(), watch._stopping.wait

            def after_a_pass(_: float) -> None:
                nonlocal looks
                begun, looks = watch._begun, looks + 1
                while watch._begun == begun and not (ended.is_set() or until(0.001)):
                    pass

            monkeypatch.setattr(watch._stopping, "wait", after_a_pass)
            while looks < 41:
                with watch.note(current(), "backup", "a"):
                    await asyncio.sleep(0)
            ended.set()

    run(program())
    assert 1 <= pings(metrics) <= 12


# --- stacks -------------------------------------------------------------------------------------------------------------------


def deep(levels: int) -> str:
    return trimmed(sys._getframe(), limit=5) if levels == 0 else deep(levels - 1)


def test_a_deep_stack_shows_its_innermost_calls() -> None:
    text = deep(30)
    assert text.startswith("  ... ")
    assert "test_a_deep_stack" not in text
    assert "in deep\n" in text


def test_the_calls_that_are_left_out_are_counted() -> None:
    frame = sys._getframe()
    calls = sum(line.startswith("  File ") for line in trimmed(frame, limit=1000).splitlines())
    assert trimmed(frame, limit=calls).startswith("  File ")
    assert trimmed(frame, limit=calls - 1).startswith("  ... 1 more\n")


def test_a_stack_of_library_frames_alone_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "_LIBRARIES", ("/",))
    assert "in test_a_stack_of_library_frames_alone_is_shown_whole" in trimmed(sys._getframe())


def test_stall_that_endangers_the_lease_is_an_error_with_its_stack(metrics: Metrics, logs: list[Any]) -> None:
    def blocks() -> None:
        block_until(lambda: [entry for entry in logs if entry["log_level"] == "error"])

    async def program() -> None:
        with Watch(asyncio.get_running_loop(), metrics, threshold=0.02, lease_seconds=0.15):
            blocks()

    run(program())
    [entry] = [entry for entry in logs if entry["log_level"] == "error"]
    assert "the lease is not renewed" in entry["event"]
    assert entry["limit_seconds"] == 0.15
    assert "blocks()" in entry["stack"]
