"""Some planted mistakes of operators are found by the oracles that they name; `make mutants` plays all of them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[4] / "tools" / "mutants"
SOME = (
    "operator-missing-rule-swallowed",
    "operator-missing-owner-reference",
    "operator-forgotten-await",
    "operator-time-in-condition",
    "operator-condition-removed",
    "operator-wrong-mapping",
)
"""One mistake for each oracle that needs no more than a plan."""


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(TOOLS))
    before = set(sys.modules)
    import by_operator

    yield by_operator
    for name in ("by_operator", "catalogue", "operator_mistakes", "planting"):
        if name not in before:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("name", SOME)
def test_a_planted_mistake_is_found_by_its_oracle(operators: Any, name: str) -> None:
    [mistake] = [each for each in operators.MISTAKES if each.mutant.name == name]
    assert operators.fault_of(mistake) == ""


def test_a_mistake_that_no_oracle_finds_is_a_fault(operators: Any) -> None:
    from dataclasses import replace

    [mistake] = [each for each in operators.MISTAKES if each.mutant.name == SOME[0]]
    harmless = replace(mistake.mutant, new="await ctx.own(service(cache))\npass")
    assert (
        operators.fault_of(replace(mistake, mutant=harmless))
        == "not found by 'rights' under 'no fault', but: reference: []"
    )
