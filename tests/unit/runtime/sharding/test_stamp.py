"""A stamp is read only if a member can have written it, and epochs increase whatever was done to it by hand."""

from __future__ import annotations

import pytest

from konverge.runtime.sharding.stamp import Stamp, annotation_of, next_epoch, read_stamp

NAME = annotation_of("shop")


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("operator-0-1f3c/7", Stamp("operator-0-1f3c", 7)),
        ("/7", Stamp("", 7)),
        ("a/99", None),
        ("a/100", None),
        ("a/0", None),
        ("a/-1", None),
        ("a", None),
        ("", None),
        ("A/7", None),
        ("a/7/8", None),
        ("a/7\n", None),
        ("a/9999999999999999999999", None),
    ],
)
def test_a_stamp_is_a_member_and_an_epoch_below_the_version(text: str, stamp: Stamp | None) -> None:
    assert read_stamp({NAME: text}, NAME, "99") == stamp


def test_an_object_without_annotations_has_no_stamp_and_each_ring_has_its_own() -> None:
    assert read_stamp(None, NAME, "99") is None
    assert read_stamp({annotation_of("other"): "a/7"}, NAME, "99") is None


def test_the_epoch_after_a_stamp_that_was_removed_is_greater_than_all_before() -> None:
    first = next_epoch(None, "100")  # at version 100; the write makes it 101
    moved = next_epoch(Stamp("a", first), "101")
    removed = next_epoch(None, "103")
    assert first < moved < removed


def test_the_epoch_after_a_stamp_that_was_forged_is_greater_than_all_before() -> None:
    first = next_epoch(None, "100")
    assert first < next_epoch(Stamp("nobody", 1), "103")


def test_versions_other_than_numbers_begin_at_one() -> None:
    assert next_epoch(None, "opaque") == 1
    assert read_stamp({NAME: "a/7"}, NAME, "opaque") == Stamp("a", 7)
