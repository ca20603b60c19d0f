"""Defaults as a table of paths and values.

Guarantees: `fill` changes the object in place and is idempotent. A path names fields from the outside to the inside, `spec.suspend`:

- `name[]` is each item of a list, and `name?` a struct that stays absent; another struct is created;
- a last field with `+` gets the value if it is empty, another last field only if it is absent.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

__all__ = ["Defaults", "fill"]

Defaults = Sequence[tuple[str, Any]]


def fill(data: dict[str, Any], defaults: Defaults) -> None:
    """Fill in defaults, in their order."""
    for path, value in defaults:
        _fill(data, _steps(path), value)


@cache
def _steps(path: str) -> tuple[tuple[str, str], ...]:
    """Return the names of a path, each with its sign."""
    names = [(step, step.rstrip("[]?+")) for step in path.split(".")]
    return tuple((name, step.removeprefix(name)) for step, name in names)


def _fill(data: dict[str, Any], steps: Sequence[tuple[str, str]], value: Any) -> None:
    (name, sign), rest = steps[0], steps[1:]
    if not rest:
        if name not in data or (sign and not data[name]):
            data[name] = copy.deepcopy(value) if isinstance(value, dict | list) else value
    elif sign == "[]":
        for item in data.get(name) or ():
            _fill(item, rest, value)
    elif not sign:
        _fill(data.setdefault(name, {}), rest, value)
    elif data.get(name) is not None:
        _fill(data[name], rest, value)
