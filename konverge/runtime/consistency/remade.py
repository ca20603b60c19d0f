"""The children that each owner made last: making one of them again is the sign of an owner that is gone, although the cache still shows it.

The garbage collector deletes a child at once if no object has the uid of its owner reference. Its deletion enqueues the owner, so while the
watch of the owner is interrupted, each reconcile would make the child anew, as fast as the collector deletes it. Before a child is made
again, its owner is therefore read from the server (`Children.own`).

Guarantees: pure. Bounded: the owners that made children longest ago are forgotten first.

The collector (attemptToDeleteItem):
https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/garbagecollector/garbagecollector.go
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set as AbstractSet
from typing import Final

from konverge.keys import Key

__all__ = ["RemadeChildren"]

_NONE: Final[frozenset[Key]] = frozenset()


class RemadeChildren:
    """The memory of one controller."""

    def __init__(self, *, limit: int = 4096) -> None:
        self._limit = limit
        self._made: OrderedDict[Key, AbstractSet[Key]] = OrderedDict()

    def before(self, owner: Key) -> AbstractSet[Key]:
        """Return the children that the last reconcile of an owner that made any made."""
        return self._made.get(owner, _NONE)

    def note(self, owner: Key, children: AbstractSet[Key]) -> None:
        """Note the children that a reconcile of an owner has made."""
        self._made[owner] = children
        self._made.move_to_end(owner)
        if len(self._made) > self._limit:
            self._made.popitem(last=False)

    def forget(self, owner: Key) -> None:
        """Drop what is kept of an owner that is gone."""
        self._made.pop(owner, None)
