from __future__ import annotations

import pytest

from konverge.clock import from_rfc3339


@pytest.mark.parametrize(
    "text",
    ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "2030-01-01T00:00:00", "soon", "2030-01-01T23:59:60Z"],
    ids=["after the calendar", "before the calendar", "without a zone", "no timestamp", "a leap second"],
)
def test_a_timestamp_with_which_no_time_can_be_reckoned_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_rfc3339(text)
