"""Wait reasons, snapshots and statistics of the queue."""

import pytest

from konverge.workqueue import ItemExponential, QueueCore, Throttle, WaitReason


@pytest.fixture
def core() -> QueueCore[str]:
    return QueueCore[str](limiter=ItemExponential(8.0, 100.0), throttle=Throttle(debounce=2.0, min_interval=4.0))


def waits(core: QueueCore[str], now: float) -> dict[str, tuple[float, WaitReason, bool]]:
    return {w.key: (w.in_seconds, w.wait, w.in_work) for w in core.snapshot(now, limit=100).waiting}


def test_each_waiting_key_names_its_wait_reason(core: QueueCore[str]) -> None:
    core.add_after("working", 0.0, 0.0, reason="asked")
    core.get(0.0)
    core.add_after("paced", 0.0, 0.0, reason="asked")
    core.get(0.0)
    core.done("paced", 0.0)
    core.add_after("paced", 0.0, 0.0, reason="asked")
    core.add_after("later", 60.0, 0.0, reason="resync")
    core.add_rate_limited("failed", 0.0, reason="retry")
    core.add("fresh", 0.0, reason="event")
    core.add_after("ready", 0.0, 0.0, reason="asked")
    assert waits(core, 1.0) == {
        "ready": (0.0, WaitReason.WORKER, False),
        "fresh": (1.0, WaitReason.DEBOUNCE, False),
        "paced": (3.0, WaitReason.MIN_INTERVAL, False),
        "failed": (7.0, WaitReason.BACKOFF, False),
        "later": (59.0, WaitReason.DELAY, False),
    }
    core.add_after("working", 9.0, 1.0, reason="asked")
    assert waits(core, 1.0)["working"] == (9.0, WaitReason.DELAY, True)
    assert waits(core, 20.0)["working"] == (0.0, WaitReason.WORK, True)


def test_why_names_the_event_that_runs_a_key_before_its_retry(core: QueueCore[str]) -> None:
    core.add_rate_limited("a", 0.0, reason="retry")
    core.add("a", 1.0, reason="changed")
    waiting = core.why("a", 1.0)
    assert waiting is not None
    assert str(waiting) == "a runs in 2 s (waits for its events to settle; failures: 1) because of: retry, changed"


def test_why_returns_none_for_a_key_that_does_not_wait(core: QueueCore[str]) -> None:
    assert core.why("a", 0.0) is None
    core.add_after("a", 0.0, 0.0, reason="asked")
    core.get(0.0)
    assert core.why("a", 0.0) is None


def test_snapshot_lists_the_next_runs_in_order_and_counts_the_rest() -> None:
    core = QueueCore[str]()
    for key, delay in ("d", 30.0), ("c", 20.0), ("e", 40.0):
        core.add_after(key, delay, 0.0, reason="asked")
    core.add("held", 0.0, reason="event")
    core.get(0.0)
    core.add("held", 0.0, reason="event")
    core.add("b", 0.0, reason="event")
    core.add("a", 0.0, reason="event", priority=1)
    every = ["a", "b", "held", "c", "d", "e"]
    for limit in range(8):
        snapshot = core.snapshot(0.0, limit=limit)
        assert [waiting.key for waiting in snapshot.waiting] == every[:limit]
        assert snapshot.left_out == max(0, 6 - limit)


def test_a_snapshot_shows_what_is_in_work_since_when_and_why() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="created", priority=2)
    core.add("b", 0.0, reason="resync")
    core.get(1.0)
    core.get(2.0)
    core.add("b", 3.0, reason="changed")
    first, second = core.snapshot(5.0, limit=10).working
    assert (first.key, first.since, first.seconds, first.priority, first.why, first.again) == (
        "a",
        1.0,
        4.0,
        2,
        "created",
        False,
    )
    assert (second.key, second.seconds, second.why, second.again) == ("b", 3.0, "resync", True)
