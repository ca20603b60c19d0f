"""The check in C never accepts an object that a walk in Python would change or reject."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.checks import compile_checks, valid
from konverge_testing.apiserver.schemas.defaulting import default
from konverge_testing.apiserver.schemas.fast_check import fits
from konverge_testing.apiserver.schemas.pruning import prune_value


def surely_fits(node: Node, value: Any) -> bool:
    """Validate often enough for the type to be compiled."""
    return any(fits(node, value) for _ in range(10))


def in_order(node: Node, value: Any) -> bool:
    """Tell by the walks in Python."""
    changed = copy.deepcopy(value)
    lost = prune_value(node, changed)
    default(node, changed)
    return not lost and changed == value and valid(compile_checks(node.schema), value)


scalars = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        -1,
        3.0,
        2.5,
        2**40,
        2**70,
        "",
        "a",
        "ab",
        "a\n",
        "2030-02-28T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "é",
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)
extras = {"nullable": st.booleans(), "default": scalars, "description": st.just("words")}
strings = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={
        "enum": st.lists(st.sampled_from(["a", "b", 1]), min_size=1, max_size=2),
        "pattern": st.sampled_from(["^a", "b$", "^[[:alpha:]]+$", "é", r"^\w*$"]),
        "format": st.sampled_from(["date-time", "ipv4", "odd"]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        **extras,
    },
)
numbers = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number", "boolean"])},
    optional={
        "format": st.sampled_from(["int32", "int64", "float", "double", "odd"]),
        "minimum": st.sampled_from([0, 0.5]),
        "maximum": st.sampled_from([1, 2**50]),
        "exclusiveMaximum": st.booleans(),
        **extras,
    },
)
odd = st.sampled_from(
    [
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object"},
        {},
    ]
)


def deeper(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    more = {"nullable": st.booleans(), "default": values}
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={"minItems": st.integers(0, 1), "maxItems": st.integers(0, 2), **more},
    )
    maps = st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner}, optional=more)
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
        optional={
            "required": st.lists(st.sampled_from("abc"), max_size=2),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "anyOf": st.just([{"required": ["a"]}]),
            **more,
        },
    )
    return st.one_of(lists, maps, objects)


schemas = st.recursive(st.one_of(strings, numbers, odd), deeper, max_leaves=5)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(schema=schemas, candidates=st.lists(values, min_size=1, max_size=8))
def test_a_value_that_surely_fits_is_in_order(schema: dict[str, Any], candidates: list[Any]) -> None:
    node = Node(schema)
    for value in candidates:
        if value is not None and surely_fits(node, value):
            assert in_order(node, value)


@pytest.mark.parametrize("schema", [{"maxLength": 0}, {"maxLength": 0, "enum": ["a"]}], ids=str)
def test_a_string_that_may_have_no_character_fits_with_none_only(schema: dict[str, Any]) -> None:
    assert not surely_fits(Node({"type": "string", **schema}), "a")


STATUS: dict[str, Any] = {
    "observedGeneration": 2,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "",
            "observedGeneration": 2,
            "lastTransitionTime": "2030-01-31T23:59:59Z",
        }
    ],
    "helmReleaseRef": {"name": "shop", "namespace": "lab"},
}


def status_node() -> Node:
    version = crd(ApplicationInstance)["spec"]["versions"][0]
    return Node(version["schema"]["openAPIV3Schema"]).properties["status"]


def test_an_ordinary_status_fits() -> None:
    assert surely_fits(status_node(), STATUS)
    assert in_order(status_node(), STATUS)


CONDITION = STATUS["conditions"][0]


@pytest.mark.parametrize(
    "broken",
    [
        {**STATUS, "odd": 1},
        {**STATUS, "observedGeneration": None},
        {**STATUS, "observedGeneration": "2"},
        {**STATUS, "helmReleaseRef": {"name": "shop"}},
        {**STATUS, "conditions": [{**CONDITION, "status": "Maybe"}]},
        {**STATUS, "conditions": [{**CONDITION, "reason": "not one word"}]},
        {**STATUS, "conditions": [{**CONDITION, "lastTransitionTime": "2030-02-30T00:00:00Z"}]},
        {**STATUS, "conditions": [{**CONDITION, "observedGeneration": -1}]},
    ],
)
def test_a_status_that_needs_changes_does_not_fit(broken: dict[str, Any]) -> None:
    assert not surely_fits(status_node(), broken)


def test_the_first_check_of_a_status_does_not_build_its_type() -> None:
    assert not fits(status_node(), STATUS)
