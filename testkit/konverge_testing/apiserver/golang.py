"""Values as Go prints them: `%v`, `%q` and `encoding/json` of numbers, strings, times and structures in the server's messages.

Guarantees: pure. Floats are the shortest digits that read back, as `strconv` writes them; JSON has sorted keys and escaped angle brackets.
Numbers are sorted into Go's kinds the way sigs.k8s.io/json decodes them: an integer beyond 64 bits is a float there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

__all__ = [
    "MAX_INT64",
    "MIN_INT64",
    "Struct",
    "compact",
    "float_json",
    "float_text",
    "moment",
    "number_text",
    "plain",
    "quote",
    "quoted",
    "same",
    "syntax",
]

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)

_HTML: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}


def _digits(value: float) -> tuple[str, str, int]:
    """Return sign, significant digits and the decimal exponent (of 0.digits) of the shortest form."""
    text = repr(value)
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0")
    return sign, stripped or "0", point if stripped else 1


def _plain(sign: str, digits: str, point: int) -> str:
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _scientific(sign: str, digits: str, point: int, width: int) -> str:
    exponent = point - 1
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):0{width}d}"


def float_text(value: float) -> str:
    """Write a float as `%v` does.

    >>> [float_text(x) for x in (1.0, 0.5, 1e6, 1234567.5, 1e-5)]
    ['1', '0.5', '1e+06', '1.2345675e+06', '1e-05']
    """
    sign, digits, point = _digits(value)
    return _plain(sign, digits, point) if -4 <= point - 1 < 6 or digits == "0" else _scientific(sign, digits, point, 2)


def float_json(value: float) -> str:
    """Write a float as encoding/json does.

    >>> [float_json(x) for x in (1.0, 1e6, 1e21, 1.5e-7)]
    ['1', '1000000', '1e+21', '1.5e-7']
    """
    sign, digits, point = _digits(value)
    return _plain(sign, digits, point) if -6 <= point - 1 < 21 or digits == "0" else _scientific(sign, digits, point, 1)


def number_text(value: float) -> str:
    """Write a number as `%v` does: an integer that fits 64 bits as it is, anything else as a float.

    >>> number_text(3), number_text(2**70)
    ('3', '1.1805916207174113e+21')
    """
    if value.__class__ is float or not MIN_INT64 <= value <= MAX_INT64:
        return float_text(float(value))
    return str(value)


def quote(text: str) -> str:
    r"""Quote as `strconv.Quote` does.

    >>> quote("a\n\x00"), quote("caf\u00e9")
    ('"a\\n\\x00"', '"café"')
    """
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(char: str) -> str:
    if (known := _ESCAPES.get(char)) is not None:
        return known
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class Struct(dict[str, Any]):
    """A Go struct: its fields are written in their order, not sorted."""


def compact(value: Any) -> str:
    r"""Write a structure as encoding/json does: sorted keys, no spaces, HTML escaped.

    >>> compact({"b": 1.0, "a": ["<x>", None, True]})
    '{"a":["\\u003cx\\u003e",null,true],"b":1}'
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).translate(_HTML)
    if isinstance(value, float):
        return float_json(value)
    if isinstance(value, int):
        return str(value) if MIN_INT64 <= value <= MAX_INT64 else float_json(float(value))
    if isinstance(value, Struct):
        return "{" + ",".join(f"{compact(key)}:{compact(item)}" for key, item in value.items()) + "}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact(key)}:{compact(value[key])}" for key in sorted(value)) + "}"
    return "[" + ",".join(map(compact, value)) + "]"


def quoted(value: Any) -> str:
    """Quote as `%q` does a string, or a list of them.

    >>> quoted(["get", "list"])
    '["get" "list"]'
    """
    return quote(value) if isinstance(value, str) else f"[{' '.join(map(quoted, value))}]"


def plain(value: Any) -> str:
    """Print decoded JSON as `%v` does.

    >>> plain({"b": [1, None], "a": True})
    'map[a:true b:[1 <nil>]]'
    """
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_text(value)
    if isinstance(value, list):
        return f"[{' '.join(map(plain, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{plain(value[key])}' for key in sorted(value))}]"
    return str(value)


def syntax(value: Any) -> str:
    """Print decoded JSON as `%#v` does.

    >>> syntax(["a", None])
    '[]interface {}{"a", interface {}(nil)}'
    """
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(syntax, value))}}}"
    if isinstance(value, dict):
        return (
            f"map[string]interface {{}}{{{', '.join(f'{quote(key)}:{syntax(value[key])}' for key in sorted(value))}}}"
        )
    return plain(value)


def same(one: Any, other: Any) -> bool:
    """Compare as `reflect.DeepEqual` does: an integer is never equal to a float or a boolean."""
    if one.__class__ is not other.__class__:
        return False
    if one.__class__ is dict:
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if one.__class__ is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def moment(numbers: Sequence[int], offset: timedelta) -> str:
    """Write a moment of a time zone in UTC, to the second, in a year without bounds; raise ValueError for an impossible day.

    >>> moment((9999, 12, 31, 23, 59, 59), timedelta(hours=-1)), moment((0, 1, 1, 0, 0, 0), timedelta(hours=1))
    ('10000-01-01T00:59:59', '-0001-12-31T23:00:00')
    """
    year, month, day, hour, minute, second = numbers
    known = 2000 + year % 400  # of the same calendar, which repeats every 400 years
    when = datetime(known, month, day, hour, minute, second, tzinfo=UTC) - offset
    year += when.year - known
    return f"{'-' if year < 0 else ''}{abs(year):04d}{when:-%m-%dT%H:%M:%S}"
