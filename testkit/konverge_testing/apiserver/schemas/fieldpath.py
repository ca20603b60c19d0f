"""Simple JSON paths of CRDs (`.spec.color`, `.metadata['a.b']`) against a schema, in the server's words.

Guarantees: pure. Source: apiextensions `pkg/apiserver/schema/cel/validation.go` (ValidFieldPath).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["Found", "find"]

_PIECES: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class Found(NamedTuple):
    """The target of a path, or the error of the path (`wrong`)."""

    path: str = ""
    root: str = ""
    schema: Mapping[str, Any] | None = None
    wrong: str = ""


def find(text: str, schema: Mapping[str, Any], *, arrays: bool = True) -> Found:
    """Follow a path through a schema; `arrays` allows the notation with brackets."""
    pieces = _PIECES.findall(text)
    path, root = "", ""
    here: Mapping[str, Any] | None = schema
    while pieces:
        piece = pieces.pop(0)
        if piece == "[":
            name, wrong = _bracketed(pieces, arrays)
        elif piece == ".":
            name, wrong = (pieces.pop(0), "") if pieces else ("", "unexpected end of JSON path")
        else:
            name, wrong = "", f"expected [ or . but got: {piece}"
        if wrong:
            return Found(wrong=wrong)
        fields, values = (here or {}).get("properties"), (here or {}).get("additionalProperties")
        if fields:
            here, step = fields.get(name), f".{name}"
        elif values is not None and values is not False:
            here, step = values if isinstance(values, Mapping) else {}, f"[{name}]"
        else:
            here, step = None, ""
        if here is None:
            return Found(wrong="does not refer to a valid field")
        path, root = path + step, root or name
        if piece == "[" and (not pieces or pieces.pop(0) != "]"):
            return Found(wrong="unexpected end of JSON path")
    return Found(path.removeprefix("."), root, here)


def _bracketed(pieces: list[str], arrays: bool) -> tuple[str, str]:
    if not arrays:
        return "", "array notation is not allowed"
    if not pieces:
        return "", "unexpected end of JSON path"
    piece = pieces.pop(0)
    if len(piece) < 2 or piece[0] != "'" or piece[-1] != "'":
        return "", f"expected single quoted string but got {piece}"
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), piece[1:-1]), ""
