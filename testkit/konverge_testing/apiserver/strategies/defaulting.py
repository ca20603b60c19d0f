"""Defaults as a table of paths and values.

Guarantees: `Tree.fill` changes the object in place and is idempotent. A path names fields from the outside to the inside, `spec.suspend`:

- `name[]` is each item of a list, and `name?` a struct that stays absent; another struct is created;
- a last field with `+` gets the value if it is empty, another last field only if it is absent.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

__all__ = ["Defaults", "Tree"]

Defaults = Sequence[tuple[str, Any]]


class Tree:
    """A table of defaults, with the fields of a struct beside each other: each struct is visited once."""

    def __init__(self, defaults: Defaults) -> None:
        self._leaves = [
            (name.removesuffix("+"), name.endswith("+"), value) for name, value in defaults if "." not in name
        ]
        deeper: dict[str, list[tuple[str, Any]]] = {}
        for path, value in defaults:
            first, dot, rest = path.partition(".")
            if dot:
                deeper.setdefault(first, []).append((rest, value))
        self._branches = [
            (step.rstrip("[]?"), step.endswith("]"), step.endswith("?"), Tree(rows)) for step, rows in deeper.items()
        ]

    def fill(self, data: dict[str, Any]) -> None:
        """Fill in the defaults of an object."""
        for name, empty, value in self._leaves:
            if name not in data or (empty and not data[name]):
                data[name] = copy.deepcopy(value) if isinstance(value, dict | list) else value
        for name, many, optional, tree in self._branches:
            below = data.get(name)
            if many:
                for item in below or ():
                    tree.fill(item)
            elif below is not None:
                tree.fill(below)
            elif not optional:
                data[name] = {}
                tree.fill(data[name])
