"""The machine's share of a stall, and the longest turn of a loop in CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from unittest import mock

import pytest
from baselines.peer import Turns
from peers.bystander import stand_by


@pytest.fixture
def slow_clock() -> Iterator[None]:
    """A machine that schedules the process a quarter of a second late, each time."""
    with mock.patch("peers.bystander.monotonic", side_effect=count(0, 0.26)):
        yield


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize(
    ("said", "answered"),
    [
        pytest.param(b"end\n", b"250.000\n", id="what was late is told"),
        pytest.param(b"begin\nend\n", b"0.000\n", id="what was before is forgotten"),
        pytest.param(b"end\nbegin\nend\n", b"250.000\n0.000\n", id="one load after another"),
        pytest.param(b"", b"", id="its input ends"),
    ],
)
def test_a_bystander_tells_its_longest_delay_and_ends_with_its_input(said: bytes, answered: bytes) -> None:
    words, word_in = os.pipe()
    answer_out, answers = os.pipe()
    os.write(word_in, said)
    os.close(word_in)
    stand_by(words, answers)
    os.close(words)
    os.close(answers)
    assert os.read(answer_out, 100) == answered
    os.close(answer_out)


class _Loop:
    """A loop whose turns take CPU by a clock of the test."""

    class _Selector:
        def select(self, timeout: float | None = None) -> list[object]:
            return []

    def __init__(self) -> None:
        self._selector = self._Selector()


def test_the_longest_turn_is_the_cpu_between_two_waits() -> None:
    loop = _Loop()
    turns = Turns(loop)  # type: ignore[arg-type]  # as much of a loop as it reads
    with mock.patch("baselines.peer.time.thread_time", side_effect=[1.0, 1.25, 2.0, 2.5, 2.5]):
        turns.begin()
        loop._selector.select()
        loop._selector.select()
    assert turns.longest == 500.0


def test_a_loop_without_a_selector_has_no_longest_turn() -> None:
    turns = Turns(mock.Mock(spec=[]))
    turns.begin()
    assert turns.longest is None
