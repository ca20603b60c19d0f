"""The kinds of Nstance on kube-apiserver: it installs their definitions, and decides by them as the in-memory server does."""

import pytest
from crd_cases import Answer
from machines_crd_cases import TABLE

pytestmark = pytest.mark.control_plane

Answers = dict[str, Answer]


@pytest.mark.parametrize("name", TABLE.cases)
def test_both_servers_decide_in_the_same_words_what_may_be_written(answers: tuple[Answers, Answers], name: str) -> None:
    real, memory = answers
    assert (memory[name].status, memory[name].message) == (real[name].status, real[name].message)
    for part in ("spec", "status"):
        assert memory[name].document.get(part) == real[name].document.get(part)
