"""JSON as Go reads it: bytes and escapes that are not Unicode become U+FFFD, and the depth is limited to 10,000 levels.

Guarantees: pure; a text without such bytes is decoded once, by the fast decoder. Source: Go `encoding/json/decode.go` (unquote),
`encoding/json/scanner.go` (maxNestingDepth), which sigs.k8s.io/json shares.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.schemas.jsontext import syntax_error
from konverge_testing.apiserver.schemas.nesting import exceeding

__all__ = ["NotJson", "beyond_floats", "read_json"]

_decode = msgspec.json.Decoder().decode
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_LONG: Final = re.compile(rb"[0-9]{309}|[eE]\+?[0-9]{3}")
_NUMBER: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)', re.DOTALL)
_BYTE: Final = re.compile("[\udc80-\udcff]")
_REPLACEMENT: Final = "\ufffd"


class NotJson(ValueError):
    """A body is not JSON; the message is from Go's scanner."""


def beyond_floats(body: bytes) -> str:
    """Return the first number that is out of range even for a float, "" if there is none."""
    if not _LONG.search(body):
        return ""
    numbers = (found[1].decode() for found in _NUMBER.finditer(body) if found[1])
    return next((number for number in numbers if math.isinf(float(number))), "")


def read_json(body: bytes) -> tuple[Any, bytes]:
    """Return the value of a body, and the body as Go reads it. Raises `NotJson`."""
    try:
        return _decode(body), body
    except UnicodeDecodeError:
        pass
    except RecursionError:
        raise NotJson(f"invalid character '{exceeding(body)}' exceeded max depth") from None
    except msgspec.DecodeError as error:
        if words := _words(body):
            raise NotJson(words) from None
        if "surrogate" not in str(error):
            raise NotJson(str(error)) from None
    body = _repaired(body)
    try:
        return _decode(body), body
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NotJson(_words(body) or str(error)) from None


def _words(body: bytes) -> str:
    try:
        return syntax_error(body.decode("utf-8", "replace"))
    except RecursionError:
        return f"invalid character '{exceeding(body) or '['}' exceeded max depth"


def _repaired(body: bytes) -> bytes:
    """Replace each byte that is not part of a character, and each escape of half a surrogate pair."""
    text = _BYTE.sub(_REPLACEMENT, body.decode("utf-8", "surrogateescape"))
    return _ESCAPE.sub(lambda found: _REPLACEMENT if found["lone"] else found[0], text).encode()
