"""The delayed entries by time.

A heap of records (time, ticket, entry). A change of an entry's time does not search the heap. A later time is only noted in the entry; the
record is put back if it is reached too early. An earlier time adds a record; the old record no longer has the entry's ticket and is
skipped. Memory is bounded: the heap is rewritten if most of its records are void. (Otherwise a key that is requeued after ten hours and run
by an event every second would leave 36,000 records.)
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from konverge.workqueue.entry import EntryState, QueueEntry

__all__ = ["Timetable"]

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class Timetable(Generic[K]):
    """The delayed entries.

    >>> table = Timetable[str]()
    >>> table.put(QueueEntry("a", 0, ("test",), added_at=0.0), 7.0)
    >>> table.next_at(), table.pop_due(6.0), table.pop_due(7.0).key
    (7.0, None, 'a')
    """

    def __init__(self) -> None:
        # A record is valid if it has its entry's ticket. Each DELAYED entry has exactly one valid record, whose time is not after
        # the entry's `ready_at`.
        self._heap: list[tuple[float, int, QueueEntry[K]]] = []
        # The last ticket issued; tickets are unique, so records never compare their entries.
        self._ticket = 0
        # The number of valid records.
        self._size = 0

    def put(self, entry: QueueEntry[K], at: float) -> None:
        """Add an entry that becomes ready at this time, or change an entry's time; it is DELAYED from now on."""
        if entry.ticket and at >= entry.ready_at:
            entry.ready_at = at
            return
        if not entry.ticket:
            self._size += 1
        entry.state = EntryState.DELAYED
        entry.ready_at = at
        self._ticket += 1
        entry.ticket = self._ticket
        heapq.heappush(self._heap, (at, entry.ticket, entry))
        self._tidy()

    def remove(self, entry: QueueEntry[K]) -> None:
        """Remove the entry, if present."""
        if entry.ticket:
            entry.ticket = 0
            self._size -= 1
            self._tidy()

    def pop_due(self, now: float) -> QueueEntry[K] | None:
        """Remove and return the earliest entry that is due; None if none is."""
        at = self.next_at()
        if at is None or at > now:
            return None
        entry = heapq.heappop(self._heap)[2]
        entry.ticket = 0
        self._size -= 1
        return entry

    def next_at(self) -> float | None:
        """Return when the next entry becomes ready; None if the timetable is empty."""
        while self._heap:
            at, ticket, entry = self._heap[0]
            if entry.ticket != ticket:
                heapq.heappop(self._heap)
            elif entry.ready_at > at:
                heapq.heapreplace(self._heap, (entry.ready_at, ticket, entry))
            else:
                return at
        return None

    def earliest(self, count: int) -> list[QueueEntry[K]]:
        """Return the first `count` entries by time."""
        return heapq.nsmallest(count, self, key=lambda entry: entry.ready_at)

    def clear(self) -> list[QueueEntry[K]]:
        """Remove and return all entries."""
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

    def __iter__(self) -> Iterator[QueueEntry[K]]:
        return (entry for _, ticket, entry in self._heap if entry.ticket == ticket)

    def __len__(self) -> int:
        return self._size
