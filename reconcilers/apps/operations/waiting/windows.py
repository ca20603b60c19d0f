"""Maintenance windows: `Sat,Sun 22:00-06:00 Europe/Berlin; Wed 02:00-04:00`, in an annotation of the target or its namespace.

    days    names or ranges (Mon-Fri), of the day on which a window opens; without them every day
    times   opening and end on the clock of the zone; an end that is not later than the opening is on the next day; 24:00 is midnight
    zone    a name of the IANA time zone database; without it UTC

Guarantees: pure, but for the first read of a zone from the database. A window ends when the clock of the zone shows its end, so on the
day of a change of the clocks it is an hour shorter or longer. A time that is left out on such a day is an hour later; a time that occurs
twice is the first occurrence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["BadWindow", "Window", "next_opening", "opened_at", "parse_windows"]

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TIMES: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|(24):(00))")
_LONGEST: Final = 1024
_EXAMPLE: Final = "write for instance Sat,Sun 22:00-06:00 Europe/Berlin; Wed 02:00-04:00"


class BadWindow(Exception):
    """A text that cannot be read as windows; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window that opens on some days of the week."""

    days: frozenset[int]
    """0 is Monday."""
    start: time
    end: time
    overnight: bool
    zone: ZoneInfo

    def on(self, day: date) -> tuple[datetime, datetime] | None:
        """Return opening and end of the window that opens on this day, in UTC."""
        if day.weekday() not in self.days:
            return None
        last = day + timedelta(days=1) if self.overnight else day
        opens = datetime.combine(day, self.start, self.zone).astimezone(UTC)
        ends = datetime.combine(last, self.end, self.zone).astimezone(UTC)
        if ends <= opens:  # the opening is left out on this day, and so an hour later
            ends = opens + (datetime.combine(last, self.end) - datetime.combine(day, self.start))
        return opens, ends


def parse_windows(text: str) -> tuple[Window, ...]:
    """Read windows, separated by semicolons; raises BadWindow.

    >>> [(sorted(window.days), window.start.hour, window.overnight) for window in parse_windows("Sat,Sun 22:00-06:00; 02:00-04:00")]
    [([5, 6], 22, True), ([0, 1, 2, 3, 4, 5, 6], 2, False)]
    """
    if len(text) > _LONGEST:
        raise BadWindow(f"is longer than {_LONGEST} characters; {_EXAMPLE}")
    windows = tuple(_window(part) for part in text.split(";") if part.strip())
    if not windows:
        raise BadWindow(f"names no window; {_EXAMPLE}")
    return windows


def _window(text: str) -> Window:
    words = text.split()
    days = frozenset(range(len(_DAYS))) if _TIMES.fullmatch(words[0]) else _days(words.pop(0))
    match = _TIMES.fullmatch(words[0]) if words else None
    if match is None:
        raise BadWindow(f"has a window without times; {_EXAMPLE}")
    if len(words) > 2:  # times, zone
        raise BadWindow(f"has more than days, times and a zone in one window; {_EXAMPLE}")
    start = time(int(match[1]), int(match[2]))
    end = time() if match[5] else time(int(match[3]), int(match[4]))
    return Window(days, start, end, end <= start, _zone(words[1] if len(words) > 1 else "UTC"))


def _days(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            raise BadWindow(f"has a day that is none of {', '.join(_DAYS)}; {_EXAMPLE}")
        begin = _DAYS.index(first)
        count = (_DAYS.index(last or first) - begin) % len(_DAYS)
        numbers.update((begin + step) % len(_DAYS) for step in range(count + 1))
    return frozenset(numbers)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadWindow(
            f"names a time zone that is not known here; write one such as Europe/Berlin, or leave it out for UTC; {_EXAMPLE}"
        ) from None


def _around(windows: tuple[Window, ...], now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the windows that are open, and the windows that open within a week."""
    for window in windows:
        today = now.astimezone(window.zone).date()
        for step in range(-1, len(_DAYS) + 2):
            times = window.on(today + timedelta(days=step))
            if times is not None:
                yield times


def opened_at(windows: tuple[Window, ...], now: datetime) -> datetime | None:
    """Return when the window opened that is open now, the latest of several; None outside of all windows."""
    return max((opens for opens, ends in _around(windows, now) if opens <= now < ends), default=None)


def next_opening(windows: tuple[Window, ...], now: datetime) -> datetime:
    """Return when the next window opens."""
    return min(opens for opens, _ in _around(windows, now) if opens > now)
