"""Ratcheting: an update is not refused for errors in unchanged values.

Guarantees: pure. Follows k8s.io/apiserver `pkg/cel/common/equality.go`: values correspond by field, by key of a map, and by the
keys of a list that is a map; items of other lists do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from konverge_testing.apiserver.cel.values import key_of
from konverge_testing.apiserver.nodes import Node

__all__ = ["Correlation", "Ratchet", "matching"]


def matching(node: Node, old: Any, item: Any) -> Any:
    """Return the old item that corresponds to a new item, or None."""
    if node.list_type != "map" or not isinstance(old, list):
        return None
    key = key_of(node, item)
    if key is None:
        return None
    return next((one for one in old if key_of(node, one) == key), None)


@dataclass(frozen=True, slots=True)
class Correlation:
    """A new value and the corresponding old value."""

    node: Node
    new: Any
    old: Any

    def key(self, name: str) -> Correlation | None:
        """Return the correlation of a field."""
        child = self.node.child(name)
        if child is None or not (isinstance(self.old, dict) and isinstance(self.new, dict)):
            return None
        if name not in self.old or name not in self.new:
            return None
        return Correlation(child, self.new[name], self.old[name])

    def index(self, at: int) -> Correlation | None:
        """Return the correlation of an item."""
        if not isinstance(self.new, list) or self.node.items is None:
            return None
        old = matching(self.node, self.old, self.new[at])
        return None if old is None else Correlation(self.node.items, self.new[at], old)

    @property
    def unchanged(self) -> bool:
        """Whether both are equal; a list that is a map may have another order."""
        if isinstance(self.new, list) and isinstance(self.old, list) and self.node.list_type == "map":
            if len(self.new) != len(self.old):
                return False
            return all(one is not None and one.unchanged for one in map(self.index, range(len(self.new))))
        if isinstance(self.new, dict) and isinstance(self.old, dict):
            if len(self.new) != len(self.old):
                return False
            return all(one is not None and one.unchanged for one in map(self.key, self.new))
        return self.new is not None and type(self.new) is type(self.old) and bool(self.new == self.old)


@dataclass(frozen=True, slots=True)
class Ratchet:
    """The position of a walk: at a correlated value, or below the nearest correlated value."""

    here: Correlation | None = None
    above: Correlation | None = None

    def step(self, name: str | int, within: Sequence[str] = ("apiVersion", "kind")) -> Ratchet:
        """Step to a field or an item."""
        if self.here is None:
            return self
        if self.above is None and name in within:
            return Ratchet()
        found = self.here.index(name) if isinstance(name, int) else self.here.key(name)
        return Ratchet(found, self.here)

    @property
    def forgives(self) -> bool:
        """Whether nothing changed at this position, or in any value around it."""
        at = self.here if self.here is not None else self.above
        return at is not None and at.unchanged
