"""Durations of settings and parameters; days are a unit too (`30d`)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from konverge.crds.durations import format_duration, parse_duration

__all__ = ["Duration", "parse_days"]

_DAYS = re.compile(r"([0-9]+)d")


def parse_days(text: str) -> timedelta:
    """Parse a duration with optional days; raises ValueError for any other text.

    >>> parse_days("1d12h")
    datetime.timedelta(days=1, seconds=43200)
    """
    return parse_duration(_DAYS.sub(lambda days: f"{24 * int(days[1])}h", text))


def _duration(value: Any) -> Any:
    return parse_days(value) if isinstance(value, str) else value


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    Field(gt=timedelta(0)),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
"""A duration above zero: `5m`, `30d`, a number of seconds, or a timedelta."""
