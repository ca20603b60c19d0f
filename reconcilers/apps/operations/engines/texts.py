"""Texts of other programs, cut for a status: bounded, without request ids that differ from try to try, values, and credentials."""

from __future__ import annotations

import re
from typing import Any, Final

from konverge.reconcilers.shared.helm_release.redaction import without_queries, without_values

__all__ = ["counted", "excerpt"]

_LONGEST: Final = 1024
_REQUEST_IDS: Final = re.compile(r"(?:RequestID|HostID|request id|host id): ?[^\s,]*,? ?", re.IGNORECASE)


def excerpt(text: Any, longest: int = _LONGEST) -> str:
    """Return a text for a message.

    >>> excerpt("StatusCode: 404, RequestID: Xv2+, HostID: 9G/j, NoSuchKey: at https://me:pw@s3/x")
    'StatusCode: 404, NoSuchKey: at https://s3/x'
    """
    cleaned = without_values(without_queries(_REQUEST_IDS.sub("", str(text or "")))).strip()
    return cleaned if len(cleaned) <= longest else f"{cleaned[: longest - 4]} ..."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "error"), counted(2, "warning")
    ('1 error', '2 warnings')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
