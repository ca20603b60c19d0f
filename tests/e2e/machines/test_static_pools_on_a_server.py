"""The rules about static pools on kube-apiserver: they keep within its budget for CEL, and decide as on the in-memory server."""

import pytest
from crd_cases import Answer
from static_pools import TABLE

pytestmark = pytest.mark.control_plane

Answers = dict[str, Answer]


@pytest.mark.parametrize("name", TABLE.cases)
def test_both_servers_decide_alike_about_a_static_pool(answers: tuple[Answers, Answers], name: str) -> None:
    real, memory = answers
    assert (memory[name].status, memory[name].message) == (real[name].status, real[name].message)
    assert TABLE.cases[name].words in real[name].message
