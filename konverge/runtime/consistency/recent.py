"""A bounded mapping, for what is worth remembering of many objects and may be forgotten of each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping that drops the entry that was least recently used.

    >>> recent = Recent[str, int](2)
    >>> recent.put("a", 1), recent.put("b", 2), recent.get("a"), recent.put("c", 3), recent.get("b")
    (None, None, 1, None, None)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return an entry, None if it is not there."""
        value = self._items.get(key)
        if value is not None:
            self._items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry."""
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._limit:
            self._items.popitem(last=False)

    def drop(self, key: K) -> None:
        """Remove an entry if it is there."""
        self._items.pop(key, None)

    def __len__(self) -> int:
        return len(self._items)
