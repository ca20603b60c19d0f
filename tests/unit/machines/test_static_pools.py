"""The definition itself rejects changes of a static group that no server supports, also without the webhook, which decides the same.

The same table runs on kube-apiserver in tests/e2e/machines/test_static_pools_on_a_server.py.
"""

import pytest
from crd_cases import Answer
from static_pools import CASES, SPEC, TABLE

from konverge.reconcilers.machines.pools.protection import refused_changes


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return TABLE.on_memory()


@pytest.mark.parametrize("name", CASES)
def test_the_definition_refuses_edits_of_a_static_pool(answers: dict[str, Answer], name: str) -> None:
    answer, message = answers[name], answers[name].message
    assert (answer.status, "is static" in message) == ((422, True) if CASES[name].refused else (200, False)), message
    assert CASES[name].refused in message


@pytest.mark.parametrize("name", [name for name, edit in CASES.items() if edit.status.get("isStatic")])
def test_the_webhook_refuses_the_same_edits(name: str) -> None:
    edit = CASES[name]
    stored = {**SPEC, **edit.spec}
    refused = refused_changes(stored, {**stored, **edit.change}, edit.status)
    assert list(refused) == ([edit.refused] if edit.refused else [])
