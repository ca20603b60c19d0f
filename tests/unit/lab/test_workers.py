"""Work in several processes: order, what comes back, what fails."""

from __future__ import annotations

import os

import pytest

from konverge.testing.lab.workers import WorkFailed, possible, spread

pytestmark = pytest.mark.skipif(not possible(), reason="processes cannot be forked here")


def test_every_place_is_done_once_in_other_processes() -> None:
    done = dict(spread(lambda place: (place * place, os.getpid()), 7, 2, lambda: True))
    assert {place: value for place, (value, _) in done.items()} == {place: place * place for place in range(7)}
    assert os.getpid() not in {process for _, process in done.values()}


def test_nothing_more_is_handed_out_once_time_is_up() -> None:
    left = iter([True, True, True])
    assert sorted(place for place, _ in spread(lambda place: place, 50, 2, lambda: next(left, False))) == [0, 1, 2]


def test_what_raises_is_told_with_its_place() -> None:
    with pytest.raises(WorkFailed, match="ZeroDivisionError") as failed:
        list(spread(lambda place: 1 // (2 - place), 5, 1, lambda: True))
    assert failed.value.place == 2


def test_a_worker_that_dies_is_told_and_hangs_nobody() -> None:
    with pytest.raises(WorkFailed, match="died") as failed:
        list(spread(lambda _: os._exit(3), 3, 2, lambda: True))
    assert failed.value.place in (0, 1)
