"""Sets of fields as FieldsV1, and the spelling of path elements."""

import random
from typing import Any

import pytest

from konverge_testing.apiserver.apply.elements import (
    canonical,
    go_json,
    key_element,
    order,
    text,
)
from konverge_testing.apiserver.apply.fieldset import (
    Fields,
    decode,
    difference,
    from_paths,
    has,
    intersection,
    ordered,
    path_text,
    paths,
    recursive_difference,
    union,
)
from konverge_testing.apiserver.golang import plain as go_value
from konverge_testing.apiserver.golang import quote as go_quote
from konverge_testing.apiserver.golang import syntax as go_syntax

Places = set[tuple[str, ...]]


def places(fields: Fields) -> Places:
    return set(paths(fields))


def some_set(rng: random.Random) -> Fields:
    return from_paths([[f"f:{rng.choice('abc')}" for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(0, 5))])


@pytest.mark.parametrize("seed", range(200))
def test_sets_behave_as_sets_of_places(seed: int) -> None:
    rng = random.Random(seed)
    one, two = some_set(rng), some_set(rng)
    assert places(union(one, two)) == places(one) | places(two)
    assert places(intersection(one, two)) == places(one) & places(two)
    assert places(difference(one, two)) == places(one) - places(two)
    below = {place for place in places(one) if any(place[: len(other)] == other for other in places(two))}
    assert places(recursive_difference(one, two)) == places(one) - below
    assert all(has(one, place) for place in places(one))
    assert decode(one) == one
    assert list(paths(ordered(one))) == list(paths(one))


def test_a_parent_does_not_stand_for_its_children() -> None:
    parent: Fields = {"f:a": {}}
    child: Fields = {"f:a": {"f:b": {}}}
    assert difference(child, parent) == child
    assert difference(parent, child) == parent
    assert union(parent, child) == {"f:a": {".": {}, "f:b": {}}}
    assert recursive_difference(child, parent) == {}


def test_siblings_stand_in_the_order_of_the_server() -> None:
    found = [
        "v:true",
        "i:10",
        'k:{"a":2}',
        "f:b",
        'v:"x"',
        "i:9",
        'k:{"a":10}',
        "f:a",
        "v:10",
        "v:9",
        'k:{"a":2,"b":1}',
        ".",
    ]
    wanted = [
        ".",
        "f:a",
        "f:b",
        'k:{"a":2}',
        'k:{"a":2,"b":1}',
        'k:{"a":10}',
        "v:9",
        "v:10",
        'v:"x"',
        "v:true",
        "i:9",
        "i:10",
    ]
    assert sorted(found, key=order) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ('k:{ "b": 1, "a": "x" }', 'k:{"a":"x","b":1}'),
        ("v: 1.0", "v:1"),
        ('v:"<"', 'v:"\\u003c"'),
        ("f:any thing", "f:any thing"),
        ("z:unknown", None),
    ],
)
def test_path_elements_of_clients_are_normalized(given: str, wanted: str | None) -> None:
    assert canonical(given) == wanted


@pytest.mark.parametrize("given", ["x", "fx", "k:[1]", "v:{", "i:x"])
def test_an_invalid_path_element_is_refused(given: str) -> None:
    with pytest.raises(ValueError):
        decode({given: {}})


def test_places_are_shown_as_in_messages() -> None:
    element = key_element([("port", 80), ("protocol", "TCP")])
    assert path_text(["f:spec", "f:ports", element, "f:name"]) == '.spec.ports[port=80,protocol="TCP"].name'
    assert [text(each) for each in ('v:"x"', "v:1.5", "v:true", "i:3")] == ['[="x"]', "[=1.5]", "[=true]", "[3]"]


@pytest.mark.parametrize(
    ("value", "as_json", "as_value", "as_syntax"),
    [
        ("a\n<b>\x7f", '"a\\n\\u003cb\\u003e\x7f"', "a\n<b>\x7f", '"a\\n<b>\\x7f"'),
        (1.5, "1.5", "1.5", "1.5"),
        (2.0, "2", "2", "2"),
        (1e6, "1000000", "1e+06", "1e+06"),
        (1e21, "1e+21", "1e+21", "1e+21"),
        (0.00001, "0.00001", "1e-05", "1e-05"),
        (None, "null", "<nil>", "interface {}(nil)"),
        (False, "false", "false", "false"),
        (
            {"b": [1], "a": "x"},
            '{"a":"x","b":[1]}',
            "map[a:x b:[1]]",
            'map[string]interface {}{"a":"x", "b":[]interface {}{1}}',
        ),
    ],
)
def test_values_are_printed_as_go_prints_them(value: Any, as_json: str, as_value: str, as_syntax: str) -> None:
    assert (go_json(value), go_value(value), go_syntax(value)) == (as_json, as_value, as_syntax)


def test_strings_are_quoted_as_go_quotes_them() -> None:
    assert go_quote('é"\\\t\x00\u200b\U000e0001') == '"é\\"\\\\\\t\\x00\\u200b\\U000e0001"'
