"""What a model counts as set (konverge.model)."""

from __future__ import annotations

import pytest
from pydantic import Field, ValidationError

from konverge.model import Model


class Inner(Model):
    count: int = 1
    tags: list[str] = Field(default_factory=list)


class Outer(Model):
    inner: Inner = Inner()
    filled: Inner = Inner(count=3)
    made: Inner = Field(default_factory=Inner)
    names: dict[str, str] = Field(default_factory=dict)
    items: list[Inner] = Field(default_factory=list)
    by_name: dict[str, Inner] = Field(default_factory=dict)


def test_what_was_never_touched_is_not_written() -> None:
    assert Outer().wire() == {}


def test_a_field_of_a_default_is_written_once_it_is_assigned_even_to_the_same_value() -> None:
    outer = Outer()
    outer.inner.count = 1
    outer.made.tags = []
    assert outer.wire() == {"inner": {"count": 1}, "made": {"tags": []}}


def test_a_list_or_map_of_a_default_is_written_once_it_is_changed() -> None:
    outer = Outer()
    outer.names["a"] = "b"
    outer.inner.tags.append("x")
    assert outer.wire() == {"inner": {"tags": ["x"]}, "names": {"a": "b"}}


def test_fields_that_are_left_out_are_neither_written_nor_counted_as_set() -> None:
    outer = Outer()
    outer.names["a"] = "b"
    outer.inner.tags.append("x")
    assert outer.wire(without=("inner",)) == {"names": {"a": "b"}}
    assert outer.model_fields_set == {"names"}


def test_changes_deep_inside_what_was_set_are_written() -> None:
    outer = Outer(items=[Inner()], by_name={"a": Inner()})
    outer.items[0].tags.append("x")
    outer.by_name["a"].tags.append("y")
    assert outer.wire() == {"items": [{"tags": ["x"]}], "byName": {"a": {"tags": ["y"]}}}


def test_a_default_with_fields_of_its_own_is_written_once_it_differs() -> None:
    outer = Outer()
    assert outer.wire() == {}
    outer.filled.count = 4
    assert outer.wire() == {"filled": {"count": 4}}


def test_changes_in_one_object_do_not_show_in_another() -> None:
    Outer().inner.tags.append("x")
    assert Outer().inner.tags == []


def test_a_refusal_does_not_show_the_value() -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"inner": {"count": "hunter2"}})
    assert "hunter2" not in str(caught.value)
