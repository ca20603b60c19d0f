"""Estimated costs of rules: figures of kube-apiserver, which the conformance cases in `costs.yaml` compare with many more."""

from __future__ import annotations

from typing import Any

import pytest

from konverge.testing.apiserver.cel import rule_cost, validate_rules
from konverge.testing.apiserver.nodes import Node
from konverge.testing.apiserver.schemas.crd.schema import schema_errors
from konverge.testing.apiserver.statuses import StatusError

TEXT = {"type": "string", "maxLength": 20}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "s": TEXT,
        "w": {"type": "string", "maxLength": 7},
        "u": {"type": "string"},
        "l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 8}},
        "li": {"type": "array", "maxItems": 6, "items": {"type": "integer"}},
        "m": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string", "maxLength": 6}},
        "o": {"type": "object", "properties": {"p": {"type": "string", "maxLength": 3}}},
    },
}


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        ("self.i > 5", 3),
        ("self.s == self.w", 7),
        ("self.u == self.u", 314_577),
        ("self.s.matches('^[a-z]+$')", 20),
        ("self.l.all(x, x.size() < 3)", 33),
        ("self.m.all(k, v, v == 'a' && k == 'b')", 27),
        ("self.s.split(',').all(x, x == 'a')", 339),
        ("[self.s, self.w].all(x, x == 'abc')", 23),
        ("has(self.o) && has(self.o.p)", 3),
        ("quantity(self.s).isGreaterThan(quantity('5'))", 12),
        ("self.li.sort() == self.li", 88),
    ],
)
def test_a_rule_costs_what_a_real_server_estimates(rule: str, cost: int) -> None:
    assert rule_cost(Node(SPEC), rule) == cost


def test_a_rule_costs_as_often_as_its_place_may_occur() -> None:
    assert rule_cost(Node(SPEC), "self.i > 5", cardinality=7) == 21
    assert rule_cost(Node(TEXT), "self == 'a'", cardinality=None) == 2 * (3 << 20) // 3


def refused(schema: dict[str, Any], *, unchanged: bool = False) -> list[str]:
    found = schema_errors({"type": "object", "properties": schema}, "schema", has_status=False, unchanged=unchanged)
    return [f"{one.field}: {one.detail}" for one in found]


def dear(items: int, rules: int = 1) -> dict[str, Any]:
    several = [{"rule": f"self > {number}"} for number in range(rules)]
    return {"type": "array", "maxItems": items, "items": {"type": "integer", "x-kubernetes-validations": several}}


def test_a_rule_over_the_limit_is_refused_unless_its_schema_is_stored_already() -> None:
    schema = {"a": dear(6_000_000)}
    [words] = refused(schema)
    assert words.startswith(
        "schema.properties[a].items.x-kubernetes-validations[0].rule: estimated rule cost exceeds budget by factor of 1.200000x (try"
    )
    assert refused(schema, unchanged=True) == []


def test_rules_that_cost_too_much_together_are_refused_even_if_their_schema_is_stored() -> None:
    words = refused({"a": dear(4_900_000, rules=11)}, unchanged=True)
    assert [one.partition(": ")[2][:40] for one in words[:4]] == ["contributed to estimated rule cost total"] * 4
    assert "for entire OpenAPIv3 schema exceeds budget by factor of 1.078000x" in words[4]


PATTERN = "[" + "ab" * 199 + "]+"
SLOW = Node(
    {
        "type": "object",
        "properties": {"n": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": f"self.n.all(x, self.s.matches('{PATTERN}'))", "message": "slow"}],
    }
)
"""A rule that costs 20,106 for each item if the text has 1,999 characters."""


def slow(items: int) -> dict[str, Any]:
    return {"n": [1] * items, "s": "a" * 1999}


def test_a_rule_that_costs_more_than_a_call_may_ends_the_validation() -> None:
    assert validate_rules(SLOW, slow(49), None, "spec") == []
    [error] = validate_rules(SLOW, slow(51), None, "spec")
    assert error.field == "spec"
    assert error.detail == (
        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for"
        " rule: slow"
    )


def test_the_rules_of_one_object_share_a_budget_also_where_values_are_alike() -> None:
    several = Node({"type": "array", "items": SLOW.raw})
    assert validate_rules(several, [slow(40)] * 12, None, "spec") == []
    [error] = validate_rules(several, [slow(40)] * 13, None, "spec")
    assert error.field == "spec[12]"
    assert (
        error.detail == "validation failed due to running out of cost budget, no further validation rules will be run"
    )


def test_the_end_of_a_loop_and_a_decided_condition_cost_nothing_more() -> None:
    loop = {"rule": f"self.n.exists(x, x == 1 || self.s.matches('{PATTERN}') && x == 3)"}
    node = Node({**SLOW.raw, "x-kubernetes-validations": [loop]})
    assert validate_rules(node, slow(60), None, "spec") == []
    assert validate_rules(node, {**slow(60), "n": [2] * 60}, None, "spec") != []


def test_a_rule_with_too_many_iterations_is_absent_rather_than_an_accident() -> None:
    nested = {"rule": "self.n.all(x, self.n.all(y, x == y))"}
    node = Node({**SLOW.raw, "x-kubernetes-validations": [nested]})
    with pytest.raises(StatusError, match="more than 10,000 iterations") as absent:
        validate_rules(node, slow(200), None, "spec")
    assert absent.value.code == 501
