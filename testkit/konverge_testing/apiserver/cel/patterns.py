r"""`find` and `findAll`: regular expressions of Go (RE2), run by Python's.

Guarantees: pure. Syntax that RE2 and Python write differently is translated (`\z`, POSIX classes); leftmost-first matching is the same.
Not promised: RE2's Unicode classes (`\p{Greek}`); such a pattern is refused as not implemented.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from konverge_testing.apiserver import statuses

__all__ = ["find", "find_all"]

_POSIX: Final = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:ascii:]": r"\x00-\x7F",
    "[:blank:]": r"\t ",
    "[:cntrl:]": r"\x00-\x1F\x7F",
    "[:digit:]": "0-9",
    "[:graph:]": "!-~",
    "[:lower:]": "a-z",
    "[:print:]": " -~",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:space:]": r"\t\n\v\f\r ",
    "[:upper:]": "A-Z",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    if re.search(r"\\[pP]", pattern):
        raise statuses.not_implemented(f"Unicode classes in a regular expression of find or findAll ({pattern})")
    text = re.sub(r"\[:\w+:\]", lambda found: _POSIX.get(found[0], found[0]), pattern)
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", text)
    text = re.sub(r"(?<![\\\[])\$", r"\\Z", text) if "(?m" not in text else text
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        raise ValueError(f"Illegal regex: error parsing regexp: {error}") from None


def find(text: str, pattern: str) -> str:
    """Return the first match, "" without one."""
    found = _compiled(pattern).search(text)
    return found[0] if found else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the matches one after another, at most `limit` if it is not negative."""
    found: list[str] = []
    if limit == 0:
        return found
    end = -1
    for match in _compiled(pattern).finditer(text):
        if match.start() == match.end() == end:
            continue  # Go skips an empty match that touches the previous match
        end = match.end()
        found.append(match[0])
        if len(found) == limit:
            break
    return found
