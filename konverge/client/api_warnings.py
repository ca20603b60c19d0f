"""Warnings of the API server: deprecated versions, fields without effect, texts of admission webhooks.

Guarantees: each text is logged once in the life of a client, at most `MOST_LOGGED` texts and `_LONGEST` characters of each; every
warning is counted. So the texts of a tenant's webhook cannot fill the log.

https://kubernetes.io/blog/2020/09/03/warnings/
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from prometheus_client import Counter

from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["MOST_LOGGED", "ApiWarnings", "texts_of"]

_log = get_logger("konverge.client")

MOST_LOGGED = 256
"""Texts that are logged; others are only counted."""
_LONGEST = 500
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def texts_of(headers: Iterable[str]) -> tuple[str, ...]:
    r"""Return the texts of Warning headers; the API server uses only code 299.

    >>> texts_of(['299 - "v1beta1 is \\"old\\""', '299 - "a", 299 - "b"', '110 cache "stale"'])
    ('v1beta1 is "old"', 'a', 'b')
    """
    return tuple(_ESCAPE.sub(r"\1", text) for header in headers for text in _WARNING.findall(header))


class ApiWarnings:
    """The warnings of one client."""

    def __init__(self, counter: Counter | None) -> None:
        self._counter = counter
        self._logged: set[str] = set()

    def note(self, texts: Iterable[str], request: str) -> None:
        """Count warnings, and log the texts that are new."""
        for text in texts:
            if self._counter is not None:
                self._counter.inc()
            shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
            if shown in self._logged or len(self._logged) >= MOST_LOGGED:
                continue
            self._logged.add(shown)
            _log.warning("the API server warns", **{LogKey.API_WARNING: shown, LogKey.REQUEST: request})
            if len(self._logged) == MOST_LOGGED:
                _log.warning("the API server gave many different warnings; further texts are counted and not logged")
