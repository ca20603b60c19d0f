"""Minimum interval and debounce."""

import math

import pytest

from konverge.workqueue import ItemExponential, QueueCore, Throttle, WaitReason
from konverge.workqueue.schedule import Starts


@pytest.mark.parametrize(
    ("throttle", "first", "now", "settles"),
    [
        (Throttle(debounce=1.0), 0.0, 0.0, 1.0),
        (Throttle(debounce=1.0), 0.0, 0.9, 1.9),
        (Throttle(debounce=1.0, debounce_max=1.5), 0.0, 0.9, 1.5),
        (Throttle(debounce=1.0), 0.0, 9.5, 10.0),
        (Throttle(debounce=1.0, debounce_max=1.0), 3.0, 3.7, 4.0),
    ],
)
def test_burst_settles_after_debounce_and_within_debounce_max_of_first_event(
    throttle: Throttle, first: float, now: float, settles: float
) -> None:
    assert throttle.settles_at(first_event=first, now=now) == pytest.approx(settles)


@pytest.mark.parametrize(
    ("min_interval", "debounce", "debounce_max"),
    [
        (-1.0, 0.0, None),
        (math.inf, 0.0, None),
        (math.nan, 0.0, None),
        (0.0, -1.0, None),
        (0.0, 2.0, 1.0),
        (0.0, 1.0, math.inf),
    ],
)
def test_a_throttle_with_negative_or_contradictory_times_is_rejected(
    min_interval: float, debounce: float, debounce_max: float | None
) -> None:
    with pytest.raises(ValueError, match="throttle"):
        Throttle(min_interval=min_interval, debounce=debounce, debounce_max=debounce_max)


def run_times(core: QueueCore[str], events: list[float], *, until: float, step: float = 0.25) -> list[float]:
    """Add events at these times for an instant worker; return the times of its runs."""
    runs = []
    now = 0.0
    while now <= until:
        for event in events:
            if now <= event < now + step:
                core.add("a", event, reason="event")
        if core.get(now) is not None:
            runs.append(now)
            core.done("a", now)
        now += step
    return runs


@pytest.mark.parametrize(
    ("throttle", "events", "runs", "why"),
    [
        (Throttle(), [0.0, 0.25, 0.5], [0.0, 0.25, 0.5], "without a throttle every event runs"),
        (
            Throttle(min_interval=1.0),
            [0.0, 0.25, 0.5],
            [0.0, 1.0],
            "the second run waits for the interval and takes both events",
        ),
        (Throttle(min_interval=1.0), [0.0, 5.0], [0.0, 5.0], "an interval long past holds nothing back"),
        (Throttle(debounce=1.0), [0.0, 0.25, 0.5], [1.5], "three events, one run, a second after the last"),
        (Throttle(debounce=1.0), [0.0, 2.0], [1.0, 3.0], "two bursts are two runs"),
        (
            Throttle(debounce=1.0, debounce_max=2.0),
            [n / 2 for n in range(12)],
            [2.0, 4.5, 6.5],
            "an endless burst runs nevertheless",
        ),
        (Throttle(debounce=0.5, min_interval=3.0), [0.0, 1.0], [0.5, 3.5], "the longer of the two counts"),
    ],
)
def test_the_throttle_decides_when_events_run(
    throttle: Throttle, events: list[float], runs: list[float], why: str
) -> None:
    assert run_times(QueueCore[str](throttle=throttle), events, until=8.0) == runs, why


def test_interval_is_counted_from_the_start_even_of_running_work() -> None:
    core = QueueCore[str](throttle=Throttle(min_interval=10.0))
    core.add("a", 0.0, reason="event")
    core.get(0.0)
    core.add("a", 2.0, reason="event")
    core.done("a", 4.0)
    assert core.get(9.9) is None
    item = core.get(10.0)
    assert item is not None
    assert item.waited == 0.0, "a deliberate wait is no queueing"


def test_work_longer_than_the_interval_is_run_again_at_its_end() -> None:
    core = QueueCore[str](throttle=Throttle(min_interval=10.0))
    core.add("a", 0.0, reason="event")
    core.get(0.0)
    core.add("a", 2.0, reason="event")
    assert core.get(30.0) is None
    core.done("a", 30.0)
    assert core.get(30.0) is not None


def test_a_retry_respects_the_interval() -> None:
    core = QueueCore[str](limiter=ItemExponential(1.0, 100.0), throttle=Throttle(min_interval=10.0))
    core.add("a", 0.0, reason="event")
    core.get(0.0)
    core.add_rate_limited("a", 0.5, reason="retry")
    core.done("a", 0.5)
    assert core.get(9.75) is None
    assert core.get(10.0) is not None


def test_removing_a_key_does_not_lift_the_interval() -> None:
    core = QueueCore[str](throttle=Throttle(min_interval=10.0))
    core.add("a", 0.0, reason="event")
    core.get(0.0)
    core.done("a", 0.0)
    core.remove("a")
    core.add("a", 1.0, reason="created anew")
    assert core.next_at() == 10.0


def test_an_add_with_a_time_is_not_debounced() -> None:
    core = QueueCore[str](throttle=Throttle(debounce=10.0))
    core.add("a", 0.0, reason="event")
    core.add_after("a", 2.0, 0.0, reason="asked")
    waiting = core.why("a", 0.0)
    assert waiting is not None
    assert (waiting.next_at, waiting.wait) == (2.0, WaitReason.DELAY)
    core.add("a", 1.0, reason="event")
    assert core.next_at() == 2.0


def test_an_event_that_settles_before_the_time_of_an_add_wins() -> None:
    core = QueueCore[str](throttle=Throttle(debounce=1.0))
    core.add_after("a", 100.0, 0.0, reason="asked")
    core.add("a", 3.0, reason="event")
    waiting = core.why("a", 3.0)
    assert waiting is not None
    assert (waiting.next_at, waiting.wait) == (4.0, WaitReason.DEBOUNCE)


def test_starts_older_than_the_interval_are_dropped() -> None:
    starts = Starts[int](min_interval=10.0)
    for second in range(1000):
        starts.note(second, float(second))
    assert len(starts) == 10
    assert starts.earliest(999) == 1009.0
    assert starts.earliest(0) == -math.inf


def test_only_the_last_start_of_a_key_is_kept() -> None:
    starts = Starts[str](min_interval=10.0)
    for second in (0.0, 4.0, 8.0):
        starts.note("a", second)
    starts.note("b", 12.0)
    assert (len(starts), starts.earliest("a")) == (2, 18.0)


def test_frequently_started_key_does_not_keep_other_starts_in_memory() -> None:
    starts = Starts[int](min_interval=10.0)
    for second in range(1000):
        starts.note(-1, float(second))
        starts.note(second, float(second))
    assert len(starts) <= 12


def test_without_an_interval_no_start_is_recorded() -> None:
    starts = Starts[str](min_interval=0.0)
    starts.note("a", 1.0)
    assert len(starts) == 0
