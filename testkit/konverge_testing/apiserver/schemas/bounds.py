"""Numbers against maximum, minimum, multipleOf and format, with the conversions and words of kube-openapi.

Guarantees: pure. Bounds are floats on the server, and are cut to integers if the value is one. Source: k8s.io/kube-openapi
`pkg/validation/validate/{validator,values}.go`, go-openapi/swag `convert.go`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from konverge_testing.apiserver.golang import MAX_INT64, MIN_INT64, float_text, number_text

__all__ = ["NumberProblem", "in_range", "is_json_integer", "number_problems"]

_JSON_MAX: Final = 2**53 - 1
_EPSILON: Final = 1e-9


class NumberProblem(NamedTuple):
    """An error of a number: its message; `value` is None if the error has no field of its own."""

    words: str
    value: float | None


def is_json_integer(value: float) -> bool:
    """Tell whether a float counts as an integer."""
    if value != value or not -_JSON_MAX - 1 <= value <= _JSON_MAX:
        return False
    whole = float(int(value))
    if value == whole:
        return True
    if whole == 0:
        return False
    return value > 0 and abs(value - whole) / (abs(value) + abs(whole)) < _EPSILON


def _typed(schema: Mapping[str, Any]) -> tuple[str, str]:
    kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type") or ""
    form = schema.get("format") or ""
    if kind == "integer":
        return kind, form if form in ("int32", "int64") else ""
    if kind == "number":
        return kind, form if form in ("float", "double") else ""
    return "", ""


def in_range(value: Any, kind: str, form: str) -> bool:
    """Tell whether a number fits a type and format."""
    if kind == "integer":
        if value.__class__ is float and not value.is_integer():
            return False
        bits = 31 if form == "int32" else 63
        return bool(-(2**bits) <= value < 2**bits)
    if form == "float":
        try:
            struct.pack("<f", value)
        except OverflowError:
            return False
    return True


def _range(value: float, kind: str, form: str, what: str, path: str) -> list[NumberProblem]:
    if in_range(value, kind, form):
        return []
    shown = f"with format {form}" if form else "(default format)"
    return [NumberProblem(f"{what} value must be of type {kind} {shown} in {path}", None)]


def number_problems(schema: Mapping[str, Any], path: str, value: Any) -> list[NumberProblem]:
    """Return the errors of a number, in the server's order."""
    kind, form = _typed(schema)
    if value.__class__ is int and not MIN_INT64 <= value <= MAX_INT64:
        value = float(value)
    found = _range(value, kind, form, "Checked", path)
    factor, most, least = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
    if factor is not None:
        wrong = _range(float(factor), kind, form, "MultipleOf", path)
        found += wrong + _multiple(float(factor), path, value, general=bool(wrong))
    if least is not None:
        wrong = _range(float(least), kind, form, "Minimum boundary", path)
        found += wrong + _bound(schema, path, value, float(least), upper=False, general=bool(wrong))
    if most is not None:
        wrong = _range(float(most), kind, form, "Maximum boundary", path)
        found += wrong + _bound(schema, path, value, float(most), upper=True, general=bool(wrong))
    return found


def _bound(
    schema: Mapping[str, Any], path: str, value: Any, bound: float, *, upper: bool, general: bool
) -> list[NumberProblem]:
    exclusive = bool(schema.get("exclusiveMaximum" if upper else "exclusiveMinimum"))
    limit: float = bound
    if value.__class__ is int and not general:
        limit = max(MIN_INT64, min(MAX_INT64, int(bound)))
    elif value.__class__ is int:
        value = float(value)
    good = (
        (value < limit if exclusive else value <= limit) if upper else (value > limit if exclusive else value >= limit)
    )
    if good:
        return []
    words = (
        ("less than" if upper else "greater than")
        if exclusive
        else ("less than or equal to" if upper else "greater than or equal to")
    )
    return [NumberProblem(f"{path} in body should be {words} {number_text(limit)}", value)]


def _multiple(factor: float, path: str, value: Any, *, general: bool) -> list[NumberProblem]:
    if value.__class__ is int and not general:
        whole = int(factor)
        if whole <= 0:
            return [NumberProblem(f"factor MultipleOf declared for {path} must be positive: {whole}", whole)]
        good, shown = value % whole == 0, str(whole)
    else:
        value = float(value)
        if factor <= 0:
            return [
                NumberProblem(f"factor MultipleOf declared for {path} must be positive: {float_text(factor)}", factor)
            ]
        good, shown = is_json_integer(1 / factor * value if factor < 1 else value / factor), float_text(factor)
    return [] if good else [NumberProblem(f"{path} in body should be a multiple of {shown}", value)]
