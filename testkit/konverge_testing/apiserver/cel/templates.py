"""`'%s'.format([x])` as in version 2 of the strings library, and the static check of a literal template.

Guarantees: pure. Numbers of `%f` and `%e` are printed for American English, with thousands separators and a written-out power of ten, as
cel-go `ext/formatting.go` does (the CEL library prints the newer form of version 4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from konverge_testing.apiserver.cel.values import spelled

__all__ = ["format_text", "problem"]

_CLAUSE: Final = re.compile(r"%(%|(?:\.(\d+))?([sdfebxXo]))")
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_TAKES: Final = {
    "s": frozenset(
        ["list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"]
    ),
    "d": frozenset(("int", "uint")),
    "f": frozenset(("double", "string")),
    "e": frozenset(("double", "string")),
    "b": frozenset(("int", "uint", "bool")),
    "x": frozenset(("int", "uint", "string", "bytes")),
    "o": frozenset(("int", "uint")),
}
_REFUSALS: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_SHOWN: Final = {"null": "null_type", "timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}


def problem(template: str, kinds: Sequence[str]) -> tuple[int | None, str] | None:
    """Return the error of a template for arguments of these kinds, and the index of the argument (None: the call); None if it is valid."""
    used = 0
    try:
        for part in _parts(template):
            if isinstance(part, str):
                continue
            if used >= len(kinds):
                return None, f"index {used} out of range"
            clause, kind = part[0].lower(), kinds[used]
            if kind != "dyn" and kind not in _TAKES[clause]:
                return used, f"error during formatting: {_REFUSALS[clause]}, was given {_SHOWN.get(kind, kind)}"
            used += 1
    except ValueError as error:
        return None, str(error)
    if len(kinds) > used:
        return None, f"too many arguments supplied to string.format (expected {used}, got {len(kinds)})"
    return None


def format_text(template: str, args: list[Any]) -> str:
    """Print arguments into a template."""
    rest = iter(args)
    made = []
    for index, part in enumerate(_parts(template)):
        if isinstance(part, str):
            made.append(part)
            continue
        try:
            value = next(rest)
        except StopIteration:
            raise IndexError(f"index {index} out of range") from None
        made.append(_clause(part[0], part[1], value))
    return "".join(made)


def _parts(template: str) -> Iterator[str | tuple[str, int]]:
    """Split a template into text and clauses with their precision."""
    at = 0
    while at < len(template):
        start = template.find("%", at)
        if start < 0:
            yield template[at:]
            return
        yield template[at:start]
        found = _CLAUSE.match(template, start)
        if found is None:
            rest = template[start + 1 : start + 2]
            text = f'could not parse formatting clause: unrecognized formatting clause "{rest}"'
            raise ValueError(text if rest else "unexpected end of string")
        yield "%" if found[1] == "%" else (found[3], int(found[2]) if found[2] else 6)
        at = found.end()


def _clause(clause: str, precision: int, value: Any) -> str:
    kind = _kind(value)
    if kind not in _TAKES[clause.lower()]:
        raise TypeError(f"error during formatting: {_REFUSALS[clause.lower()]}, was given {_SHOWN.get(kind, kind)}")
    match clause:
        case "s":
            return _plain(value)
        case "d":
            return str(value)
        case "f":
            return f"{float(value):,.{precision}f}"
        case "e":
            mantissa, exponent = f"{float(value):.6e}".split("e")  # the server reads a precision as a width
            return f"{mantissa}\u00d710{exponent.lstrip('+').translate(_RAISED)}"
        case "b" | "o":
            return format(value, clause)
        case _:
            data = value.encode() if isinstance(value, str) else value
            text = format(data, "x") if isinstance(data, int) else bytes(data).hex()
            return text.upper() if clause == "X" else text


def _kind(value: Any) -> str:
    names = {bool: "bool", int: "int", float: "double", str: "string", list: "list", dict: "map", datetime: "timestamp"}
    if value is None:
        return "null"
    if isinstance(value, (bytes, bytearray)):
        return "bytes"
    return "duration" if isinstance(value, timedelta) else names.get(type(value), "type")


def _plain(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _shortest(value)
        case bytes() | bytearray():
            return value.decode(errors="replace")
        case datetime() | timedelta():
            return spelled(value)
        case list():
            return f"[{', '.join(map(_nested, value))}]"
        case dict():
            pairs = sorted((_nested(name), _nested(one)) for name, one in value.items())
            return f"{{{', '.join(f'{name}:{one}' for name, one in pairs)}}}"
        case _:
            return str(value)


def _shortest(value: float) -> str:
    """Print a double as Go's `%g`: the fewest digits, with an exponent from a million on."""
    digits = Decimal(repr(value)).normalize()
    exponent = digits.adjusted() if value else 0
    if -5 < exponent < 6 or not isfinite(value):
        return f"{digits:f}" if isfinite(value) else {"inf": "+Inf", "-inf": "-Inf"}.get(str(value), "NaN")
    mantissa = f"{digits.scaleb(-exponent):f}"
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def _nested(value: Any) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes() | bytearray():
            return f"b{json.dumps(value.decode(errors='replace'), ensure_ascii=False)}"
        case float():
            return f"{value:.6f}"
        case datetime():
            return f'timestamp("{spelled(value)}")'
        case timedelta():
            return f'duration("{spelled(value)}")'
        case _:
            return _plain(value)
