"""The clocks that are not the event loop's, from one place: wall time, and the time since boot.

Monotonic time and sleeping are the running event loop's (`loop.time`, `asyncio.sleep`, `asyncio.timeout`), so that a test can
replace both by replacing the loop. Timestamps in objects are wall time, which only this module reads. A lease runs on while a machine is
suspended, and the loop's time does not: the deadline of a leader's writes is a time since boot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

__all__ = ["WallClock", "boot_clock", "cpu_time", "from_rfc3339", "monotonic", "rfc3339", "rfc3339_micro", "wall_clock"]

WallClock: TypeAlias = Callable[[], datetime]
"""Returns the present moment as an aware datetime in UTC."""


def wall_clock() -> datetime:
    """Return the present moment, aware, in UTC; on a loop that keeps virtual wall time, that loop's.

    A loop takes part by having a method `wall_time() -> datetime` (see `konverge_testing.loop`).
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return datetime.now(UTC)
    virtual: Callable[[], datetime] | None = getattr(loop, "wall_time", None)
    return virtual() if virtual is not None else datetime.now(UTC)


def boot_clock() -> Callable[[], float]:
    """Return the clock of the seconds since boot, suspended time included; on a loop that keeps virtual time, that loop's.

    Linux has CLOCK_BOOTTIME, and the monotonic clock of macOS counts suspended time. On other systems the monotonic clock is returned,
    which stops while the machine is suspended.
    """
    loop = asyncio.get_running_loop()
    virtual: Callable[[], float] | None = getattr(loop, "boot_time", None)
    if virtual is not None:
        return virtual
    if hasattr(loop, "wall_time"):  # a loop of virtual time without a boot time of its own
        return loop.time
    boot: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    if boot is None or not _is_readable(boot):
        return time.monotonic
    return partial(time.clock_gettime, boot)


def _is_readable(clock: int) -> bool:
    """Return whether the kernel has a clock: some sandboxes have fewer clocks than Linux."""
    try:
        time.clock_gettime(clock)
    except OSError:
        return False
    return True


def monotonic() -> float:
    """Return monotonic seconds for code that runs outside any loop (start-up of processes, benchmarks)."""
    return time.monotonic()


def cpu_time() -> float:
    """Return the CPU seconds that this process has used."""
    return time.process_time()


def rfc3339(moment: datetime) -> str:
    """Write a moment as metav1.Time does: whole seconds, UTC, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """Write a moment as metav1.MicroTime does: six decimals, UTC, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_rfc3339(text: str) -> datetime:
    """Read a timestamp of the API; raises ValueError for any other text, and for years outside 1 to 9999 in UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"a timestamp without a zone: {text!r}")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:  # with its offset it is of the year 0 or 10000
        raise ValueError(f"a timestamp beyond the calendar: {text!r}") from error
