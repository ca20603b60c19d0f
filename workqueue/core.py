"""The rules of the work queue, as a plain object: no await, no clock, no thread. The time is an argument of every method that needs it.

The rules are from client-go's queue and controller-runtime's priority queue, with four deviations (numbers 6 to 9):

1. A key has at most one entry, and at most one worker. `get` moves a ready entry into work; `done` ends the work.
2. An add merges into the entry of its key: the earliest time and the highest priority win, the reasons are united.
3. An add while the key is in work waits for `done`; any number of such adds cause exactly one more run, then queued at the back.
4. Ready entries are handed out by priority, and first in first out within a priority, in the order of becoming ready (at the same instant:
   unspecified). An entry whose priority is raised moves to the back of the new priority.
5. Shut-down refuses adds, drops delayed entries, and hands out the others, including the re-runs of keys in work.
6. A failure well before its retry deadline keeps the deadline (`konverge.workqueue.backoff`).
7. Minimum interval and debounce per key (`konverge.workqueue.schedule`).
8. The entry of a key also represents its retry: a run that an event triggers earlier replaces the retry. client-go would run the key
   again at the old time; here the outcome of the earlier run decides the next run.
9. With `oldest_every` one of so many entries is the entry that has been ready for longest, whatever its priority
   (`konverge.workqueue.schedule`). If n entries were ready when an entry became ready, at most `oldest_every` x (n + 1) precede it.

A `now` that is earlier than the previous `now`, by a rounding error of the clock, is harmless.

client-go: https://github.com/kubernetes/client-go/blob/master/util/workqueue/queue.go
controller-runtime: https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/controller/priorityqueue/priorityqueue.go
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from konverge.workqueue.backoff import EARLY_RETRY, ItemExponential, RetryDeadlines
from konverge.workqueue.entry import EntryState, Item, QueueEntry, WaitReason
from konverge.workqueue.limiters import Limiter
from konverge.workqueue.metrics import NoMetrics, QueueMetrics
from konverge.workqueue.report import Snapshot, Statistics, Waiting, Working
from konverge.workqueue.schedule import Lanes, Starts, Throttle, Timetable

__all__ = ["QueueCore"]

K = TypeVar("K", bound=Hashable)


class _Run(NamedTuple, Generic[K]):
    """A key in work: the item of its worker, and the time of `get`."""

    item: Item[K]
    since: float


class QueueCore(Generic[K]):
    """The queue without its asyncio shell.

    `limiter` defaults to `ItemExponential()` (5 ms doubling to 1000 s), `throttle` to none. `oldest_every` 0: strictly by priority.

    >>> core = QueueCore[str]()
    >>> core.add("a", 0.0, reason="created")
    >>> core.add("a", 1.0, reason="changed", priority=3)
    >>> item = core.get(2.0)
    >>> item.key, item.priority, item.why, item.waited
    ('a', 3, 'created, changed', 2.0)
    >>> core.done("a", 4.0)
    """

    def __init__(
        self,
        *,
        limiter: Limiter[K] | None = None,
        early_retry: float = EARLY_RETRY,
        throttle: Throttle | None = None,
        oldest_every: int = 0,
        metrics: QueueMetrics | None = None,
    ) -> None:
        if oldest_every < 0:
            raise ValueError(f"QueueCore needs oldest_every to be at least zero, got {oldest_every!r}")
        self._retry_deadlines: RetryDeadlines[K] = RetryDeadlines(
            ItemExponential[K]() if limiter is None else limiter, early_retry=early_retry
        )
        # Most keys never fail: a success of such a key does not enter the limiter.
        self._failing = self._retry_deadlines.failing
        self._throttle = Throttle() if throttle is None else throttle
        self._starts: Starts[K] = Starts(self._throttle.min_interval)
        self._metrics: QueueMetrics = NoMetrics() if metrics is None else metrics
        # The entry of each waiting key. It is also in `_lanes` (READY), in `_timetable` (DELAYED) or, if its key is in `_working`,
        # only here (HELD). It holds no GONE entry.
        self._waiting: dict[K, QueueEntry[K]] = {}
        # The keys in work, from `get` to `done`. A key may be in here and in `_waiting`; its entry is then HELD or DELAYED, never READY.
        self._working: dict[K, _Run[K]] = {}
        self._lanes: Lanes[K] = Lanes(oldest_every)
        self._timetable: Timetable[K] = Timetable()
        # The number of READY and HELD entries by priority; no zeros.
        self._depth: dict[int, int] = {}
        # Never set back. Once set, `_timetable` is empty and `_waiting` does not grow.
        self._shutting_down = False
        self._adds = self._retries = self._refused = self._dropped = 0

    # --- adding -------------------------------------------------------------------------------------------------------------

    def add(self, key: K, now: float, *, reason: str, priority: int = 0) -> None:
        """Add a key that changed: it becomes ready at once, or when the throttle allows."""
        self._add(key, now, None, WaitReason.DELAY, reason, priority)

    def add_after(self, key: K, delay: float, now: float, *, reason: str, priority: int = 0) -> None:
        """Add a key that becomes ready after `delay` seconds (at once if that is not above zero), or earlier by another add."""
        if not math.isfinite(delay):
            raise ValueError(f"add_after needs a finite delay, got {delay!r}")
        if delay > 0 and not self._shutting_down:
            self._retries += 1
            self._metrics.retried()
        self._add(key, now, now + max(0.0, delay), WaitReason.DELAY, reason, priority)

    def add_rate_limited(self, key: K, now: float, *, reason: str, priority: int = 0) -> float | None:
        """Add a key that failed: it becomes ready at its retry deadline, which is returned; None after shut-down."""
        if self._shutting_down:
            self._refused += 1
            return None
        at = self._retry_deadlines.retry_at(key, now)
        if at > now:
            self._retries += 1
            self._metrics.retried()
        self._add(key, now, at, WaitReason.BACKOFF, reason, priority)
        return at

    def _add(self, key: K, now: float, at: float | None, cause: WaitReason, reason: str, priority: int) -> None:
        """Merge one add into the key's entry. `at` None marks an event, which the debounce may delay."""
        if self._shutting_down:
            self._refused += 1
            return
        self.advance(now)
        entry = self._waiting.get(key)
        if entry is None:
            entry = self._waiting[key] = QueueEntry(key, priority, (reason,), now)
        else:
            entry.note(reason)
            if priority > entry.priority:
                self._raise_priority(entry, priority)
            if entry.state is not EntryState.DELAYED:
                return
        if at is None and self._throttle.debounce:
            if entry.first_event is None:
                entry.first_event = now
            entry.settled = self._throttle.settles_at(first_event=entry.first_event, now=now)
        else:
            at = now if at is None else at
            if at < entry.due:
                entry.due, entry.cause = at, cause
        self._schedule(entry, now)

    def _schedule(self, entry: QueueEntry[K], now: float) -> None:
        at = max(min(entry.due, entry.settled), self._starts.earliest(entry.key))
        if at > now:
            self._timetable.put(entry, at)
        else:
            self._timetable.remove(entry)
            entry.ready_at = now
            self._become_ready(entry)

    def _raise_priority(self, entry: QueueEntry[K], priority: int) -> None:
        if entry.state is EntryState.DELAYED:
            entry.priority = priority
            return
        self._count(entry.priority, -1)
        self._count(priority, 1)
        if entry.state is EntryState.READY:
            self._lanes.promote(entry, priority)
        else:
            entry.priority = priority

    # --- time ---------------------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Mark the due entries as ready. Every other method that takes the time does so itself."""
        while self._timetable.heap and (entry := self._timetable.pop_due(now)) is not None:
            self._become_ready(entry)

    def next_at(self) -> float | None:
        """Return when the next delayed entry becomes ready; None if no entry is delayed."""
        return self._timetable.next_at() if self._timetable.heap else None

    def _become_ready(self, entry: QueueEntry[K]) -> None:
        if entry.key in self._working:
            entry.state = EntryState.HELD
        else:
            self._lanes.push(entry)
        self._count(entry.priority, 1)
        self._adds += 1
        self._metrics.added()

    # --- working ------------------------------------------------------------------------------------------------------------

    def get(self, now: float) -> Item[K] | None:
        """Move the next ready entry into work and return it; None if no entry is ready."""
        self.advance(now)
        entry = self._lanes.pop()
        if entry is None:
            return None
        key = entry.key
        del self._waiting[key]
        self._count(entry.priority, -1)
        waited = max(0.0, now - entry.ready_at)
        failures = self._retry_deadlines.failures(key) if key in self._failing else 0
        item = Item(key, entry.priority, entry.reasons, entry.more, entry.added_at, waited, failures)
        self._working[key] = _Run(item, now)
        self._starts.note(key, now)
        self._metrics.waited(waited)
        return item

    def done(self, key: K, now: float) -> None:
        """End the work on a key; an entry that was added during the work becomes ready."""
        run = self._working.get(key)
        if run is None:
            raise ValueError(
                f"done({key!r}), but the key is not in work: call done() exactly once for each item that get() returned"
            )
        self.advance(now)
        del self._working[key]
        self._metrics.worked(max(0.0, now - run.since))
        entry = self._waiting.get(key)
        if entry is not None and entry.state is EntryState.HELD:
            self._lanes.push(entry)

    def forget(self, key: K) -> None:
        """Drop the key's failures and retry deadline, never its entry. Call it after a success and after a terminal error."""
        if key in self._failing:
            self._retry_deadlines.forget(key)

    def failures(self, key: K) -> int:
        """Return the number of the key's failures since it was forgotten."""
        return self._retry_deadlines.failures(key)

    def remove(self, key: K) -> bool:
        """Drop the entry and the failures of a key whose object was deleted; return whether it had an entry. Running work continues."""
        self._retry_deadlines.forget(key)
        entry = self._waiting.pop(key, None)
        if entry is None:
            return False
        if entry.state is EntryState.DELAYED:
            self._timetable.remove(entry)
        else:
            self._count(entry.priority, -1)
            if entry.state is EntryState.READY:
                self._lanes.remove(entry)
        entry.state = EntryState.GONE
        return True

    # --- ending -------------------------------------------------------------------------------------------------------------

    def shut_down(self, now: float) -> None:
        """Refuse adds from now on and drop delayed entries. Idempotent."""
        if self._shutting_down:
            return
        self.advance(now)
        self._shutting_down = True
        for entry in self._timetable.clear():
            entry.state = EntryState.GONE
            del self._waiting[entry.key]
            self._dropped += 1

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` was called."""
        return self._shutting_down

    @property
    def ended(self) -> bool:
        """Whether the queue is shut down and has no entry left, HELD entries included, so that `get` returns nothing any more."""
        return self._shutting_down and not self._waiting

    @property
    def drained(self) -> bool:
        """Whether the queue has ended and no key is in work."""
        return self.ended and not self._working

    @property
    def ready(self) -> int:
        """The number of ready entries as of the last call that passed a time."""
        return len(self._lanes)

    # --- statistics ------------------------------------------------------------------------------------------------------------

    def has(self, key: K) -> bool:
        """Report whether the key waits or is in work."""
        return key in self._waiting or key in self._working

    def statistics(self, now: float, *, getters: int = 0) -> Statistics:
        """Return the queue's statistics."""
        self.advance(now)
        ages = [max(0.0, now - run.since) for run in self._working.values()]
        return Statistics(
            ready=len(self._lanes),
            held=len(self._waiting) - len(self._lanes) - len(self._timetable),
            delayed=len(self._timetable),
            working=len(self._working),
            getters=getters,
            depth=dict(self._depth),
            failing=len(self._retry_deadlines),
            adds=self._adds,
            retries=self._retries,
            refused=self._refused,
            dropped=self._dropped,
            unfinished_work_seconds=math.fsum(ages),
            longest_running_seconds=max(ages, default=0.0),
            shutting_down=self._shutting_down,
        )

    def why(self, key: K, now: float) -> Waiting[K] | None:
        """Return when the key runs next, why it waits and the reasons of the run; None if it does not wait."""
        self.advance(now)
        entry = self._waiting.get(key)
        return None if entry is None else self._explain(entry, now)

    def snapshot(self, now: float, *, limit: int) -> Snapshot[K]:
        """Return the waiting keys (at most `limit`, by priority and by time) and the keys in work."""
        self.advance(now)
        entries = list(islice(self._lanes, limit))
        held = (self._waiting.get(key) for key in self._working)
        entries += islice(
            (entry for entry in held if entry is not None and entry.state is EntryState.HELD), limit - len(entries)
        )
        entries += self._timetable.earliest(limit - len(entries))
        return Snapshot(
            now=now,
            waiting=tuple(self._explain(entry, now) for entry in entries),
            working=tuple(self._describe(run, now) for run in self._working.values()),
            left_out=len(self._waiting) - len(entries),
        )

    def _explain(self, entry: QueueEntry[K], now: float) -> Waiting[K]:
        return Waiting(
            key=entry.key,
            next_at=entry.ready_at,
            in_seconds=max(0.0, entry.ready_at - now),
            wait=entry.wait,
            priority=entry.priority,
            reasons=entry.reasons,
            more=entry.more,
            added_at=entry.added_at,
            failures=self._retry_deadlines.failures(entry.key),
            in_work=entry.key in self._working,
        )

    def _describe(self, run: _Run[K], now: float) -> Working[K]:
        item = run.item
        return Working(
            key=item.key,
            since=run.since,
            seconds=max(0.0, now - run.since),
            priority=item.priority,
            reasons=item.reasons,
            more=item.more,
            again=item.key in self._waiting,
        )

    def _count(self, priority: int, change: int) -> None:
        entries = self._depth.get(priority, 0) + change
        if entries:
            self._depth[priority] = entries
        else:
            # Removed at zero: otherwise a caller that computes priorities would fill the memory.
            del self._depth[priority]
        self._metrics.depth(priority, entries)
