"""Merges and differences of JSON documents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.planning.documents import Difference, differences, merge_patch, three_way

READY = {"type": "Ready", "status": "True"}
BLOCKED = {"type": "Blocked", "status": "False"}


@pytest.mark.parametrize(
    ("base", "planned", "result", "merged"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, {"a": 1}, {"a": 1, "c": 3}),
        ({}, {"s": {"a": 1}}, {"s": {"b": 2}}, {"s": {"a": 1, "b": 2}}),
        ([], [READY], [BLOCKED], [READY, BLOCKED]),
        ([READY], [READY, BLOCKED], [], [BLOCKED]),
        ([READY], [READY, BLOCKED], [{**READY, "status": "False"}], [{**READY, "status": "False"}, BLOCKED]),
        (["a"], ["a", "b"], ["a", "c"], ["a", "b", "c"]),
        (["a"], ["a", "b"], [], ["b"]),
        ([1], [1, 2], [1, 3], [1, 3]),
        ([{"x": 1}], [{"x": 2}], [{"x": 3}], [{"x": 3}]),
    ],
    ids=str,
)
def test_both_changes_are_in_a_three_way_merge(base: Any, planned: Any, result: Any, merged: Any) -> None:
    assert three_way(base, planned, result) == merged


JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(base=JSON, changed=JSON)
def test_a_merge_with_an_unchanged_side_is_the_other_side(base: Any, changed: Any) -> None:
    assert three_way(base, base, changed) == changed
    assert three_way(base, changed, base) == changed


@given(before=JSON, after=JSON)
def test_documents_without_differences_are_equal(before: Any, after: Any) -> None:
    assert (list(differences(before, after)) == []) == (before == after)


def test_a_merge_patch_removes_a_field_by_null() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}) == {"a": {"c": 2}}


def test_a_difference_names_the_item_of_a_list_and_quotes_an_annotation() -> None:
    before = {"conditions": [READY], "annotations": {"a.b/c": "1"}, "gone": 1}
    after = {"conditions": [{**READY, "status": "False"}, BLOCKED], "annotations": {"a.b/c": "2"}}
    assert list(differences(before, after)) == [
        Difference(".conditions[Ready].status", "True", "False"),
        Difference(".conditions[Blocked].type", None, "Blocked", added=True),
        Difference(".conditions[Blocked].status", None, "False", added=True),
        Difference('.annotations."a.b/c"', "1", "2"),
        Difference(".gone", 1, None, removed=True),
    ]
