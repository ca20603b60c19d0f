"""Estimated costs of rules: figures of kube-apiserver, which the conformance cases in `costs.yaml` compare with many more."""

from typing import Any

import pytest

from konverge_testing.apiserver.cel import rule_cost, validate_rules
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.crd.schema import schema_errors
from konverge_testing.apiserver.statuses import StatusError

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


def test_rule_over_the_cost_limit_is_refused_unless_already_stored() -> None:
    schema = {"a": dear(6_000_000)}
    [words] = refused(schema)
    assert words.startswith(
        "schema.properties[a].items.x-kubernetes-validations[0].rule: estimated rule cost exceeds budget by factor of 1.200000x (try"
    )
    assert refused(schema, unchanged=True) == []


def test_rules_over_the_total_cost_are_refused_even_if_stored() -> None:
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


def test_rules_of_one_object_share_a_budget_for_equal_values_too() -> None:
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


NUMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}
MANY = {"n": [*range(15_000)], "m": {str(number): number for number in range(11_000)}}


def verdict(rule: str, value: dict[str, Any]) -> list[str]:
    node = Node({**NUMBERS, "x-kubernetes-validations": [{"rule": rule, "message": "refused"}]})
    return [one.detail for one in validate_rules(node, value, None, "spec")]


@pytest.mark.parametrize(
    ("rule", "details"),
    [
        ("self.n.all(x, x >= 0)", []),
        ("self.n.all(x, x < 14999)", ["refused"]),
        ("self.n.exists(x, x == 14999)", []),
        ("self.n.exists_one(x, x == 14999)", []),
        ("self.n.exists(x, x > 14000 && 10 / (x - 14999) == -10 && x == 14998)", []),
        ("self.n.exists(x, 10 / x > 10)", ["division by zero evaluating rule: refused"]),
        ("self.n.exists(x, 10 / x > 10) || size(self.m) > 0", []),
        ("self.n.all(i, x, i == x)", []),
        ("self.m.all(k, v, int(k) == v)", []),
        ("self.m.all(k, self.m[k] < 10999)", ["refused"]),
        ("size(self.n) == 1 && self.n.all(x, self.n.all(y, x == y))", ["refused"]),
    ],
)
def test_loop_beyond_the_cel_library_limit_runs_in_parts(rule: str, details: list[str]) -> None:
    assert verdict(rule, MANY) == details


@pytest.mark.parametrize(("last", "details"), [(150, []), (7, ["refused"])])
def test_loops_within_loops_are_run_in_parts(last: int, details: list[str]) -> None:
    assert verdict("self.n.all(x, self.n.exists_one(y, x == y))", {"n": [*range(150), last], "m": {}}) == details


def test_loop_beyond_the_cost_limit_ends_early() -> None:
    [detail] = verdict("self.n.all(x, self.n.exists_one(y, x == y))", {"n": [*range(3_000)], "m": {}})
    assert detail.startswith("'operation cancelled: actual cost limit exceeded'")


@pytest.mark.parametrize("made", ["timestamp('2020-01-01T00:00:00Z')", "duration('1h')", "optional.of(x)"])
def test_long_loops_beside_one_that_accumulates_times_or_optional_values_are_absent(made: str) -> None:
    rule = f"size(self.n.map(x, {made})) > 0 && self.n.all(x, self.n.all(y, x == y))"
    with pytest.raises(StatusError, match="more than 10,000 iterations") as absent:
        verdict(rule, {"n": [7] * 120, "m": {}})
    assert absent.value.code == 501


def test_a_variable_in_a_branch_of_a_condition_costs_nothing() -> None:
    rule = "self.n.all(x, self.n.all(y, (y >= 0 ? x : y) >= 0))"
    assert verdict(rule, {"n": [*range(400)], "m": {}}) == []
    assert "call cost exceeds limit" in verdict(rule, {"n": [*range(410)], "m": {}})[0]
