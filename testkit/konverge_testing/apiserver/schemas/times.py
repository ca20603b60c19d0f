"""Instants and durations as Go's `time` package parses them, with its messages for invalid ones.

Guarantees: pure. `instant` converts RFC 3339 to the form that the server writes: UTC, whole seconds.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from konverge_testing.apiserver.golang import moment, quote

__all__ = ["TimeError", "instant", "is_date", "is_go_duration"]

_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_FULL: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,]\d+)?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_PIECES: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d(?:[.,]\d+)?"),
    ("Z07:00", r"Z|[+-]\d\d:\d\d"),
)
_RANGES: Final = (("month", 2, 1, 12), ("hour", 4, 0, 23), ("minute", 5, 0, 59), ("second", 6, 0, 59))


class TimeError(ValueError):
    """A text is not an instant; the message is Go's."""


def instant(text: str) -> str:
    """Return an RFC 3339 instant as the server writes it.

    >>> instant("2026-01-02T03:04:05.678+01:00")
    '2026-01-02T02:04:05Z'
    """
    found = _FULL.fullmatch(text)
    if found is None:
        raise TimeError(_unparsed(text))
    for name, group, low, high in _RANGES:
        if not low <= int(found[group]) <= high:
            raise TimeError(f"parsing time {quote(text)}: {name} out of range")
    offset = timedelta(hours=int(found[8] or 0), minutes=int(found[9] or 0))
    try:
        return moment([*map(int, found.groups()[:6])], -offset if found[7] == "-" else offset) + "Z"
    except ValueError:
        raise TimeError(f"parsing time {quote(text)}: day out of range") from None


def _unparsed(text: str) -> str:
    rest = text
    for piece, pattern in _PIECES:
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            return f"parsing time {quote(text)} as {quote(_LAYOUT)}: cannot parse {quote(rest)} as {quote(piece)}"
        rest = rest[found.end() :]
    return f"parsing time {quote(text)}: extra text: {quote(rest)}"


def is_date(text: str) -> bool:
    """Tell whether a text is a full date of RFC 3339."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return False
    if text.startswith("0000"):
        text = f"2000{text[4:]}"
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_go_duration(text: str) -> bool:
    """Tell whether `time.ParseDuration` reads a text."""
    body = text[1:] if text[:1] in ("+", "-") else text
    return body == "0" or bool(re.fullmatch(r"(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+", body, re.ASCII))
