"""From a changed object to a JSON patch: the changes, and nothing else."""

import copy
import sys
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.runtime.admission.patching import carried_over, json_patch, with_metadata


@pytest.mark.parametrize(
    ("raw", "before", "after", "result"),
    [
        pytest.param({"a": 1, "x": 2}, {"a": 1}, {"a": 1}, {"a": 1, "x": 2}, id="nothing changed"),
        pytest.param({"a": 1, "x": 2}, {"a": 1}, {"a": 3}, {"a": 3, "x": 2}, id="a field changed"),
        pytest.param({"a": 1, "x": 2}, {"a": 1}, {}, {"x": 2}, id="a field went"),
        pytest.param({"x": 2}, {}, {"b": {"c": 1}}, {"x": 2, "b": {"c": 1}}, id="a field came"),
        pytest.param({}, {"a": 7}, {"a": 7}, {}, id="a default that the model writes is no change"),
        pytest.param({}, {"a": 7}, {"a": 8}, {"a": 8}, id="a default that was changed is one"),
        pytest.param({"l": [{"n": 1, "x": 2}]}, {"l": [{"n": 1}]}, {"l": [{"n": 3}]}, {"l": [{"n": 3, "x": 2}]}, id="an item changed"),
        pytest.param({"l": [{"n": 1, "x": 2}]}, {"l": [{"n": 1}]}, {"l": []}, {"l": []}, id="an item went"),
        pytest.param({"l": [1, 2]}, {"l": [1]}, {"l": [1]}, {"l": [1, 2]}, id="a list that the model shortens stays"),
        pytest.param({"a": 1}, {"a": 1}, {"a": True}, {"a": True}, id="a number that became a truth"),
        pytest.param({"a": "1Gi"}, {"a": 1073741824}, {"a": 1073741824}, {"a": "1Gi"}, id="another spelling stays"),
        pytest.param({"a": None}, {}, {"a": {}}, {"a": {}}, id="a null was filled"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 1}}, {"a": "x"}, {"a": "x"}, id="another type"),
    ],
)  # fmt: skip
def test_a_change_is_carried_over_to_the_object_as_it_came(raw: Any, before: Any, after: Any, result: Any) -> None:
    found = carried_over(raw, before, after)
    assert found == result
    assert str(found) == str(result)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc/~", max_size=2), JSON, max_size=4)


@given(before=OBJECTS, after=OBJECTS)
def test_a_patch_leads_from_any_object_to_any_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert jsonpatch.apply_patch(before, json_patch(before, after)) == after


@given(raw=OBJECTS, after=OBJECTS)
def test_where_the_model_knows_everything_its_word_is_the_result(raw: dict[str, Any], after: dict[str, Any]) -> None:
    assert carried_over(raw, raw, after) == after


@given(raw=OBJECTS, same=OBJECTS)
def test_an_object_that_comes_back_as_it_was_changes_nothing(raw: dict[str, Any], same: dict[str, Any]) -> None:
    assert json_patch(raw, carried_over(raw, same, same)) == []


def nested(levels: int, leaf: int) -> Any:
    return leaf if levels == 0 else [nested(levels - 1, leaf)]


CHANGES = {
    "nested lists": lambda size: ({"a": nested(size, 1)}, {"a": nested(size, 2)}),
    "items of a list": lambda size: (
        {"a": [{"n": n} for n in range(size)]},
        {"a": [{"n": n + 1} for n in range(size)]},
    ),
    "a longer list": lambda size: ({"a": list(range(size))}, {"a": list(range(size + 1))}),
    "members of a mapping": lambda size: ({str(n): n for n in range(size)}, {str(n): n + 1 for n in range(size)}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_cost_of_a_patch_is_linear_in_the_object(change: Callable[[int], tuple[Any, Any]]) -> None:
    assert calls_of_patch(*change(200)) < 2.2 * calls_of_patch(*change(100))


class LongKey(str):
    """A key that is too long to be copied into the pointer of each member below it."""

    __slots__ = ()

    def __str__(self) -> str:
        raise AssertionError("the pointer of an unchanged member was computed")


def test_no_pointer_is_computed_for_unchanged_members() -> None:
    before: dict[str, Any] = {LongKey("a"): {LongKey("b"): [1, {LongKey("c"): 2}]}}
    assert json_patch(before, copy.deepcopy(before)) == []


def test_operations_have_the_order_of_the_members() -> None:
    before = dict.fromkeys("hgfedcba", 1)
    assert [operation["path"] for operation in json_patch(before, {})] == [f"/{name}" for name in "hgfedcba"]


def calls_of_patch(before: dict[str, Any], after: dict[str, Any]) -> int:
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        json_patch(before, after)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (0, False), (1, 1.0), ({}, []), (None, 0), ("1", 1)],
    ids=repr,
)
def test_a_value_of_another_type_is_replaced(before: Any, after: Any) -> None:
    assert json_patch({"a": [before]}, {"a": [after]}) == [{"op": "replace", "path": "/a/0", "value": after}]


@pytest.mark.parametrize(
    ("labels", "there", "result"),
    [
        ({"a": "1"}, None, {"labels": {"a": "1"}}),
        ({"a": "2"}, {"a": "1", "b": "1"}, {"labels": {"a": "2", "b": "1"}}),
        ({"a": None}, {"a": "1"}, {}),
        ({"a": None}, None, {}),
        ({}, {"a": "1"}, {"labels": {"a": "1"}}),
    ],
)
def test_labels_are_set_and_removed_beside_the_others(labels: Any, there: Any, result: Any) -> None:
    found = {"metadata": {} if there is None else {"labels": there}}
    assert with_metadata(found, labels, {}) == {"metadata": result}
    assert found == {"metadata": {} if there is None else {"labels": there}}
