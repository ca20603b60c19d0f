"""A failure well before its retry deadline keeps the deadline; any other failure counts."""

import math

import pytest

from konverge.workqueue import ItemExponential, QueueCore, RetryDeadlines, keeps_deadline


@pytest.mark.parametrize(
    ("now", "deadline", "early_retry", "keeps", "why"),
    [
        (10.0, None, 5.0, False, "the first failure has no deadline to keep"),
        (10.0, 100.0, 5.0, True, "far before the deadline"),
        (94.9, 100.0, 5.0, True, "still more than five seconds before"),
        (95.0, 100.0, 5.0, False, "within five seconds it is the retry"),
        (99.9, 100.0, 5.0, False, "just before"),
        (100.0, 100.0, 5.0, False, "the retry itself"),
        (170.0, 100.0, 5.0, False, "a run that outlasted the deadline"),
        (10.0, 10.005, 5.0, False, "a delay shorter than early_retry always counts"),
        (10.0, 10.005, 0.0, True, "unless early_retry is zero"),
        (10.0, 1e9, math.inf, False, "with an infinite early_retry every failure counts, as in client-go"),
    ],
)
def test_failure_keeps_the_deadline_only_if_more_than_early_retry_off(
    now: float, deadline: float | None, early_retry: float, keeps: bool, why: str
) -> None:
    assert keeps_deadline(now=now, deadline=deadline, early_retry=early_retry) is keeps, why


def test_a_kept_deadline_counts_no_failure() -> None:
    deadlines = RetryDeadlines(ItemExponential[str](20.0, 1000.0))
    assert deadlines.retry_at("a", 0.0) == 20.0
    assert [deadlines.retry_at("a", now) for now in (1.0, 7.0, 14.9)] == [20.0] * 3
    assert (deadlines.failures("a"), deadlines.deadline("a")) == (1, 20.0)
    assert deadlines.retry_at("a", 15.0) == 55.0
    assert deadlines.failures("a") == 2


def test_success_of_a_key_that_never_failed_does_not_enter_the_limiter() -> None:
    calls = []

    class Recording(ItemExponential[str]):
        def failures(self, key: str) -> int:
            calls.append(key)
            return super().failures(key)

        def forget(self, key: str) -> None:
            calls.append(key)
            super().forget(key)

    limiter = Recording()
    core = QueueCore[str](limiter=limiter)
    for now in (0.0, 1.0):
        core.add("a", now, reason="changed")
        core.get(now)
        core.forget("a")
        core.done("a", now)
    assert calls == []
    core.add_rate_limited("a", 2.0, reason="failed")
    item = core.get(3.0)
    assert item is not None
    assert item.failures == 1
    core.forget("a")
    assert calls == ["a", "a"]


def test_forgetting_frees_the_deadline_too() -> None:
    deadlines = RetryDeadlines(ItemExponential[str](20.0, 1000.0))
    deadlines.retry_at("a", 0.0)
    deadlines.retry_at("b", 0.0)
    deadlines.forget("a")
    assert (deadlines.deadline("a"), deadlines.failures("a"), len(deadlines)) == (None, 0, 1)
    assert deadlines.retry_at("a", 3.0) == 23.0


def test_a_negative_early_retry_is_rejected() -> None:
    with pytest.raises(ValueError, match="early_retry"):
        RetryDeadlines(ItemExponential[str](), early_retry=-1.0)


def storm(core: QueueCore[str], *, seconds: float, every: float) -> list[float]:
    """Fail every run while an event arrives each `every` seconds; return the delay of each failure."""
    delays = []
    now = 0.0
    core.add("a", now, reason="event")
    while now < seconds:
        if (item := core.get(now)) is not None:
            at = core.add_rate_limited(item.key, now, reason="retry")
            assert at is not None
            delays.append(at - now)
            core.done(item.key, now)
        now += every
        core.add("a", now, reason="event")
    return delays


def test_a_minute_of_failing_events_does_not_inflate_the_delay() -> None:
    # The scenario of https://github.com/kubernetes/kubernetes/issues/132805: the outage lasts a minute, with ten events a second.
    core = QueueCore[str]()
    delays = storm(core, seconds=60.0, every=0.1)
    assert len(delays) >= 600, "every event is new information and got its run"
    # Without any event: waits of 5 ms, 10 ms, ... 20.48 s make 41 s with 13 failures, and the 14th has its retry after the minute.
    assert core.failures("a") == 15, (
        "one more than without any event, for the five seconds that each long delay is cut by"
    )

    inflated = QueueCore[str](early_retry=math.inf)
    first_seconds = storm(inflated, seconds=2.0, every=0.1)
    assert max(first_seconds) == pytest.approx(1000.0), "without the rule the same storm reaches the cap in two seconds"


def test_failure_of_a_run_by_event_waits_for_the_previous_deadline() -> None:
    core = QueueCore[str](limiter=ItemExponential(20.0, 1000.0))
    core.add("a", 0.0, reason="created")
    assert core.get(0.0) is not None
    assert core.add_rate_limited("a", 0.0, reason="retry") == 20.0
    core.done("a", 0.0)

    core.add("a", 5.0, reason="changed")
    item = core.get(5.0)
    assert item is not None
    assert item.reasons == ("retry", "changed")
    assert item.failures == 1
    assert core.add_rate_limited("a", 6.0, reason="retry") == 20.0
    core.done("a", 6.0)

    assert core.failures("a") == 1
    assert core.get(19.9) is None
    assert core.get(20.0) is not None


def test_a_success_before_the_retry_deadline_ends_the_backoff() -> None:
    core = QueueCore[str](limiter=ItemExponential(20.0, 1000.0))
    core.add("a", 0.0, reason="created")
    core.get(0.0)
    core.add_rate_limited("a", 0.0, reason="retry")
    core.done("a", 0.0)
    core.add("a", 5.0, reason="changed")
    core.get(5.0)
    core.forget("a")
    core.done("a", 5.0)
    assert core.next_at() is None
    assert core.get(20.0) is None
    assert core.statistics(20.0).failing == 0


def test_retry_of_a_key_with_an_outlasted_deadline_starts_from_now() -> None:
    core = QueueCore[str](limiter=ItemExponential(20.0, 1000.0))
    core.add("a", 0.0, reason="created")
    core.get(0.0)
    core.add_rate_limited("a", 0.0, reason="retry")
    core.done("a", 0.0)
    core.add("a", 10.0, reason="changed")
    core.get(10.0)
    assert core.add_rate_limited("a", 30.0, reason="retry") == 70.0
    assert core.failures("a") == 2
