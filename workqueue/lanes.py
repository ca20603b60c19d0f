"""The ready entries in the order of `get`: highest priority first, first in first out within a priority.

One lane per priority. An entry that is promoted or removed leaves a vacant place in its old lane, which `popleft` skips: a place is
occupied if the entry is READY and has the lane's priority. This is unambiguous because a priority only rises, so an entry enters a
lane at most once. Memory is bounded: a lane is rewritten if most of its places are vacant.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from konverge.workqueue.entry import EntryState, QueueEntry

__all__ = ["Lanes"]

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class _Lane(Generic[K]):
    """The entries of one priority, and vacant places."""

    __slots__ = ("occupied", "priority", "row")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        # First in first out; an entry is in here at most once, and may be vacant.
        self.row: deque[QueueEntry[K]] = deque()
        # The number of occupied places of `row`; a lane without any is removed by `pop`.
        self.occupied = 0

    def __iter__(self) -> Iterator[QueueEntry[K]]:
        return (entry for entry in self.row if entry.state is EntryState.READY and entry.priority == self.priority)

    def vacate(self) -> None:
        """Account for an entry that left the row other than by `popleft`."""
        self.occupied -= 1
        if len(self.row) > 2 * self.occupied + _SLACK:
            self.row = deque(self)

    def popleft(self) -> QueueEntry[K] | None:
        while self.row:
            entry = self.row.popleft()
            if entry.state is EntryState.READY and entry.priority == self.priority:
                self.occupied -= 1
                return entry
        return None


class Lanes(Generic[K]):
    """The ready entries by priority.

    >>> lanes = Lanes[str]()
    >>> for key, priority in ("a", 0), ("b", 5), ("c", 0):
    ...     lanes.push(QueueEntry(key, priority, ("test",), added_at=0.0))
    >>> [entry.key for entry in lanes]
    ['b', 'a', 'c']
    """

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane[K]] = {}
        # A heap of the negated keys of `_lanes`, each once, so that the highest priority is found without a search.
        self._order: list[int] = []
        # The sum of `occupied` over all lanes.
        self._size = 0

    def push(self, entry: QueueEntry[K]) -> None:
        """Mark an entry READY, at the back of its priority."""
        entry.state = EntryState.READY
        lane = self._lanes.get(entry.priority)
        if lane is None:
            lane = self._lanes[entry.priority] = _Lane(entry.priority)
            heapq.heappush(self._order, -entry.priority)
        lane.row.append(entry)
        lane.occupied += 1
        self._size += 1

    def pop(self) -> QueueEntry[K] | None:
        """Remove and return the next entry, which becomes GONE; None if no entry is ready."""
        while self._order:
            priority = -self._order[0]
            lane = self._lanes[priority]
            entry = lane.popleft()
            if not lane.occupied:
                heapq.heappop(self._order)
                del self._lanes[priority]
            if entry is not None:
                entry.state = EntryState.GONE
                self._size -= 1
                return entry
        return None

    def promote(self, entry: QueueEntry[K], priority: int) -> None:
        """Move a ready entry to the back of a higher priority."""
        left = self._lanes[entry.priority]
        entry.priority = priority
        left.vacate()
        self._size -= 1
        self.push(entry)

    def remove(self, entry: QueueEntry[K]) -> None:
        """Remove a ready entry, which becomes GONE."""
        entry.state = EntryState.GONE
        self._lanes[entry.priority].vacate()
        self._size -= 1

    def __iter__(self) -> Iterator[QueueEntry[K]]:
        for priority in sorted(self._lanes, reverse=True):
            yield from self._lanes[priority]

    def __len__(self) -> int:
        return self._size
