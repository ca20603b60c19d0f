"""Path elements, the names inside FieldsV1: `f:name`, `k:{"type":"Ready"}`, `v:"value"`, `i:0`; and the JSON in them.

Guarantees: pure. An element is a plain string, spelled exactly as the server spells it, so two equal places have equal strings. `order` is
the server's order of siblings and `text` its wording of a place in messages. Facts: structured-merge-diff v6 `fieldpath/element.go`,
`fieldpath/serialize-pe.go`, `value/value.go`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from konverge_testing.apiserver.golang import plain, quote

__all__ = ["canonical", "go_json", "key_element", "order", "text", "value_element"]

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_./:,;=+*()[]{}@#%!?'~^$|`")


def go_json(value: Any) -> str:
    """Encode as Go's encoders do: compact, sorted, with `<`, `>` and `&` escaped."""
    if isinstance(value, str):
        return _go_string(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _go_float(value)
    if isinstance(value, list):
        return f"[{','.join(go_json(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_go_string(key)}:{go_json(value[key])}" for key in sorted(value)) + "}"
    return str(value)


def _go_string(value: str) -> str:
    if _PLAIN.issuperset(value):
        return f'"{value}"'
    shown = json.dumps(value, ensure_ascii=False).replace("\\b", "\\u0008").replace("\\f", "\\u000c")
    for letter, escaped in _ESCAPES.items():
        shown = shown.replace(letter, escaped)
    return shown


def _go_float(value: float) -> str:
    """Format a float with the fewest digits that identify it; with an exponent from 1e21 on and below 1e-6."""
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    for digits in range(17):
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        if float(f"{mantissa}e{exponent}") == value:
            break
    power = int(exponent)
    if power >= 21 or power < -6:
        sign = "-" if power < 0 else "+"
        return f"{mantissa}e{sign}{abs(power):02d}"
    places = max(len(mantissa.lstrip("-").replace(".", "")) - 1 - power, 0)
    return f"{value:.{places}f}"


@lru_cache(maxsize=16384, typed=True)
def _key_of_one(name: str, value: str | float | bool | None) -> str:
    return f"k:{{{_go_string(name)}:{go_json(value)}}}"


def key_element(pairs: Sequence[tuple[str, Any]]) -> str:
    """Return the element of an item of a list of type map; `pairs` are sorted by name."""
    if len(pairs) == 1 and not isinstance(pairs[0][1], (dict, list)):
        return _key_of_one(*pairs[0])
    return "k:{" + ",".join(f"{_go_string(name)}:{go_json(value)}" for name, value in pairs) + "}"


@lru_cache(maxsize=16384, typed=True)
def value_element(value: str | float | bool) -> str:
    """Return the element of an item of a list of type set."""
    return f"v:{go_json(value)}"


def canonical(element: str) -> str | None:
    """Spell a client's element as the server does; None for an unknown kind of element. Raises ValueError for an invalid element."""
    if len(element) < 2 or element[1] != ":":
        raise ValueError(f"missing colon: {element}" if len(element) >= 2 else "key must be 2 characters long:")
    kind, rest = element[0], element[2:]
    if kind == "f":
        return element
    if kind == "k":
        found = json.loads(rest)
        if not isinstance(found, dict):
            raise ValueError(f"not a key: {element}")
        return key_element(sorted(found.items()))
    if kind == "v":
        return f"v:{go_json(json.loads(rest))}"
    return f"i:{int(rest)}" if kind == "i" else None


@lru_cache(maxsize=16384)
def order(element: str) -> tuple[Any, ...]:
    """Return the sort key of siblings: fields, then keys, values and indexes; "." is first."""
    kind, rest = element[:1], element[2:]
    if kind == "f":
        return (1, rest)
    if kind == "k":
        return (2, tuple((name, _rank(value)) for name, value in json.loads(rest).items()))
    if kind == "v":
        return (3, _rank(json.loads(rest)))
    return (4, int(rest)) if kind == "i" else (0,)


def _rank(value: Any) -> tuple[Any, ...]:
    """Numbers sort before strings, then booleans, lists, maps and null."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, (int, float)):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    if isinstance(value, list):
        return (3, tuple(_rank(item) for item in value))
    if isinstance(value, dict):
        return (4, tuple((key, _rank(value[key])) for key in sorted(value)))
    return (5,)


def text(element: str) -> str:
    """Show an element in a message: `.name`, `[type="Ready"]`, `[="value"]`, `[0]`."""
    kind, rest = element[0], element[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        return f"[{','.join(f'{name}={_formatted(value)}' for name, value in json.loads(rest).items())}]"
    return f"[={_formatted(json.loads(rest))}]" if kind == "v" else f"[{rest}]"


def _formatted(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return f"[{','.join(_formatted(item) for item in value)}]"
    if isinstance(value, dict):
        return "".join(f"{key}={_formatted(item)}" for key, item in value.items())
    return "null" if value is None else plain(value)
