import asyncio
import time

import pytest

from konverge.clock import boot_clock, from_rfc3339, monotonic
from konverge_testing.loop import SUSPENDED, VirtualTimeLoop


async def _read_boot_clock() -> float:
    return boot_clock()()


def test_the_boot_clock_counts_suspended_time_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "clock_gettime", {7: 4711.0}.__getitem__)
    assert asyncio.run(_read_boot_clock()) == 4711.0


@pytest.mark.parametrize("lack", ["no such clock", "not in this kernel"])
def test_the_boot_clock_is_monotonic_where_the_system_has_none(lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if lack == "no such clock":
        monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    else:
        monkeypatch.setattr(time, "CLOCK_BOOTTIME", 1 << 20, raising=False)
    before = monotonic()
    assert before <= asyncio.run(_read_boot_clock()) <= monotonic()


def test_the_boot_clock_of_a_virtual_loop_is_the_loops() -> None:
    token = SUSPENDED.set(60.0)
    try:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            assert runner.run(_read_boot_clock()) == 60.0
    finally:
        SUSPENDED.reset(token)


@pytest.mark.parametrize(
    "text",
    ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "2030-01-01T00:00:00", "soon", "2030-01-01T23:59:60Z"],
    ids=["after the calendar", "before the calendar", "without a zone", "no timestamp", "a leap second"],
)
def test_timestamp_outside_the_calendar_or_malformed_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_rfc3339(text)
