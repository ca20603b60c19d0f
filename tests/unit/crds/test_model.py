"""The fields that a model counts as set (konverge.model)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import AliasChoices, Field, ValidationError

from konverge.crds import CustomResource, PartialModel, Status, resource
from konverge.errors import UsageError
from konverge.model import Model, camel_case


def untyped(value: Any) -> Any:
    """Return a value of a wrong type past the type checker, as an untyped caller could pass it."""
    return value


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


def test_fields_that_were_never_set_are_not_written() -> None:
    assert Outer().wire() == {}


def test_default_field_is_written_once_assigned_even_to_an_equal_value() -> None:
    outer = Outer()
    outer.inner.count = 1
    outer.made.tags = []
    assert outer.wire() == {"inner": {"count": 1}, "made": {"tags": []}}


def test_default_list_or_map_is_written_once_changed() -> None:
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


class Schedule(Model):
    keep_copies: int = 7
    later: Later | None = None


class Later(Model):
    at: str = ""


class Renamed(Model):
    other: int = Field(default=0, validation_alias=AliasChoices("another", "others"))


class View(PartialModel):
    suspend: bool = False


class Made(Model):
    """A model with a constructor of its own."""

    size: int = 0

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)


@resource("example.com/v1")
class Kept(CustomResource[Schedule, Status]):
    """One resource."""


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (
            lambda: Schedule(**untyped({"keep_copy": 1})),
            "Schedule has no field 'keep_copy'; did you mean 'keep_copies'",
        ),
        (lambda: Schedule(**untyped({"zzz": 1})), "its fields: keep_copies, later"),
        (lambda: Later(**untyped({"when": ""})), "Later has no field 'when'"),
        (lambda: Status(**untyped({"condition": ()})), "did you mean 'conditions'"),
        (lambda: Kept(**untyped({"specs": {}})), "did you mean 'spec'"),
    ],
)
def test_a_constructor_refuses_a_name_that_is_not_a_field(mistake: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mistake()


def test_a_constructor_takes_both_spellings_and_every_alias() -> None:
    assert Schedule(**untyped({"keepCopies": 3})).keep_copies == Schedule(keep_copies=3).keep_copies == 3
    assert Renamed(**untyped({"others": 3})).other == Renamed(**untyped({"another": 3})).other == 3


def test_a_partial_model_takes_fields_that_it_does_not_name() -> None:
    assert View(**untyped({"parallelism": 2})).wire() == {"parallelism": 2}


def test_a_stored_object_with_unknown_fields_is_read_as_before() -> None:
    stored = {"apiVersion": "example.com/v1", "kind": "Kept", "metadata": {"name": "a", "what": 1}}
    read = Kept.decode({**stored, "extra": 1, "spec": {"keepCopies": 3, "newer": 1, "later": {"at": "x", "newer": 1}}})
    assert read.spec.wire() == {"keepCopies": 3, "later": {"at": "x"}}
    assert Made.model_validate({"size": 3, "newer": 1}).size == 3


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("k8s_version", "k8sVersion"),
        ("e2e_tests", "e2eTests"),
        ("s3fs_mount", "s3fsMount"),
        ("md5sum", "md5sum"),
        ("sha256sum", "sha256sum"),
        ("ipv4_pool", "ipv4Pool"),
        ("s3_uri_2fa", "s3Uri2fa"),
        ("cluster_name", "clusterName"),
        ("pod_cidr", "podCidr"),
        ("a_b_c", "aBC"),
    ],
)
def test_digits_do_not_end_a_word(name: str, wire: str) -> None:
    assert camel_case(name) == wire
