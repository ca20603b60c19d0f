"""Correlation of old and new values, for ratcheting.

Guarantees: pure. Fields correlate by name, items of keyed lists by their keys, nothing else. Source: k8s.io/apiserver
`pkg/cel/common/equality.go`, `maplist.go` (KEP-4008).
"""

from __future__ import annotations

from typing import Any

from konverge_testing.apiserver.golang import same
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.traits import map_values

__all__ = ["Correlated"]


class Correlated:
    """A new value, the old value at its place, and the schema for the correlation of the values below."""

    __slots__ = ("_equal", "_keyed", "new", "node", "old")

    def __init__(self, new: Any, old: Any, node: Node) -> None:
        self.new = new
        self.old = old
        self.node = node
        self._equal: bool | None = None
        self._keyed: dict[Any, Any] | None = None

    def key(self, name: str) -> Correlated | None:
        """Return the correlation of a field, or None if it has no old value or no schema."""
        if (
            not isinstance(self.new, dict)
            or not isinstance(self.old, dict)
            or name not in self.new
            or name not in self.old
        ):
            return None
        child = self.node.properties.get(name) or map_values(self.node)
        return None if child is None else Correlated(self.new[name], self.old[name], child)

    def index(self, index: int) -> Correlated | None:
        """Return the correlation of an item of a keyed list with the old item of the same keys, or None if there is none."""
        if (
            not isinstance(self.new, list)
            or not isinstance(self.old, list)
            or not self._is_keyed
            or self.node.items is None
        ):
            return None
        if self._keyed is None:
            self._keyed = {}
            for item in self.old:
                if (key := self._key_of(item)) is not None:
                    self._keyed.setdefault(key, item)
        key = self._key_of(self.new[index])
        old = None if key is None else self._keyed.get(key)
        return None if old is None else Correlated(self.new[index], old, self.node.items)

    @property
    def _is_keyed(self) -> bool:
        return self.node.type == "array" and self.node.list_type == "map" and bool(self.node.list_keys)

    def _key_of(self, item: Any) -> tuple[Any, ...] | None:
        if not isinstance(item, dict):
            return None
        found = []
        for name in self.node.list_keys:
            value = item.get(name)
            if not isinstance(value, (str, int, float)):
                return None
            found.append((value.__class__, value))
        return tuple(found)

    @property
    def equal(self) -> bool:
        """Whether the value is unchanged; the order of a keyed list does not count."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if isinstance(new, list) and isinstance(old, list):
            if len(new) != len(old):
                return False
            if not self._is_keyed or not new:
                return same(new, old)
            return all((child := self.index(at)) is not None and child.equal for at in range(len(new)))
        if isinstance(new, dict) and isinstance(old, dict):
            if len(new) != len(old):
                return False
            return all((child := self.key(name)) is not None and child.equal for name in new)
        return same(new, old)
