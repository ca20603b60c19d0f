"""Durations as Kubernetes writes them: `5m`, `1h30m`, `1.5s`.

Guarantees: `Duration` is a `timedelta` in Python and such a text in the API, which Go's `time.ParseDuration` reads back.
It is exact to the millisecond; finer parts are cut. Durations are not negative. `30d` is refused, as in Go.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

__all__ = ["Duration", "format_duration", "parse_duration"]

_WORDS = r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+"
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_MICROSECONDS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}


def parse_duration(text: str) -> timedelta:
    """Read a duration; raises ValueError for any other text.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    if not re.fullmatch(_WORDS, text):
        raise ValueError("write a duration as in 90s, 5m or 1h30m")
    try:
        return timedelta(
            microseconds=round(sum(float(number) * _MICROSECONDS[unit] for number, unit in _PART.findall(text)))
        )
    except OverflowError:
        raise ValueError("the duration is too long") from None


def format_duration(duration: timedelta) -> str:
    """Write a duration, cut to the millisecond; raises ValueError for a negative one.

    >>> format_duration(timedelta(minutes=5)), format_duration(timedelta(hours=1, seconds=1.5))
    ('5m', '1h1s500ms')
    """
    left = duration // timedelta(microseconds=1)
    if left < 0:
        raise ValueError("a duration of the API is not negative")
    parts = []
    for unit, size in _MICROSECONDS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _validate(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ValueError("a duration of the API is not negative")
        return value
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError("write a duration as in 90s, 5m or 1h30m")


Duration: TypeAlias = Annotated[
    timedelta,
    PlainValidator(_validate),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_WORDS}$"}),
]
"""A duration of the API (`5m`), a `timedelta` in Python."""
