"""Guarantees of rules and programs beyond the recordings."""

import copy
import subprocess
import sys
from typing import Any

import pytest

from konverge_testing.apiserver.cel import (
    CompileError,
    EvalError,
    Program,
    check_rules,
    compile_rule,
    uses_old_self,
    validate_rules,
)
from konverge_testing.apiserver.cel.escaping import escape
from konverge_testing.apiserver.cel.fieldpaths import field_path
from konverge_testing.apiserver.cel.syntax import CallExpr, decode, encode
from konverge_testing.apiserver.nodes import Node

INT = {"type": "integer"}


def ruled(schema: dict[str, Any], *rules: str) -> dict[str, Any]:
    """Return a schema with rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def test_the_library_is_not_imported_before_an_expression_is_compiled() -> None:
    code = "import sys; import konverge_testing.apiserver.cel; sys.exit('cel_expr_python' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_error_for_a_missing_library_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['cel_expr_python'] = None\n"
        "from konverge_testing.apiserver.cel import Program\n"
        "try: Program('true', [])\n"
        "except ImportError as error: sys.exit('konverge[testing]' not in str(error))\n"
        "sys.exit(2)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("expression", "values", "answer"),
    [
        ("object.metadata.name == 'a'", {"object": {"metadata": {"name": "a"}}}, True),
        ("!has(object.metadata.labels)", {"object": {"metadata": {}}}, True),
        ("request.operation in ['CREATE', 'UPDATE']", {"request": {"operation": "DELETE"}}, False),
        ("oldObject == null", {"oldObject": None}, True),
        ("object.spec.replicas * 2", {"object": {"spec": {"replicas": 4}}}, 8),
        ("object.spec.list.indexOf('b')", {"object": {"spec": {"list": ["a", "b"]}}}, 1),
        ("object.spec.text.indexOf('b')", {"object": {"spec": {"text": "ab"}}}, 1),
        ("object.items.map(i, i.n)", {"object": {"items": [{"n": 1}, {"n": 2}]}}, [1, 2]),
        ("quantity(object.cpu).isGreaterThan(quantity('1'))", {"object": {"cpu": "1500m"}}, True),
        ("'%s is %d'.format([object.a, object.b])", {"object": {"a": "x", "b": 3}}, "x is 3"),
        ("[duration('1s'), duration('90s')].max() == duration('1.5m')", {}, True),
    ],
)
def test_a_program_gives_the_value_of_its_expression(expression: str, values: dict[str, Any], answer: Any) -> None:
    before = copy.deepcopy(values)
    assert Program(expression, list(values)).evaluate(**values) == answer
    assert values == before


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("object.a.b", "no such key: a"),
        ("object.n / 0 == 1", "division by zero"),
        ("object.l[3]", "index out of bounds: 3"),
        ("object.n + 'a'", "no such overload"),
        ("int(object.t)", "type conversion error from 'string' to 'int'"),
        ("quantity(object.t).sign() == 1", "no such overload"),
    ],
)
def test_a_program_without_a_value_says_why(expression: str, words: str) -> None:
    if "sign" in expression:
        with pytest.raises(CompileError, match="no matching overload"):
            Program(expression, ["object"])
        return
    with pytest.raises(EvalError, match=words):
        Program(expression, ["object"]).evaluate(object={"n": 1, "l": [], "t": "x"})


def test_a_program_over_an_undeclared_variable_is_refused() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'authorizer'"):
        Program("authorizer.group('').allowed()", ["object"])


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("in", "__in__"),
        ("_x", "_x"),
        ("9x", None),
        ("a b", None),
        ("", None),
    ],
)
def test_a_property_name_becomes_an_identifier(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", "a.b"),
        ("['a']['b']", "a.b"),
        (".m['x.y']", "m[x.y]"),
        (".none", None),
        ("a", None),
        (".a[0]", None),
        ("", ""),
    ],
)
def test_a_field_path_is_checked_against_the_schema(path: str, found: str | None) -> None:
    properties = {"a": {"properties": {"b": INT}}, "m": {"additionalProperties": INT}}
    assert field_path(Node({"type": "object", "properties": properties}), path) == found


def test_an_expression_survives_reading_and_writing() -> None:
    expr = CallExpr(1, None, "f", [])
    assert decode(encode(expr)).expr == expr


def test_rules_leave_the_object_as_it_was() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {**INT, "nullable": True},
            "d": {"type": "number"},
            "t": {"type": "string", "format": "date-time"},
        },
    }
    node = Node(ruled(schema, "self == oldSelf", "self.d > 0.5 && self.t < timestamp('2030-01-01T00:00:00Z')"))
    new = {"n": None, "d": 1, "t": "2024-01-01T00:00:00Z", "unknown": {"x": [None]}}
    before = copy.deepcopy(new)
    assert validate_rules(node, new, copy.deepcopy(new), "spec") == []
    assert new == before


def test_an_embedded_object_shows_its_name_to_its_rules() -> None:
    template = ruled(
        {"type": "object", "x-kubernetes-embedded-resource": True}, "self.metadata.name != 'x'", "self.kind == 'Pod'"
    )
    node = Node({"type": "object", "properties": {"template": template}})
    given = {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {}}}}
    assert [error.message for error in validate_rules(node, given, None)] == [
        "Invalid value: failed rule: self.metadata.name != 'x'"
    ]


def test_an_error_that_the_old_value_had_too_is_a_warning() -> None:
    node = Node({"type": "object", "properties": {"n": ruled(INT, "self > 0"), "m": INT}})
    findings = check_rules(node, {"n": 0, "m": 2}, {"n": 0, "m": 1})
    assert (findings.errors, [str(error) for error in findings.forgiven]) == (
        [],
        ["n: Invalid value: 0: failed rule: self > 0"],
    )


def test_a_rule_on_data_of_unknown_type_does_not_compile() -> None:
    assert "rule compiler initialization error" in str(
        compile_rule(Node({"x-kubernetes-preserve-unknown-fields": True}), "true")
    )


@pytest.mark.parametrize(
    ("rule", "transition"),
    [("self >= oldSelf", True), ("!oldSelf.hasValue() || self >= oldSelf.value()", True), ("self > 0", False)],
)
def test_a_rule_with_an_optional_old_value_is_a_transition_rule_too(rule: str, transition: bool) -> None:
    assert uses_old_self(Node(INT), rule) is transition
