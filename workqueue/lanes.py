"""What is ready, in the order in which it is handed out: highest priority first, first in first out within a priority.

One lane per priority. Moving an entry to another lane or removing it leaves its old place in the row behind, to be skipped when it
is met: an entry stands in its lane exactly if its state is READY and its priority is the lane's. That is unambiguous because
a priority only rises, so no entry enters a lane twice. Memory is bounded: a lane whose places are mostly vacant is rewritten.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from konverge.workqueue.entry import Entry, State

__all__ = ["Lanes"]

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class _Lane(Generic[K]):
    """The entries of one priority, some of them vacant."""

    __slots__ = ("occupied", "priority", "row")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.row: deque[Entry[K]] = deque()
        self.occupied = 0

    def __iter__(self) -> Iterator[Entry[K]]:
        return (entry for entry in self.row if entry.state is State.READY and entry.priority == self.priority)

    def vacate(self) -> None:
        """One entry of the row left it by another way than its front."""
        self.occupied -= 1
        if len(self.row) > 2 * self.occupied + _SLACK:
            self.row = deque(self)

    def popleft(self) -> Entry[K] | None:
        while self.row:
            entry = self.row.popleft()
            if entry.state is State.READY and entry.priority == self.priority:
                self.occupied -= 1
                return entry
        return None


class Lanes(Generic[K]):
    """All ready entries.

    >>> lanes = Lanes[str]()
    >>> for key, priority in ("a", 0), ("b", 5), ("c", 0):
    ...     lanes.push(Entry(key, priority, ("test",), added_at=0.0))
    >>> [entry.key for entry in lanes]
    ['b', 'a', 'c']
    """

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane[K]] = {}
        # The negated priorities of all lanes, each once: a heap, so that many priorities cost no search.
        self._order: list[int] = []
        self._size = 0

    def push(self, entry: Entry[K]) -> None:
        """Put an entry at the back of its priority; it is READY from now on."""
        entry.state = State.READY
        lane = self._lanes.get(entry.priority)
        if lane is None:
            lane = self._lanes[entry.priority] = _Lane(entry.priority)
            heapq.heappush(self._order, -entry.priority)
        lane.row.append(entry)
        lane.occupied += 1
        self._size += 1

    def pop(self) -> Entry[K] | None:
        """Take the next entry; it is GONE from now on. None where nothing is ready."""
        while self._order:
            priority = -self._order[0]
            lane = self._lanes[priority]
            entry = lane.popleft()
            if not lane.occupied:
                heapq.heappop(self._order)
                del self._lanes[priority]
            if entry is not None:
                entry.state = State.GONE
                self._size -= 1
                return entry
        return None

    def promote(self, entry: Entry[K], priority: int) -> None:
        """Give a ready entry a higher priority: it goes to the back of that one."""
        left = self._lanes[entry.priority]
        entry.priority = priority
        left.vacate()
        self._size -= 1
        self.push(entry)

    def remove(self, entry: Entry[K]) -> None:
        """Take a ready entry out of the row; it is GONE from now on."""
        entry.state = State.GONE
        self._lanes[entry.priority].vacate()
        self._size -= 1

    def __iter__(self) -> Iterator[Entry[K]]:
        for priority in sorted(self._lanes, reverse=True):
            yield from self._lanes[priority]

    def __len__(self) -> int:
        return self._size
