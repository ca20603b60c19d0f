"""A stamp is read only if a member can have written it, and epochs increase after any edit by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.runtime.sharding.stamp import Stamp, annotation_of, member_name, next_epoch, read_stamp

NAME = annotation_of("shop")
MEMBER = member_name("shop", "operator-0", 0x1F3C)


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        (f"{MEMBER}/7", Stamp(MEMBER, 7)),
        ("/7", Stamp("", 7)),
        (f"{MEMBER}/99", None),
        (f"{MEMBER}/100", None),
        (f"{MEMBER}/0", None),
        (f"{MEMBER}/-1", None),
        (f"{MEMBER}/07", None),
        (f"{MEMBER}/\u0667", None),
        (f"{MEMBER}/7/8", None),
        (f"{MEMBER}/7\n", None),
        (f"{MEMBER}/9999999999999999999999", None),
        (f"{MEMBER}/{'9' * 100_000}", None),
        (MEMBER, None),
        ("", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_stamp_is_a_member_and_an_epoch_below_the_version(text: str, stamp: Stamp | None) -> None:
    assert read_stamp({NAME: text}, NAME, "99") == stamp


@pytest.mark.parametrize(
    "owner",
    [
        "a",
        "nobody-1",
        "shop",
        "shop-",
        "shop-0000001f3c",
        "shop--0000001f3c"[:-1],
        "shop-operator-0",
        "shop-operator-0-1f3c",
        "shop-operator-0-0000001F3C",
        "shop-Operator-0-0000001f3c",
        "shop-op\u00e9rator-0-0000001f3c",
        "shop-operator.0-0000001f3c",
        "shop-operator/0-0000001f3c",
        "other-operator-0-0000001f3c",
        "shop2-operator-0-0000001f3c",
        f"shop-{'a' * 101}-0000001f3c",
        f"shop-{'a' * 100_000}-0000001f3c",
    ],
    ids=lambda owner: owner[:40],
)
def test_stamp_of_a_name_outside_the_ring_counts_as_none(owner: str) -> None:
    assert read_stamp({NAME: f"{owner}/7"}, NAME, "99") is None


@given(
    ring=st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,48}[a-z0-9])?", fullmatch=True),
    host=st.text(),
    bits=st.integers(0, 2**40 - 1),
)
def test_the_stamp_of_every_member_is_read_by_its_ring(ring: str, host: str, bits: int) -> None:
    member = member_name(ring, host, bits)
    assert read_stamp({annotation_of(ring): f"{member}/7"}, annotation_of(ring), "99") == Stamp(member, 7)


def test_object_without_annotations_has_no_stamp_and_rings_have_separate_stamps() -> None:
    assert read_stamp(None, NAME, "99") is None
    assert read_stamp({annotation_of("other"): f"{MEMBER}/7"}, NAME, "99") is None


def test_epoch_after_a_removed_stamp_is_greater_than_all_before() -> None:
    first = next_epoch(None, "100")  # at version 100; the write results in 101
    moved = next_epoch(Stamp("a", first), "101")
    removed = next_epoch(None, "103")
    assert first < moved < removed


def test_epoch_after_a_forged_stamp_is_greater_than_all_before() -> None:
    first = next_epoch(None, "100")
    assert first < next_epoch(Stamp("nobody", 1), "103")


def test_versions_other_than_numbers_begin_at_one() -> None:
    assert next_epoch(None, "opaque") == 1
    assert read_stamp({NAME: f"{MEMBER}/7"}, NAME, "opaque") == Stamp(MEMBER, 7)
