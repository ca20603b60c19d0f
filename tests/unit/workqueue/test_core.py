"""The rules of the queue, with the time as an argument."""

import math

import pytest

from konverge.workqueue import MAX_REASONS, Item, ItemExponential, QueueCore


def take(core: QueueCore[str], now: float = 0.0) -> list[str]:
    """Take all ready keys."""
    keys = []
    while (item := core.get(now)) is not None:
        keys.append(item.key)
    return keys


def end(core: QueueCore[str]) -> tuple[bool, bool]:
    """Return whether the queue has ended and whether it is drained."""
    return core.ended, core.drained


def only(core: QueueCore[str], now: float = 0.0) -> Item[str]:
    """Take the next item, which must exist."""
    item = core.get(now)
    assert item is not None
    return item


# --- add, get, done ---------------------------------------------------------------------------------------------------------


def test_many_adds_of_a_waiting_key_are_one_run() -> None:
    core = QueueCore[str]()
    for _ in range(5):
        core.add("a", 0.0, reason="event")
    assert take(core) == ["a"]
    core.done("a", 0.0)
    assert take(core) == []


def test_a_key_in_work_is_not_handed_out_a_second_time() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    assert take(core) == ["a"]
    core.add("a", 0.0, reason="event")
    core.add("b", 0.0, reason="event")
    assert take(core, 1e6) == ["b"]


@pytest.mark.parametrize("adds", [1, 2, 7])
def test_any_number_of_adds_during_work_cause_exactly_one_more_run(adds: int) -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    for _ in range(adds):
        core.add("a", 1.0, reason="event")
    core.done("a", 2.0)
    only(core, 2.0)
    core.done("a", 3.0)
    assert take(core, 3.0) == []
    assert not core.has("a")


def test_no_add_during_work_means_no_further_run() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    core.done("a", 1.0)
    assert take(core, 1e6) == []


def test_key_added_during_its_work_queues_at_the_back_afterwards() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    core.add("a", 1.0, reason="event")
    core.add("b", 2.0, reason="event")
    core.done("a", 3.0)
    assert take(core, 3.0) == ["b", "a"]


def test_done_without_get_raises_and_names_the_key() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    with pytest.raises(ValueError, match="the key is not in work"):
        core.done("a", 0.0)
    only(core)
    core.done("a", 0.0)
    with pytest.raises(ValueError, match="exactly once"):
        core.done("a", 0.0)


# --- delays -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delays", "runs_at"),
    [([5.0], 5.0), ([5.0, 9.0], 5.0), ([9.0, 5.0], 5.0), ([9.0, 5.0, 7.0], 5.0), ([9.0, 0.0], 0.0), ([9.0, -3.0], 0.0)],
)
def test_the_earliest_time_wins(delays: list[float], runs_at: float) -> None:
    core = QueueCore[str]()
    for delay in delays:
        core.add_after("a", delay, 0.0, reason="asked")
    if runs_at:
        assert take(core, runs_at - 0.001) == []
    assert take(core, runs_at) == ["a"]
    core.done("a", runs_at)
    assert take(core, 1e6) == [], "the later times were merged, not kept"


def test_event_runs_a_delayed_key_at_once_and_replaces_the_delay() -> None:
    core = QueueCore[str]()
    core.add_after("a", 100.0, 0.0, reason="resync", priority=2)
    core.add("a", 3.0, reason="changed")
    item = only(core, 3.0)
    assert (item.reasons, item.priority, item.added_at, item.waited) == (("resync", "changed"), 2, 0.0, 0.0)
    core.done("a", 3.0)
    assert core.next_at() is None


def test_a_delayed_add_during_work_keeps_its_time_after_done() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    core.add_after("a", 10.0, 0.0, reason="later")
    core.done("a", 1.0)
    assert take(core, 9.9) == []
    assert only(core, 10.0).reasons == ("later",)


def test_a_delay_that_ends_during_work_waits_for_done() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    core.add_after("a", 10.0, 0.0, reason="later")
    assert take(core, 20.0) == []
    core.done("a", 25.0)
    item = only(core, 30.0)
    assert item.waited == 20.0, "it was ready from 10 on"


def test_event_during_work_moves_a_delayed_run_to_the_work_end() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    core.add_after("a", 100.0, 0.0, reason="later")
    core.add("a", 1.0, reason="changed")
    core.done("a", 2.0)
    assert only(core, 2.0).reasons == ("later", "changed")
    core.done("a", 3.0)
    assert not core.has("a")


@pytest.mark.parametrize("requeue", ["add_after", "add_rate_limited"])
@pytest.mark.parametrize(
    ("queued", "in_work", "runs_at"),
    [(None, False, 5.0), (0.0, False, 0.0), (2.0, False, 2.0), (90.0, False, 5.0), (0.0, True, 1.0), (2.0, True, 2.0), (90.0, True, 5.0)],
    ids=["not queued", "ready", "due before", "due later", "held by its work", "due before, in work", "due later, in work"],
)  # fmt: skip
def test_requeue_of_a_queued_key_runs_once_at_the_earlier_time(
    requeue: str, queued: float | None, in_work: bool, runs_at: float
) -> None:
    core = QueueCore[str](limiter=ItemExponential(base=5.0, cap=100.0))
    if in_work:
        core.add("a", 0.0, reason="event")
        only(core)
    if queued is not None:
        core.add_after("a", queued, 0.0, reason="queued")
    if requeue == "add_after":
        core.add_after("a", 5.0, 0.0, reason="requeue")
    else:
        core.add_rate_limited("a", 0.0, reason="requeue")
    if in_work:
        assert take(core, 1.0) == []
        core.done("a", 1.0)
    if runs_at > 1.0:
        assert take(core, runs_at - 0.001) == []
    assert only(core, runs_at).reasons[-1] == "requeue"
    core.done("a", runs_at)
    assert not core.has("a")


def test_delayed_keys_are_handed_out_by_time_even_if_get_is_late() -> None:
    core = QueueCore[str]()
    for key, delay in ("c", 3.0), ("a", 1.0), ("d", 4.0), ("b", 2.0):
        core.add_after(key, delay, 0.0, reason="asked")
    core.add("e", 3.5, reason="event")
    assert take(core, 100.0) == ["a", "b", "c", "e", "d"]


@pytest.mark.parametrize("delay", [math.inf, -math.inf, math.nan])
def test_a_delay_that_is_not_finite_is_rejected(delay: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        QueueCore[str]().add_after("a", delay, 0.0, reason="asked")


def test_the_next_time_is_that_of_the_earliest_delayed_key() -> None:
    core = QueueCore[str]()
    assert core.next_at() is None
    core.add_after("a", 7.0, 1.0, reason="asked")
    core.add_after("b", 5.0, 2.0, reason="asked")
    assert core.next_at() == 7.0
    core.add_after("a", 1.0, 3.0, reason="asked")
    assert core.next_at() == 4.0
    core.advance(4.0)
    assert core.next_at() == 7.0
    core.remove("b")
    assert core.next_at() is None


def test_key_due_during_work_precedes_the_re_run_of_that_work() -> None:
    core = QueueCore[str]()
    core.add_after("b", 5.0, 0.0, reason="asked")
    core.add("a", 0.0, reason="event")
    only(core)
    core.add("a", 1.0, reason="event")
    core.done("a", 10.0)
    assert take(core, 10.0) == ["b", "a"]


# --- priorities -------------------------------------------------------------------------------------------------------------


def test_higher_priorities_go_first_and_equal_ones_in_order() -> None:
    core = QueueCore[str]()
    for key, priority in ("a", -100), ("b", 0), ("c", 7), ("d", 0), ("e", -100), ("f", 7):
        core.add(key, 0.0, reason="event", priority=priority)
    assert take(core) == ["c", "f", "b", "d", "a", "e"]


@pytest.mark.parametrize("late", [0, 1, 7], ids="{} other low keys first".format)
@pytest.mark.parametrize("raised", [False, True], ids=["", "with vacant places"])
def test_a_key_of_low_priority_is_not_starved(late: int, raised: bool) -> None:
    core = QueueCore[str](oldest_every=4)
    for number in range(late):
        core.add(f"low-{number}", 0.0, reason="listed", priority=-100)
    core.add("last", 1.0, reason="listed", priority=-100)
    if raised and late:
        core.add("low-0", 1.0, reason="changed", priority=5)
    taken: list[str] = []
    for step in range(100):  # twice as many events as workers can handle, all of keys that matter more
        now = 2.0 + step
        core.add(f"high-{2 * step}", now, reason="changed", priority=step % 3)
        core.add(f"high-{2 * step + 1}", now, reason="changed")
        taken.append(only(core, now).key)
    assert taken.index("last") < 4 * (late + 1)
    assert sum(key.startswith("high") for key in taken[:12]) >= 9 - raised


@pytest.mark.parametrize(("first", "second", "merged"), [(0, 5, 5), (5, 0, 5), (-100, 0, 0), (0, -100, 0), (3, 3, 3)])
@pytest.mark.parametrize("delay", [0.0, 10.0])
def test_the_highest_priority_wins(first: int, second: int, merged: int, delay: float) -> None:
    core = QueueCore[str]()
    core.add_after("a", delay, 0.0, reason="asked", priority=first)
    core.add_after("a", delay, 0.0, reason="asked", priority=second)
    assert only(core, delay).priority == merged


def test_the_priority_of_a_key_in_work_is_raised_too() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    core.add("a", 0.0, reason="event", priority=1)
    core.add("a", 0.0, reason="event", priority=4)
    core.add("b", 0.0, reason="event", priority=2)
    core.done("a", 0.0)
    assert [only(core).key, only(core).key] == ["a", "b"]


def test_a_raised_key_enters_at_the_back_of_its_new_priority() -> None:
    core = QueueCore[str]()
    for key, priority in ("a", 0), ("b", 5), ("c", 0):
        core.add(key, 0.0, reason="event", priority=priority)
    core.add("a", 1.0, reason="event", priority=5)
    core.add("d", 2.0, reason="event", priority=5)
    assert take(core, 3.0) == ["b", "a", "d", "c"]


def test_a_lower_or_equal_priority_leaves_a_key_in_its_place() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event", priority=5)
    core.add("b", 0.0, reason="event", priority=5)
    core.add("a", 1.0, reason="event", priority=5)
    core.add("a", 1.0, reason="event", priority=-1)
    assert take(core, 3.0) == ["a", "b"]


def test_a_delayed_key_of_high_priority_waits_for_its_time() -> None:
    core = QueueCore[str]()
    core.add_after("a", 5.0, 0.0, reason="asked", priority=100)
    core.add("b", 0.0, reason="event")
    assert take(core, 4.0) == ["b"]
    core.add("c", 4.0, reason="event")
    assert take(core, 5.0) == ["a", "c"]


# --- reasons ----------------------------------------------------------------------------------------------------------------


def test_an_item_carries_each_distinct_reason_in_order() -> None:
    core = QueueCore[str]()
    for reason in ("created", "child changed", "created", "resync"):
        core.add("a", 0.0, reason=reason)
    item = only(core)
    assert (item.reasons, item.more, item.why) == (
        ("created", "child changed", "resync"),
        0,
        "created, child changed, resync",
    )


def test_reasons_of_the_running_work_do_not_leak_into_the_next() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="first")
    only(core)
    core.add("a", 0.0, reason="second")
    core.done("a", 0.0)
    assert only(core).reasons == ("second",)


def test_reasons_beyond_sixteen_are_only_counted() -> None:
    core = QueueCore[str]()
    for number in range(MAX_REASONS + 3):
        core.add("a", 0.0, reason=f"child {number} changed")
    core.add("a", 0.0, reason="child 0 changed")
    item = only(core)
    assert item.reasons == tuple(f"child {number} changed" for number in range(16))
    assert item.more == 3
    assert item.why.endswith("child 15 changed …and 3 more")


def test_item_has_the_time_of_its_add_its_wait_and_failures() -> None:
    core = QueueCore[str](limiter=ItemExponential(1.0, 10.0))
    core.add("a", 5.0, reason="event")
    assert (only(core, 7.5).waited, core.failures("a")) == (2.5, 0)
    core.add_rate_limited("a", 8.0, reason="retry", priority=3)
    core.done("a", 8.0)
    item = only(core, 9.25)
    assert (item.added_at, item.waited, item.failures, item.priority, item.why) == (8.0, 0.25, 1, 3, "retry")


# --- failures, forgetting, removing -----------------------------------------------------------------------------------------


def test_a_failed_key_waits_longer_each_time_until_it_is_forgotten() -> None:
    core = QueueCore[str](limiter=ItemExponential(1.0, 100.0))
    now, starts = 0.0, []
    core.add("a", now, reason="event")
    for _ in range(4):
        only(core, now)
        starts.append(now)
        at = core.add_rate_limited("a", now, reason="retry")
        assert at is not None
        core.done("a", now)
        assert take(core, at - 0.001) == []
        now = at
    assert starts == [0.0, 1.0, 3.0, 7.0]
    core.forget("a")
    assert core.failures("a") == 0


def test_forget_never_drops_a_waiting_key() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    core.add_after("b", 5.0, 0.0, reason="asked")
    core.forget("a")
    core.forget("b")
    assert take(core, 5.0) == ["a", "b"]


@pytest.mark.parametrize("delay", [0.0, 10.0])
def test_remove_drops_the_entry_and_the_failures_of_a_key(delay: float) -> None:
    core = QueueCore[str]()
    core.add_rate_limited("a", 0.0, reason="retry")
    core.add_after("a", delay, 0.0, reason="asked")
    assert core.remove("a") is True
    assert (core.has("a"), core.failures("a"), take(core, 1e6), core.remove("a")) == (False, 0, [], False)
    core.add("a", 1.0, reason="created anew")
    assert only(core, 1.0).reasons == ("created anew",)


def test_removing_a_key_in_work_cancels_only_its_next_run() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    core.add("a", 0.0, reason="event")
    assert core.remove("a") is True
    assert core.has("a"), "it still is in work"
    core.done("a", 1.0)
    assert take(core, 1e6) == []
    assert core.statistics(2.0).depth == {}


def test_key_is_known_while_it_waits_and_during_its_work() -> None:
    core = QueueCore[str]()
    seen = [core.has("a")]
    core.add_after("a", 1.0, 0.0, reason="asked")
    seen.append(core.has("a"))
    only(core, 1.0)
    seen.append(core.has("a"))
    core.done("a", 1.0)
    seen.append(core.has("a"))
    assert seen == [False, True, True, False]


# --- shut-down --------------------------------------------------------------------------------------------------------------


def test_shut_down_refuses_adds_drops_delayed_keys_and_hands_out_ready_ones() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    core.add_after("b", 5.0, 0.0, reason="asked")
    core.add_after("c", 1.0, 0.0, reason="asked")
    core.shut_down(1.0)
    core.add("d", 1.0, reason="event")
    core.add_after("a", 0.0, 1.0, reason="asked")
    assert core.add_rate_limited("e", 1.0, reason="retry") is None
    assert end(core) == (False, False)
    assert take(core, 100.0) == ["a", "c"]
    assert end(core) == (True, False)
    core.done("a", 100.0)
    core.done("c", 100.0)
    assert end(core) == (True, True)
    statistics = core.statistics(100.0)
    assert (statistics.refused, statistics.dropped, statistics.failing, statistics.shutting_down) == (3, 1, 0, True)


def test_a_re_run_that_waits_for_its_key_survives_shut_down() -> None:
    core = QueueCore[str]()
    core.add("a", 0.0, reason="event")
    only(core)
    core.add("a", 0.0, reason="event")
    core.shut_down(0.0)
    assert take(core) == []
    assert end(core) == (False, False), "getters must go on waiting for it"
    core.done("a", 1.0)
    assert take(core, 1.0) == ["a"]
    assert end(core) == (True, False)


def test_shut_down_is_idempotent() -> None:
    core = QueueCore[str]()
    core.add_after("a", 5.0, 0.0, reason="asked")
    core.shut_down(0.0)
    core.shut_down(1.0)
    assert core.statistics(2.0).dropped == 1
    assert end(core) == (True, True)


def test_shut_down_hands_out_a_key_due_since_the_last_call() -> None:
    core = QueueCore[str]()
    core.add_after("a", 5.0, 0.0, reason="asked")
    core.shut_down(5.0)
    assert take(core, 5.0) == ["a"]


def test_time_that_runs_backwards_by_a_rounding_error_does_no_harm() -> None:
    core = QueueCore[str]()
    core.add("a", 1.0, reason="event")
    assert only(core, 0.9999999).waited == 0.0
    core.done("a", 0.9999998)
    assert core.statistics(0.9999).unfinished_work_seconds == 0.0
