"""Quantities against the results of Go's own resource.Quantity (a program on k8s.io/apimachinery 0.36.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.quantities import (
    WRONG_FORMAT,
    WRONG_SUFFIX,
    Quantity,
    added,
    beyond,
    read,
    subtracted,
    written,
)


@pytest.mark.parametrize(
    ("text", "shown", "with_1500m"),
    [
        ("0", "0", "1500m"),
        ("1", "1", "2500m"),
        ("1.5", "1500m", "3"),
        ("1.500", "1.500", "3"),
        ("00.5", "500m", "2"),
        ("007", "007", "8500m"),
        ("+1.5", "1500m", "3"),
        ("1.", "1.", "2500m"),
        (".", "0", "1500m"),
        ("-", "0", "1500m"),
        ("+", "0", "1500m"),
        ("Ki", "0", "1500m"),
        ("e3", "0", "1500m"),
        ("0Mi", "0", "1500m"),
        ("100Mi", "100Mi", "104857601500m"),
        ("-0.5Gi", "-512Mi", "-536870910500m"),
        ("0.0001Ki", "102400u", "1602400u"),
        ("16Ei", "9223372036854775807", "9223372036854775808500m"),
        ("1000E", "1", "1000000000000000000001500m"),
        ("1000000000000000000000", "1", "1000000000000000000001500m"),
        ("1e21", "1e21", "1000000000000000000001500e-3"),
        ("1200E", "1200E", "1200000000000000000001500m"),
        ("-0", "0", "1500m"),
        ("0e999", "0", "1500m"),
        ("3e7", "30e6", "30000001500e-3"),
        ("123456789012345678901", "123456789012345678901", "123456789012345678902500m"),
    ],
)
def test_a_quantity_is_written_and_added_as_go_does(text: str, shown: str, with_1500m: str) -> None:
    assert str(Quantity.parse(text)) == shown
    assert str(Quantity.parse(text) + Quantity.parse("1500m")) == with_1500m


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", WRONG_FORMAT),
        ("1 ", WRONG_FORMAT),
        ("1Zi", WRONG_FORMAT),
        ("1.2.3", WRONG_FORMAT),
        ("1e", WRONG_SUFFIX),
        ("--1", WRONG_SUFFIX),
    ],
)
def test_a_malformed_quantity_is_refused_with_gos_message(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".*") as caught:
        Quantity.parse(text)
    assert str(caught.value) == words


@given(st.integers(-(10**12), 10**12), st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Mi", "Gi"]))
def test_a_written_quantity_reads_as_the_same_amount(number: int, suffix: str) -> None:
    amount = Quantity.parse(f"{number}{suffix}") + Quantity.of(0)
    assert Quantity.parse(str(amount)) == amount


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_sum_minus_one_part_is_the_other(left: int, right: int) -> None:
    one, other = Quantity.parse(f"{left}m"), Quantity.parse(f"{right}Ki")
    assert (one + other) - other == one


def test_numbers_of_json_are_quantities_too() -> None:
    assert Quantity.parse(2) == Quantity.parse("2000m")
    assert hash(Quantity.parse("1Gi")) == hash(Quantity.parse("1024Mi"))


def test_a_storage_request_counts_in_whole_units() -> None:
    assert str(Quantity.parse("1500m").rounded_up()) == "2"
    assert Quantity.parse("2Gi").rounded_up() is Quantity.parse("2Gi")


def test_lists_are_added_name_by_name() -> None:
    total = added(read({"cpu": "500m", "pods": 1}), read({"cpu": "1", "memory": "1Gi"}))
    assert written(total) == {"cpu": "1500m", "memory": "1Gi", "pods": "1"}
    assert written(subtracted(read({"cpu": "1"}), read({"cpu": "2", "pods": "1"}))) == {"cpu": "0", "pods": "0"}
    assert beyond(total, read({"cpu": "1500m", "memory": "1023Mi", "secrets": "0"})) == ["memory"]
