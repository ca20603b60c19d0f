"""The places of waiting entries: ready entries in lanes by priority, delayed entries in a timetable; and how often a key may run.

One lane per priority, first in first out. An entry that is promoted or removed leaves a vacant place in its old lane, which `popleft`
skips: a place is occupied if the entry is READY and has the lane's priority. This is unambiguous because a priority only rises, so an entry
enters a lane at most once. A lane is rewritten if most of its places are vacant, so memory is bounded.

So that a low priority does not starve, one of `oldest_every` entries is, of the fronts of all lanes, the front that has been ready for
longest. New entries cannot delay it without end, as strictly by priority they can:
https://github.com/kubernetes-sigs/controller-runtime/issues/3496

The timetable is a heap of records (time, ticket, entry). A change of an entry's time does not search the heap. A later time is only noted
in the entry; the record is put back if it is due too early. An earlier time adds a record; the old record no longer has the entry's
ticket and is skipped. The heap is rewritten if most of its records are void. (Otherwise a key that is requeued after ten hours and run by
an event every second would leave 36,000 records.)

With a minimum interval, two starts of a key are at least that far apart, retries included. With a debounce, an event waits until
`debounce` seconds pass without another event, and at most `debounce_max` after the first event. Both are off (0) by default. An add with a
time (`add_after`, a retry) is not debounced: the earlier of the add's time and the end of the debounce wins.

controller-runtime has neither: https://github.com/kubernetes-sigs/controller-runtime/issues/857. cluster-api limits its reconcilers by a
wrapper: https://github.com/kubernetes-sigs/cluster-api/issues/13005. A debounce in kube-rs: https://github.com/kube-rs/kube/issues/1247
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import msgspec

from konverge.workqueue.entry import EntryState, QueueEntry

__all__ = ["Lanes", "Starts", "Throttle", "Timetable"]


K = TypeVar("K", bound=Hashable)


class Throttle(msgspec.Struct, frozen=True, kw_only=True):
    """Minimum interval and debounce of every key of one queue, in seconds.

    `min_interval` is the least time between two starts of the same key. `debounce` is the time without events that an event waits for,
    `debounce_max` the longest such wait (default: ten times `debounce`).

    >>> Throttle(debounce=0.5).settles_at(first_event=10.0, now=10.25)
    10.75
    """

    min_interval: float = 0.0
    debounce: float = 0.0
    debounce_max: float | None = None

    def __post_init__(self) -> None:
        longest = self.debounce if self.debounce_max is None else self.debounce_max
        if not (0 <= self.min_interval < math.inf and 0 <= self.debounce <= longest < math.inf):
            raise ValueError(
                f"a throttle needs finite seconds, none negative, and debounce <= debounce_max, got {self!r}"
            )

    def settles_at(self, *, first_event: float, now: float) -> float:
        """Return the end of the debounce of a burst that began at `first_event` and had an event just now."""
        longest = 10 * self.debounce if self.debounce_max is None else self.debounce_max
        return min(now + self.debounce, first_event + longest)


class Starts(Generic[K]):
    """The last start of each key, kept for the minimum interval.

    >>> starts = Starts[str](min_interval=10)
    >>> starts.note("a", now=5.0)
    >>> starts.earliest("a"), starts.earliest("b")
    (15.0, -inf)
    """

    def __init__(self, min_interval: float) -> None:
        self._interval = min_interval
        # Ordered by start time, so that the expired starts are at the front.
        self._last: OrderedDict[K, float] = OrderedDict()

    def note(self, key: K, now: float) -> None:
        """Record that the key starts now."""
        if not self._interval:
            return
        self._last[key] = now
        self._last.move_to_end(key)
        while self._last and next(iter(self._last.values())) + self._interval <= now:
            self._last.popitem(last=False)

    def earliest(self, key: K) -> float:
        """Return the earliest time of the key's next start, minus infinity if the interval does not limit it."""
        last = self._last.get(key)
        return -math.inf if last is None else last + self._interval

    def __len__(self) -> int:
        return len(self._last)


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

    def front(self) -> QueueEntry[K]:
        """Return the first entry of a lane that has an entry."""
        while self.row[0].state is not EntryState.READY or self.row[0].priority != self.priority:
            self.row.popleft()
        return self.row[0]

    def popleft(self) -> QueueEntry[K] | None:
        while self.row:
            entry = self.row.popleft()
            if entry.state is EntryState.READY and entry.priority == self.priority:
                self.occupied -= 1
                return entry
        return None


class Lanes(Generic[K]):
    """The ready entries by priority; of `oldest_every` entries one is the oldest, 0: none.

    >>> lanes = Lanes[str]()
    >>> for key, priority in ("a", 0), ("b", 5), ("c", 0):
    ...     lanes.push(QueueEntry(key, priority, ("test",), added_at=0.0))
    >>> [entry.key for entry in lanes]
    ['b', 'a', 'c']
    """

    def __init__(self, oldest_every: int = 0) -> None:
        self._oldest_every = oldest_every
        # The number of entries that were handed out by priority, while another lane existed, since the last oldest entry.
        self._by_priority = 0
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
        if self._oldest_every and self._order[1:2]:  # another lane; cheaper than a call of len
            self._by_priority += 1
            if self._by_priority >= self._oldest_every:
                self._by_priority = 0
                return self._pop_oldest()
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

    def _pop_oldest(self) -> QueueEntry[K] | None:
        """Remove and return the front that has been ready for longest. A lane that becomes empty is left to `pop`."""
        lanes = [lane for lane in self._lanes.values() if lane.occupied]
        if not lanes:
            return None
        entry = min(lanes, key=lambda lane: lane.front().ready_at).popleft()
        assert entry is not None, "the lane has an entry"
        entry.state = EntryState.GONE
        self._size -= 1
        return entry

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


class Timetable(Generic[K]):
    """The delayed entries.

    >>> table = Timetable[str]()
    >>> table.put(QueueEntry("a", 0, ("test",), added_at=0.0), 7.0)
    >>> table.next_at(), table.pop_due(6.0), table.pop_due(7.0).key
    (7.0, None, 'a')
    """

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, QueueEntry[K]]] = []
        """The records; only to be compared with the empty list. In most queues no entry is delayed, and no call is needed to know it.

        A record is valid if it has its entry's ticket. Each DELAYED entry has exactly one valid record, whose time is not after the
        entry's `ready_at`.
        """
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
        heapq.heappush(self.heap, (at, entry.ticket, entry))
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
        entry = heapq.heappop(self.heap)[2]
        entry.ticket = 0
        self._size -= 1
        return entry

    def next_at(self) -> float | None:
        """Return when the next entry becomes ready; None if the timetable is empty."""
        while self.heap:
            at, ticket, entry = self.heap[0]
            if entry.ticket != ticket:
                heapq.heappop(self.heap)
            elif entry.ready_at > at:
                heapq.heapreplace(self.heap, (entry.ready_at, ticket, entry))
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
        self.heap.clear()
        self._size = 0
        return entries

    def _tidy(self) -> None:
        if len(self.heap) > 2 * self._size + _SLACK:
            self.heap = [(entry.ready_at, entry.ticket, entry) for entry in self]
            heapq.heapify(self.heap)

    def __iter__(self) -> Iterator[QueueEntry[K]]:
        return (entry for _, ticket, entry in self.heap if entry.ticket == ticket)

    def __len__(self) -> int:
        return self._size
