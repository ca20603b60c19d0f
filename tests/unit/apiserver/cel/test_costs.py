"""Estimated costs of rules: figures of kube-apiserver, which the conformance cases in `costs.yaml` compare with many more."""

from __future__ import annotations

from typing import Any

import pytest

from konverge.testing.apiserver.cel import rule_cost
from konverge.testing.apiserver.nodes import Node
from konverge.testing.apiserver.schemas.crd.schema import schema_errors

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
