"""Times as Go reads and writes them: `metav1.Time` to the second, `metav1.MicroTime` with six digits, both in UTC.

Guarantees: pure; a text that Go refuses raises `BadTime` with Go's words (package time, `Parse`), for the common errors.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import lru_cache
from typing import Final

from konverge_testing.apiserver.golang import moment

__all__ = ["BadTime", "canonical_time"]

_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICROS: Final = "2006-01-02T15:04:05.000000Z07:00"
_PARTS: Final = (
    ("2006", 4, 0, 9999, "year"),
    ("-", 0, 0, 0, ""),
    ("01", 2, 1, 12, "month"),
    ("-", 0, 0, 0, ""),
    ("02", 2, 1, 31, "day"),
    ("T", 0, 0, 0, ""),
    ("15", 2, 0, 23, "hour"),
    (":", 0, 0, 0, ""),
    ("04", 2, 0, 59, "minute"),
    (":", 0, 0, 0, ""),
    ("05", 2, 0, 59, "second"),
)


class BadTime(ValueError):
    """The text is not a time; the message is Go's."""


@lru_cache(maxsize=1024)  # each write of an object reads its times several times
def canonical_time(text: str, *, micro: bool = False) -> str:
    """Return a time as the server stores it.

    >>> canonical_time("2024-01-01T02:00:00.5+02:00"), canonical_time("2024-01-01T00:00:00.000001Z", micro=True)
    ('2024-01-01T00:00:00Z', '2024-01-01T00:00:00.000001Z')
    """
    layout = _MICROS if micro else _SECONDS
    rest, numbers = text, list[int]()
    for element, width, low, high, name in _PARTS:
        if not width:
            if not rest.startswith(element):
                raise _cannot(text, layout, rest, element)
            rest = rest[1:]
            continue
        digits = rest[:width]
        if len(digits) < width or not (digits.isascii() and digits.isdigit()):
            raise _cannot(text, layout, rest, element)
        if not low <= int(digits) <= high:
            raise BadTime(f"parsing time {json.dumps(text)}: {name} out of range")
        numbers.append(int(digits))
        rest = rest[width:]
    fraction, rest = _fraction(text, layout, rest, micro)
    zone, rest = _zone(text, layout, rest)
    if rest:
        raise BadTime(f"parsing time {json.dumps(text)}: extra text: {json.dumps(rest)}")
    try:
        shown = moment(numbers, zone)
    except ValueError:
        raise BadTime(f"parsing time {json.dumps(text)}: day out of range") from None
    return shown + (f".{fraction:06d}Z" if micro else "Z")


def _fraction(text: str, layout: str, rest: str, micro: bool) -> tuple[int, str]:
    digits = 0
    while rest[:1] == "." and rest[1 + digits : 2 + digits].isdigit():
        digits += 1
    if micro:
        if digits < 6:
            raise _cannot(text, layout, rest, ".000000")
        return int(rest[1:7]), rest[7:]
    return int(rest[1 : 1 + digits][:6].ljust(6, "0")) if digits else 0, rest[1 + digits :] if digits else rest


def _zone(text: str, layout: str, rest: str) -> tuple[timedelta, str]:
    if rest.startswith("Z"):
        return timedelta(), rest[1:]
    hours, minutes = rest[1:3], rest[4:6]
    if len(rest) < 6 or rest[0] not in "+-" or rest[3] != ":" or not (hours.isdigit() and minutes.isdigit()):
        raise _cannot(text, layout, rest, "Z07:00")
    shift = timedelta(hours=int(hours), minutes=int(minutes))
    return shift if rest[0] == "+" else -shift, rest[6:]


def _cannot(text: str, layout: str, rest: str, element: str) -> BadTime:
    return BadTime(f'parsing time {json.dumps(text)} as "{layout}": cannot parse {json.dumps(rest)} as "{element}"')
