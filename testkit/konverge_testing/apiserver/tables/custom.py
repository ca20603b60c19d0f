"""Cells of custom resources, by additionalPrinterColumns.

Guarantees: pure. The first result counts; a value of another type than the column's is an empty cell (null, which kubectl prints as
`<none>`), except in a column of strings, which shows everything: structures as JSON with sorted keys, numbers and booleans as Go prints
them.

Source: k8s.io/apiextensions-apiserver `pkg/registry/customresource/tableconvertor`.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from konverge_testing.apiserver.resources import Column
from konverge_testing.apiserver.tables.durations import parsed, since
from konverge_testing.apiserver.tables.jsonpath import find

__all__ = ["AGE", "custom_cells"]

Data = dict[str, Any]

AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")
"""The column of a CustomResourceDefinition without columns."""

_ESCAPED: Final = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""Characters that Go's encoder escapes for HTML."""


def custom_cells(columns: tuple[Column, ...], object_: Data, now: datetime) -> list[Any]:
    """Return the name and one cell for each column."""
    name = (object_.get("metadata") or {}).get("name", "")
    return [name, *(_cell(column, object_, now) for column in columns)]


def _cell(column: Column, object_: Data, now: datetime) -> Any:
    found = find(column.path, object_)
    if not found:
        return None
    value = found[0]
    if column.type == "string":
        return _text(value)
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if column.type == "integer":
        return _integer(value) if number else None
    if column.type == "number":
        return value if number else None
    if column.type == "boolean":
        return value if isinstance(value, bool) else None
    return _date(value, now) if column.type == "date" else None


def _date(value: Any, now: datetime) -> str | None:
    if not isinstance(value, str):
        return None
    return since(value, now) if not value or parsed(value) else "<invalid>"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, float):
        return _float(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).translate(_ESCAPED)


def _integer(value: float) -> int:
    """Return a number as Go converts it to int64: truncated, or the minimum if it does not fit."""
    return int(value) if abs(value) < 1 << 63 else -(1 << 63)


def _float(value: float) -> str:
    """Return a float as Go's `%v` does: shortest, with an exponent from 1e21 on and below 1e-4."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent}" if exponent else mantissa
