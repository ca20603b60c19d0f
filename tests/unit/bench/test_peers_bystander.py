"""The machine's share of a stall: an idle process measures the delay of its wake-ups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from unittest import mock

import pytest
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
