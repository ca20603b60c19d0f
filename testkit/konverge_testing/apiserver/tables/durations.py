"""Ages in human-readable form.

Guarantees: pure. The steps are those of k8s.io/apimachinery `pkg/util/duration`: the older, the coarser; two units at most.
"""

from __future__ import annotations

from datetime import datetime

__all__ = ["human", "parsed", "since"]

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human(seconds: float) -> str:
    """Return a duration in one or two units.

    >>> [human(each) for each in (-5, -0.5, 119, 185, 600, 3 * 3600 + 60, 50 * 3600, 9 * 86400, 3 * 365 * 86400)]
    ['<invalid>', '0s', '119s', '3m5s', '10m', '3h1m', '2d2h', '9d', '3y']
    """
    if seconds <= -2:
        return "<invalid>"
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, big: int, big_unit: str, small: int, small_unit: str) -> str:
    rest = whole % big // small
    return f"{whole // big}{big_unit}{rest}{small_unit}" if rest else f"{whole // big}{big_unit}"


def parsed(stamp: object) -> datetime | None:
    """Return a time of RFC 3339, or None."""
    if not isinstance(stamp, str) or not stamp:
        return None
    try:
        found = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def since(stamp: object, now: datetime) -> str:
    """Return the age at a time, or `<unknown>` without a time."""
    found = parsed(stamp)
    return "<unknown>" if found is None else human((now - found).total_seconds())
