"""Helpers of cells: access to plain data, and texts that many kinds share.

Guarantees: pure; a missing value, null, or a value of another type reads as empty.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`, k8s.io/apimachinery `pkg/apis/meta/v1/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeAlias

from konverge_testing.apiserver.tables.durations import since

__all__ = [
    "Cells",
    "Data",
    "age",
    "at",
    "conditions",
    "containers",
    "items",
    "labels",
    "name",
    "number",
    "selector",
    "some",
    "text",
]

Data: TypeAlias = dict[str, Any]
Cells: TypeAlias = Callable[[Data, datetime], list[Any]]
"""Returns the cells of one object."""

_SIGNS = {"In": "in", "NotIn": "notin"}


def at(value: Any, *path: str) -> Any:
    """Return the value under a path, or None if a part of the path is missing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text(value: Any, *path: str) -> str:
    """Return the text under a path, or ""."""
    found = at(value, *path)
    return "" if found is None else str(found)


def number(value: Any, *path: str) -> int:
    """Return the number under a path, or 0."""
    found = at(value, *path)
    return int(found) if isinstance(found, (int, float)) else 0


def items(value: Any, *path: str) -> list[Data]:
    """Return the objects of the list under a path."""
    found = at(value, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def name(object_: Data) -> str:
    """Return the name."""
    return text(object_, "metadata", "name")


def age(object_: Data, now: datetime) -> str:
    """Return the age."""
    return since(at(object_, "metadata", "creationTimestamp"), now)


def conditions(object_: Data) -> dict[str, Data]:
    """Return the conditions by type; the first of a type counts."""
    found: dict[str, Data] = {}
    for condition in items(object_, "status", "conditions"):
        found.setdefault(text(condition, "type"), condition)
    return found


def containers(spec: Any) -> tuple[str, str]:
    """Return the names and the images of a pod's containers."""
    found = items(spec, "containers")
    return ",".join(text(each, "name") for each in found), ",".join(text(each, "image") for each in found)


def labels(found: Any) -> str:
    """Return labels as `a=b,c=d`, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted(found.items())) if found else "<none>"


def selector(found: Any) -> str:
    """Return a label selector as text, or "" if it selects everything or nothing."""
    parts = [(key, f"{key}={value}") for key, value in (at(found, "matchLabels") or {}).items()]
    for expression in items(found, "matchExpressions"):
        key, sign = text(expression, "key"), text(expression, "operator")
        values = ",".join(sorted(at(expression, "values") or ()))
        if sign == "Exists":
            parts.append((key, key))
        elif sign == "DoesNotExist":
            parts.append((key, f"!{key}"))
        elif sign in _SIGNS:
            parts.append((key, f"{key} {_SIGNS[sign]} ({values})"))
    return ",".join(part for _, part in sorted(parts, key=lambda each: each[0]))


def some(found: Iterable[str], most: int, count: int, empty: str) -> str:
    """Return the first few items, and the number of the rest."""
    shown = ",".join(list(found)[:most])
    return f"{shown} + {count - most} more..." if count > most else shown or empty
