"""The tables of rules of built-in kinds: the values that a rule checks, and the errors with their order."""

from typing import Any

import pytest

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.rules import (
    Rule,
    among,
    at,
    barred,
    between,
    each,
    filled,
    given,
    length,
    must,
    need,
    not_negative,
    present,
    struct,
    text,
    unique,
    unset,
    when,
    wrong,
)


def errors(rule: Rule, value: Any, path: str = "spec") -> list[str]:
    return [str(error) for error in rule(value, path)]


NUMBER = between(1, 5)
WRONG = "must be between 1 and 5, inclusive"


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        (at("a", NUMBER), {}, [f"spec.a: Invalid value: 0: {WRONG}"]),
        (at("a", NUMBER), None, [f"spec.a: Invalid value: 0: {WRONG}"]),
        (given("a", NUMBER), {}, []),
        (given("a", NUMBER), {"a": 0}, [f"spec.a: Invalid value: 0: {WRONG}"]),
        (filled("a", NUMBER), {"a": 0}, []),
        (filled("a", NUMBER), {"a": 6}, [f"spec.a: Invalid value: 6: {WRONG}"]),
        (need("a", NUMBER), {"a": 0}, ["spec.a: Required value"]),
        (need("a", NUMBER), {"a": 6}, [f"spec.a: Invalid value: 6: {WRONG}"]),
        (need("a", detail="why"), {}, ["spec.a: Required value: why"]),
        (need("a b"), {"a": 1}, ["spec.b: Required value"]),
        (present("a", NUMBER, detail="why"), {}, ["spec.a: Required value: why"]),
        (present("a", NUMBER), {"a": 0}, [f"spec.a: Invalid value: 0: {WRONG}"]),
        (given("a", barred("why")), {"a": 1}, ["spec.a: Forbidden: why"]),
        (given("a", wrong("why")), {"a": 1}, ["spec.a: Invalid value: 1: why"]),
        (unset("a", "why"), {"a": 1}, ["spec.a: Forbidden: why"]),
        (unset("a", "why"), {"a": 0}, []),
        (not_negative("a b"), {"a": -1, "b": 0}, ["spec.a: Invalid value: -1: must be greater than or equal to 0"]),
        (when(lambda spec: spec.get("on"), need("a")), {"on": True}, ["spec.a: Required value"]),
        (when(lambda spec: spec.get("on"), need("a")), {}, []),
        (at("a", at("b", need("c"))), {}, ["spec.a.b.c: Required value"]),
        (at("a", length(2)), {"a": "äö"}, ["spec.a: Too long: may not be more than 2 bytes"]),
        (at("a", among("x", "y")), {}, ['spec.a: Unsupported value: "": supported values: "x", "y"']),
        (at("a", must(lambda value: value == 1, "why")), {"a": 2}, ["spec.a: Invalid value: 2: why"]),
        (at("a", text(lambda value: [f"<{value}>"])), {}, ['spec.a: Invalid value: "": <>']),
        (at("a", text(names.dns1123_label)), {"a": "b"}, []),
    ],
)
def test_row_checks_its_fields(rule: Rule, value: Any, expected: list[str]) -> None:
    assert errors(rule, value) == expected


def test_errors_have_the_order_of_the_rows() -> None:
    rule = struct(need("b"), lambda _, path: at("x", NUMBER)({"x": 9}, path), need("a"))
    assert [line.partition(":")[0] for line in errors(rule, {}, "")] == ["b", "x", "a"]


@pytest.mark.parametrize(
    ("rule", "items", "expected"),
    [
        (unique(), ["a", "b", "a"], ['[2]: Duplicate value: "a"']),
        (unique("name"), [{"name": "a"}, {}, {"name": "a"}, {}], ['[2].name: Duplicate value: "a"']),
        (unique("name", of_item=True), [{"name": "a"}, {"name": "a"}], ['[1]: Duplicate value: "a"']),
        (unique("name", empties=False), [{}, {}], ['[1].name: Duplicate value: ""']),
        (need("name"), [{}, {"name": "a"}, {}], ["[0].name: Required value", "[2].name: Required value"]),
    ],
)
def test_each_checks_the_items_of_a_list(rule: Rule, items: list[Any], expected: list[str]) -> None:
    check = each(rule)
    for _ in range(2):  # a list does not see the values of another list
        assert errors(check, items, "") == expected
    assert errors(check, None, "") == []
