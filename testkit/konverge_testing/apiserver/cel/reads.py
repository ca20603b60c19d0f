"""The parts of a variable that expressions read, as paths and as trees of names: expressions get only these, and a value whose read
parts are unchanged need not be validated again.

Guarantees: pure; imports nothing of the CEL library. A path is the fields from the variable on, () for the whole value; everything below
its end is read as well. Two names are not fields: see EACH and THERE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["EACH", "THERE", "pruned", "tree_of"]

EACH: Final = "[]"
"""In place of a field name: the items of a list in a loop."""
THERE: Final = "?"
"""The end of a path if only the presence of the value is read, or its number of items."""


def tree_of(paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Return paths as a tree of names; "" marks the end of a path."""
    tree: dict[str, Any] = {}
    for path in paths:
        here = tree
        for name in path:
            here = here.setdefault(name, {})
        if path[-1:] != (THERE,):
            here[""] = {}
    return tree


def pruned(value: Any, tree: Mapping[str, Any]) -> Any:
    """Return a value of unknown type reduced to the read parts; null if there are none."""
    if not tree:
        return None
    if "" in tree:
        return value
    if isinstance(value, list) and EACH in tree:
        return [pruned(one, tree[EACH]) for one in value]
    if not isinstance(value, dict) or EACH in tree:
        return value
    return {name: pruned(value[name], below) for name, below in tree.items() if name in value}
