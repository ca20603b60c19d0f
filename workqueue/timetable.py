"""What is not ready yet, by time.

A heap of (time, ticket, entry). Changing an entry's time does not search the heap: moving it later only notes the new time, and the
record is put back when it comes up too early; moving it earlier adds a record and leaves the old one behind, which no longer
holds the entry's ticket and is skipped. Invariants: each entry has one valid record, and its time is not after the entry's
`ready_at`. Memory is bounded: a heap whose records are mostly void is rewritten. (A key that is looked at again in ten hours
and run by events every second would else leave 36,000 records behind.)
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from konverge.workqueue.entry import Entry, State

__all__ = ["Timetable"]

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class Timetable(Generic[K]):
    """All delayed entries.

    >>> table = Timetable[str]()
    >>> table.put(Entry("a", 0, ("test",), added_at=0.0), 7.0)
    >>> table.next_at(), table.pop_due(6.0), table.pop_due(7.0).key
    (7.0, None, 'a')
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Entry[K]]] = []
        self._ticket = 0
        self._size = 0

    def put(self, entry: Entry[K], at: float) -> None:
        """Let the entry, new or already here, become ready at that time; it is DELAYED from now on."""
        if entry.ticket and at >= entry.ready_at:
            entry.ready_at = at
            return
        if not entry.ticket:
            self._size += 1
        entry.state = State.DELAYED
        entry.ready_at = at
        self._ticket += 1
        entry.ticket = self._ticket
        heapq.heappush(self._heap, (at, entry.ticket, entry))
        self._tidy()

    def remove(self, entry: Entry[K]) -> None:
        """Take the entry out, if it is here."""
        if entry.ticket:
            entry.ticket = 0
            self._size -= 1
            self._tidy()

    def pop_due(self, now: float) -> Entry[K] | None:
        """Take the earliest entry whose time has come; None where there is none."""
        at = self.next_at()
        if at is None or at > now:
            return None
        entry = heapq.heappop(self._heap)[2]
        entry.ticket = 0
        self._size -= 1
        return entry

    def next_at(self) -> float | None:
        """Return the time at which the next entry becomes ready."""
        while self._heap:
            at, ticket, entry = self._heap[0]
            if entry.ticket != ticket:
                heapq.heappop(self._heap)
            elif entry.ready_at > at:
                heapq.heapreplace(self._heap, (entry.ready_at, ticket, entry))
            else:
                return at
        return None

    def earliest(self, count: int) -> list[Entry[K]]:
        """Return the first so many entries by time."""
        return heapq.nsmallest(count, self, key=lambda entry: entry.ready_at)

    def clear(self) -> list[Entry[K]]:
        """Take out and return everything."""
        entries = list(self)
        for entry in entries:
            entry.ticket = 0
        self._heap.clear()
        self._size = 0
        return entries

    def _tidy(self) -> None:
        if len(self._heap) > 2 * self._size + _SLACK:
            self._heap = [(entry.ready_at, entry.ticket, entry) for entry in self]
            heapq.heapify(self._heap)

    def __iter__(self) -> Iterator[Entry[K]]:
        return (entry for _, ticket, entry in self._heap if entry.ticket == ticket)

    def __len__(self) -> int:
        return self._size
