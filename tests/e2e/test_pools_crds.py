"""The kinds of pools on kube-apiserver: their definitions keep within its budget for CEL, and decide as on the in-memory server."""

import pytest
from crd_cases import Answer
from pools.crd_cases import TABLE

pytestmark = pytest.mark.control_plane

Answers = dict[str, Answer]


@pytest.mark.parametrize("name", TABLE.cases)
def test_both_servers_decide_in_the_same_words_what_may_be_written(answers: tuple[Answers, Answers], name: str) -> None:
    real, memory = answers
    assert TABLE.cases[name].words in real[name].message
    assert (memory[name].status, memory[name].message) == (real[name].status, real[name].message)
