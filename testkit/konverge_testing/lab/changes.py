"""Paths of the differences between two states of an object. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["changed_values", "changes"]

_BOOKKEEPING: Final = ("resourceVersion", "managedFields")


def changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the path of each difference between two values, with both values."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, pair in enumerate(zip(before, after, strict=True)):
            yield from changes(*pair, f"{path}[{place}]")
    else:
        yield path or ".", before, after


def changed_values(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the values that a write changed, without versions and managed fields.

    >>> changed_values({"spec": {"a": 1}, "metadata": {}}, {"spec": {"a": 2}, "metadata": {"resourceVersion": "2"}})
    ['.spec.a from 1 to 2']
    """
    return [f"{path} from {old!r} to {new!r}" for path, old, new in changes(_shown(before), _shown(after))]


def _shown(data: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in data.get("metadata", {}).items() if name not in _BOOKKEEPING}
    return {**data, "metadata": metadata}
