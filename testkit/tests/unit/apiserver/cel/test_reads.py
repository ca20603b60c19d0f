"""A rule gets only the fields that it reads, with the same results."""

from typing import Any

import pytest

from konverge_testing.apiserver.cel import kinds
from konverge_testing.apiserver.cel.compiling import compile_text
from konverge_testing.apiserver.cel.programs import Program
from konverge_testing.apiserver.cel.reads import pruned, tree_of
from konverge_testing.apiserver.cel.rules import validate_rules
from konverge_testing.apiserver.nodes import Node

READS = [
    ("self.spec.mode == 'a'", {("spec", "mode")}),
    ("has(self.status)", {("status", "?")}),
    ("has(self.status) && self.status.phase == 'Up'", {("status", "?"), ("status", "phase")}),
    ("self.items.exists(c, c.type == 'A' && c.status == 'True')", {("items", "[]", "type"), ("items", "[]", "status")}),
    ("self.items.all(c, true)", {("items", "[]", "?")}),
    ("self.items.all(c, has(c.type))", {("items", "[]", "type", "?")}),
    ("self.items.map(c, c).size() > 0", {("items", "[]")}),
    ("self.items.exists(c, c.inner.exists(d, d.x == 1))", {("items", "[]", "inner", "[]", "x")}),
    ("self.items.all(c, c.x == self.y)", {("items", "[]", "x"), ("y",)}),
    ("self.items.size() == 1 && self.items.all(c, c.x == 1)", {("items",), ("items", "[]", "x")}),
    ("self.items.all(i, c, i < 3 && c.x == 1)", {("items",)}),
    ("self.items.all(self, self.x == 1)", {("items", "[]", "x")}),
    ("self == self", {()}),
]


@pytest.mark.parametrize(("rule", "read"), READS)
def test_the_paths_that_a_rule_reads_are_found(rule: str, read: set[tuple[str, ...]]) -> None:
    assert compile_text(rule, {"self": kinds.DYN}).reads["self"] == read


DATA = {"a": 1, "l": [{"x": 1, "y": 2}, {"x": 3}], "m": {"k": {"x": 1}}, "s": "text"}


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        ([("a",)], {"a": 1}),
        ([("l", "[]", "x")], {"l": [{"x": 1}, {"x": 3}]}),
        ([("l", "[]", "?")], {"l": [{}, {}]}),
        ([("m", "?")], {"m": {}}),
        ([("m", "[]", "?")], {"m": {"k": {"x": 1}}}),
        ([("l", "?"), ("s", "?"), ("no", "?")], {"l": [{"x": 1, "y": 2}, {"x": 3}], "s": "text"}),
        ([("l", "[]", "x"), ("l",)], {"l": [{"x": 1, "y": 2}, {"x": 3}]}),
        ([()], DATA),
        ([], None),
    ],
)
def test_a_value_is_handed_over_without_what_is_not_read(paths: list[tuple[str, ...]], left: Any) -> None:
    assert pruned(DATA, tree_of(paths)) == left


def test_a_loop_over_a_map_still_has_its_keys() -> None:
    assert Program("object.m.all(key, key == 'k')", ["object"]).evaluate(object=DATA) is True


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "at": {"type": "string", "format": "date-time"},
                    "note": {"type": "string", "nullable": True},
                },
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
ITEMS = [{"type": "A", "at": "2030-01-01T00:00:00Z", "note": None}, {"type": "B"}]


@pytest.mark.parametrize(
    ("rule", "passes"),
    [
        ("has(self.items)", True),
        ("has(self.labels)", False),
        ("self.items.exists(c, c.type == 'B')", True),
        ("self.items.all(c, has(c.at))", False),
        ("self.items.exists(c, has(c.at) && c.at < timestamp('2030-01-02T00:00:00Z'))", True),
        ("self.items.all(c, !has(c.note))", True),
        ("self.items.filter(c, c.type == 'A').size() == 1", True),
        ("self.items.map(c, c.type) == ['A', 'B']", True),
        ("self.items.all(c, true) && self.items.exists_one(c, has(c.at))", True),
    ],
)
def test_a_rule_on_pruned_items_has_the_result_of_whole_items(rule: str, passes: bool) -> None:
    node = Node({**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]})
    value = {"phase": "Up", "items": ITEMS}
    assert (validate_rules(node, value, None, "spec") == []) is passes
