"""Changes of a stamp by other writers cost each object a bounded number of writes and warnings."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.runtime.sharding.forgeries import Forgeries

LONGEST = 15.0


def attacked(forgeries: Forgeries, pause: float, seconds: float) -> list[float]:
    """Change the stamp of an object at each `pause`, write it again as soon as allowed, and return the times of the writes."""
    written: list[float] = []
    for number in range(int(seconds / pause)):
        now = number * pause
        forgeries.note("a", now)
        due = now + forgeries.wait("a", now)
        assert due <= now + LONGEST
        if due < now + pause:
            written.append(due)
            forgeries.wrote("a")
    return written


def test_single_changes_are_written_again_at_once() -> None:
    assert attacked(Forgeries(LONGEST), 61.0, 6100.0) == [61.0 * minute for minute in range(100)]


@pytest.mark.parametrize("pause", [0.01, 0.5, 7.0, 16.0, 59.0])
def test_an_object_under_attack_is_written_again_rarely_and_never_left_out(pause: float) -> None:
    written = attacked(Forgeries(LONGEST), pause, 600.0)
    assert len(written) <= 600 / LONGEST + 10
    assert max(after - before for before, after in itertools.pairwise(written)) <= LONGEST + pause + 1e-6


def test_warnings_of_an_object_are_ten_minutes_apart_and_count_the_changes() -> None:
    forgeries = Forgeries(LONGEST)
    counts = [forgeries.note("a", float(second)) for second in range(1201)]
    assert {second: count for second, count in enumerate(counts) if count} == {0: 1, 600: 600, 1200: 600}


def test_an_object_that_is_left_in_peace_begins_again() -> None:
    forgeries = Forgeries(LONGEST)
    attacked(forgeries, 1.0, 100.0)
    assert forgeries.wait("a", 99.0)
    forgeries.wrote("a")
    forgeries.note("a", 200.0)
    assert forgeries.wait("a", 200.0) == 0.0


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 30)), max_size=200))
def test_other_objects_wait_for_nothing_and_memory_is_bounded(changes: list[tuple[str, float]]) -> None:
    forgeries, now = Forgeries(LONGEST, size=4), 0.0
    for uid, pause in changes:
        now += pause
        forgeries.note(uid, now)
        assert forgeries.wait(uid, now) <= LONGEST
        assert forgeries.wait("victim", now) == 0.0
        assert len(forgeries) <= 4
