"""Moments in a status, which another writer may have put there: unreadable ones and those in the future are replaced."""

from __future__ import annotations

from datetime import datetime

from konverge.clock import from_rfc3339

__all__ = ["moment"]


def moment(text: str | None, now: datetime, *, otherwise: datetime) -> datetime:
    """Return a moment that is not in the future; `otherwise` in place of one that cannot be true.

    >>> from datetime import UTC
    >>> made, now = datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    >>> moment("9999-12-31T23:59:59Z", now, otherwise=made).year
    2030
    """
    try:
        found = otherwise if text is None else from_rfc3339(text)
    except (ValueError, OverflowError):
        return otherwise
    return found if found <= now else otherwise
