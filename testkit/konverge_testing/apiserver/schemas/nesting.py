"""How deep the text of a body is nested: a real server accepts 10,000 levels, this server 200.

Guarantees: pure; linear, and only a count of brackets for a body with too few brackets to exceed the limit.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MAX_DEPTH", "MAX_SUPPORTED", "depth", "exceeding"]

MAX_DEPTH: Final = 10_000
"""Go's decoders of JSON and YAML refuse a text nested deeper than this."""
MAX_SUPPORTED: Final = 200
"""This server walks an object recursively, and Python's stack is limited to about 1,000 calls."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_OPEN: Final = (b"[", b"{")
_PREFIX: Final = re.compile(rb"^[ \t\-?:]*", re.MULTILINE)


def depth(body: bytes) -> int:
    """Return an upper bound of a body's depth; 0 if it is at most `MAX_SUPPORTED`."""
    found = 0
    if body.count(b"[") + body.count(b"{") > MAX_SUPPORTED:
        found = _deepest(body)
    if len(body) > 2 * MAX_SUPPORTED and (b"- " * 16 in body or b" " * MAX_SUPPORTED in body or b"? " * 16 in body):
        found = max(found, max(len(prefix) for prefix in _PREFIX.findall(body)) // 2)
    return found if found > MAX_SUPPORTED else 0


def _deepest(body: bytes) -> int:
    here = most = 0
    for token in _TOKEN.findall(body):
        if token in _OPEN:
            here += 1
            most = max(most, here)
        elif token in (b"]", b"}"):
            here -= 1
    return most


def exceeding(body: bytes) -> str:
    """Return the bracket that opens the first level beyond `MAX_DEPTH`, or "" if there is none."""
    here = 0
    for token in _TOKEN.findall(body):
        if token in _OPEN:
            here += 1
            if here > MAX_DEPTH:
                return str(token.decode())
        elif token in (b"]", b"}"):
            here -= 1
    return ""
