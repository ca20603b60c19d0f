"""The text of an amount means the same amount to the API server."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from konverge.crds.quota_v1beta2 import MOST
from konverge.quantities import WHOLE, Format, Quantity
from konverge.reconcilers.quota.amounts import show

FORMATS: tuple[Format, ...] = ("BinarySI", "DecimalExponent", "DecimalSI")


def stored(text: str) -> Quantity:
    """Return the amount that the API server stores: it parses the text and formats the amount again."""
    read = Quantity.parse(text)
    return Quantity.parse(str(Quantity(read.billionths, read.format)))


@given(st.integers(0, 2 * MOST * WHOLE), st.sampled_from(FORMATS))
@example(10**21 * WHOLE, "DecimalSI")
@example(10**22 * WHOLE, "BinarySI")
@example(2 * MOST * WHOLE, "DecimalSI")
@example((2**63 - 1) * WHOLE, "BinarySI")
@example(2**63 * WHOLE, "BinarySI")
def test_each_written_amount_is_read_back_as_itself(amount: int, wanted: Format) -> None:
    text = show("memory", amount, {}, wanted)
    assert stored(text).billionths == amount
    assert stored(str(Quantity.parse(text))).billionths == amount


@pytest.mark.parametrize("exponent", range(18, 25))
@pytest.mark.parametrize("mantissa", [1, 5, 10, 12, 999, 1000])
@pytest.mark.parametrize("wanted", FORMATS)
def test_round_amounts_beyond_the_largest_suffix_keep_their_factor(
    mantissa: int, exponent: int, wanted: Format
) -> None:
    amount = min(mantissa * 10**exponent, 2 * MOST) * WHOLE
    assert stored(show("memory", amount, {}, wanted)).billionths == amount
