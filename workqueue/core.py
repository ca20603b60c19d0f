"""The rules of the work queue, as a plain object: no await, no clock, no thread. Every method that needs the time is told it.

The rules, of client-go's queue and controller-runtime's priority queue, with three deviations (numbers 6 to 8):

1. A key has at most one waiting entry, and at most one worker has it. `get` moves a ready entry into work; `done` ends the work.
2. An add merges into the waiting entry: the earliest time and the highest priority win, the reasons are united.
3. An add while the key is in work waits for `done`; any number of them cause exactly one more run, which queues at the back then.
4. Among ready entries the highest priority goes first, and first in first out within a priority, in the order in which they
   became ready (at the same instant: unspecified). Raising the priority of a ready entry puts it at the back of the new one.
5. Shut-down refuses adds, drops what is not ready, and lets getters have the rest, the re-runs of keys in work included.
6. A failure inside the retry window keeps its deadline (`konverge.workqueue.backoff`).
7. Pace: minimum interval and debounce (`konverge.workqueue.pace`).
8. The one entry of a key also stands for its retry: a run that an event triggered earlier replaces it. (client-go would run the key
   a second time at the old time; here the outcome of the earlier run decides what comes next.)

Invariants: a READY entry's key is not in work; a HELD entry's key is; every entry in `_waiting` is in lanes (READY), in the
timetable (DELAYED) or held by its key's work (HELD); `_depth` counts READY and HELD by priority. Time that runs backwards by
a rounding error does no harm.

client-go: https://github.com/kubernetes/client-go/blob/master/util/workqueue/queue.go
controller-runtime: https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/controller/priorityqueue/priorityqueue.go
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from konverge.workqueue.backoff import NEAR, Backoff
from konverge.workqueue.entry import Entry, Item, State, Wait
from konverge.workqueue.lanes import Lanes
from konverge.workqueue.limiters import ItemExponential, Limiter
from konverge.workqueue.metrics import NoMetrics, QueueMetrics
from konverge.workqueue.pace import Pace, Starts
from konverge.workqueue.report import Snapshot, Statistics, Waiting, Working
from konverge.workqueue.timetable import Timetable

__all__ = ["QueueCore"]

K = TypeVar("K", bound=Hashable)


class _Run(NamedTuple, Generic[K]):
    """A key in work: what the worker was given, and when."""

    item: Item[K]
    since: float


class QueueCore(Generic[K]):
    """The queue without its shell.

    `limiter` defaults to `ItemExponential()` (5 ms doubling to 1000 s), `pace` to none.

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
        near: float = NEAR,
        pace: Pace | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._backoff: Backoff[K] = Backoff(ItemExponential[K]() if limiter is None else limiter, near=near)
        self._pace = Pace() if pace is None else pace
        self._starts: Starts[K] = Starts(self._pace.min_interval)
        self._metrics: QueueMetrics = NoMetrics() if metrics is None else metrics
        self._waiting: dict[K, Entry[K]] = {}
        self._working: dict[K, _Run[K]] = {}
        self._lanes: Lanes[K] = Lanes()
        self._timetable: Timetable[K] = Timetable()
        self._depth: dict[int, int] = {}
        self._shutting_down = False
        self._adds = self._retries = self._refused = self._dropped = 0

    # --- adding -------------------------------------------------------------------------------------------------------------

    def add(self, key: K, now: float, *, reason: str, priority: int = 0) -> None:
        """Something about the key changed: run it, at once but for the pace."""
        self._add(key, now, None, Wait.DELAY, reason, priority)

    def add_after(self, key: K, delay: float, now: float, *, reason: str, priority: int = 0) -> None:
        """Run the key after so many seconds, or earlier where something else asks for it; now where that is zero or less."""
        if not math.isfinite(delay):
            raise ValueError(f"add_after needs a finite delay, got {delay!r}")
        if delay > 0 and not self._shutting_down:
            self._retries += 1
            self._metrics.retried()
        self._add(key, now, now + max(0.0, delay), Wait.DELAY, reason, priority)

    def add_rate_limited(self, key: K, now: float, *, reason: str, priority: int = 0) -> float | None:
        """The key failed: run it again when the backoff says so, and return when that is. None after shut-down."""
        if self._shutting_down:
            self._refused += 1
            return None
        at = self._backoff.retry_at(key, now)
        if at > now:
            self._retries += 1
            self._metrics.retried()
        self._add(key, now, at, Wait.BACKOFF, reason, priority)
        return at

    def _add(self, key: K, now: float, at: float | None, cause: Wait, reason: str, priority: int) -> None:
        """Merge one add into the key's entry. `at` None is an event, which the debounce may delay."""
        if self._shutting_down:
            self._refused += 1
            return
        self.advance(now)
        entry = self._waiting.get(key)
        if entry is None:
            entry = self._waiting[key] = Entry(key, priority, (reason,), now)
        else:
            entry.note(reason)
            if priority > entry.priority:
                self._raise_priority(entry, priority)
            if entry.state is not State.DELAYED:
                return
        if at is None and self._pace.debounce:
            if entry.first_event is None:
                entry.first_event = now
            entry.settled = self._pace.settles_at(first_event=entry.first_event, now=now)
        else:
            at = now if at is None else at
            if at < entry.due:
                entry.due, entry.cause = at, cause
        self._schedule(entry, now)

    def _schedule(self, entry: Entry[K], now: float) -> None:
        at = max(min(entry.due, entry.settled), self._starts.earliest(entry.key))
        if at > now:
            self._timetable.put(entry, at)
        else:
            self._timetable.remove(entry)
            entry.ready_at = now
            self._become_ready(entry)

    def _raise_priority(self, entry: Entry[K], priority: int) -> None:
        if entry.state is State.DELAYED:
            entry.priority = priority
            return
        self._count(entry.priority, -1)
        self._count(priority, 1)
        if entry.state is State.READY:
            self._lanes.promote(entry, priority)
        else:
            entry.priority = priority

    # --- time ---------------------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Let everything become ready whose time has come. All other methods do it by themselves."""
        while (entry := self._timetable.pop_due(now)) is not None:
            self._become_ready(entry)

    def next_at(self) -> float | None:
        """Return when the next delayed entry becomes ready; None where nothing is delayed."""
        return self._timetable.next_at()

    def _become_ready(self, entry: Entry[K]) -> None:
        if entry.key in self._working:
            entry.state = State.HELD
        else:
            self._lanes.push(entry)
        self._count(entry.priority, 1)
        self._adds += 1
        self._metrics.added()

    # --- working ------------------------------------------------------------------------------------------------------------

    def get(self, now: float) -> Item[K] | None:
        """Move the next ready entry into work and return it; None where nothing is ready."""
        self.advance(now)
        entry = self._lanes.pop()
        if entry is None:
            return None
        key = entry.key
        del self._waiting[key]
        self._count(entry.priority, -1)
        waited = max(0.0, now - entry.ready_at)
        failures = self._backoff.failures(key)
        item = Item(key, entry.priority, entry.reasons, entry.more, entry.added_at, waited, failures)
        self._working[key] = _Run(item, now)
        self._starts.note(key, now)
        self._metrics.waited(waited)
        return item

    def done(self, key: K, now: float) -> None:
        """The worker that was given the key has ended; what was added meanwhile may run now."""
        run = self._working.get(key)
        if run is None:
            raise ValueError(
                f"done({key!r}), but nobody works on that key: each item that get() returned is done exactly once"
            )
        self.advance(now)
        del self._working[key]
        self._metrics.worked(max(0.0, now - run.since))
        entry = self._waiting.get(key)
        if entry is not None and entry.state is State.HELD:
            self._lanes.push(entry)

    def forget(self, key: K) -> None:
        """Drop the key's failures and retry deadline, never a waiting entry. Call it on success and where retrying cannot help."""
        self._backoff.forget(key)

    def failures(self, key: K) -> int:
        """Return how many failures of the key were counted since it was forgotten."""
        return self._backoff.failures(key)

    def remove(self, key: K) -> bool:
        """The key is gone: drop its waiting entry and its failures; work on it goes on to its `done`. Tell whether one waited."""
        self._backoff.forget(key)
        entry = self._waiting.pop(key, None)
        if entry is None:
            return False
        if entry.state is State.DELAYED:
            self._timetable.remove(entry)
        else:
            self._count(entry.priority, -1)
            if entry.state is State.READY:
                self._lanes.remove(entry)
        entry.state = State.GONE
        return True

    # --- ending -------------------------------------------------------------------------------------------------------------

    def shut_down(self, now: float) -> None:
        """Refuse adds from now on and drop what is not ready. Twice is once."""
        if self._shutting_down:
            return
        self.advance(now)
        self._shutting_down = True
        for entry in self._timetable.clear():
            entry.state = State.GONE
            del self._waiting[entry.key]
            self._dropped += 1

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` was called."""
        return self._shutting_down

    @property
    def ended(self) -> bool:
        """Whether nothing will ever be ready again: shut down, and no entry is left, not even one held by its key's work."""
        return self._shutting_down and not self._waiting

    @property
    def drained(self) -> bool:
        """Whether it has ended and nothing is in work."""
        return self.ended and not self._working

    @property
    def ready(self) -> int:
        """How many entries `get` would return now, were the time the one that it was last told."""
        return len(self._lanes)

    # --- telling ------------------------------------------------------------------------------------------------------------

    def has(self, key: K) -> bool:
        """Tell whether the key waits or is in work."""
        return key in self._waiting or key in self._working

    def statistics(self, now: float, *, getters: int = 0) -> Statistics:
        """Return the queue in figures."""
        self.advance(now)
        ages = [max(0.0, now - run.since) for run in self._working.values()]
        return Statistics(
            ready=len(self._lanes),
            held=len(self._waiting) - len(self._lanes) - len(self._timetable),
            delayed=len(self._timetable),
            working=len(self._working),
            getters=getters,
            depth=dict(self._depth),
            failing=len(self._backoff),
            adds=self._adds,
            retries=self._retries,
            refused=self._refused,
            dropped=self._dropped,
            unfinished_work_seconds=math.fsum(ages),
            longest_running_seconds=max(ages, default=0.0),
            shutting_down=self._shutting_down,
        )

    def why(self, key: K, now: float) -> Waiting[K] | None:
        """Return when the key runs next and because of what; None where it does not wait."""
        self.advance(now)
        entry = self._waiting.get(key)
        return None if entry is None else self._explain(entry, now)

    def snapshot(self, now: float, *, limit: int) -> Snapshot[K]:
        """Return what waits (at most so many keys, the next ones first) and what is in work."""
        self.advance(now)
        entries = list(islice(self._lanes, limit))
        held = (self._waiting.get(key) for key in self._working)
        entries += islice(
            (entry for entry in held if entry is not None and entry.state is State.HELD), limit - len(entries)
        )
        entries += self._timetable.earliest(limit - len(entries))
        return Snapshot(
            now=now,
            waiting=tuple(self._explain(entry, now) for entry in entries),
            working=tuple(self._describe(run, now) for run in self._working.values()),
            left_out=len(self._waiting) - len(entries),
        )

    def _explain(self, entry: Entry[K], now: float) -> Waiting[K]:
        return Waiting(
            key=entry.key,
            next_at=entry.ready_at,
            in_seconds=max(0.0, entry.ready_at - now),
            wait=entry.wait,
            priority=entry.priority,
            reasons=entry.reasons,
            more=entry.more,
            added_at=entry.added_at,
            failures=self._backoff.failures(entry.key),
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
            # Forgotten at zero: a caller that computes priorities would else fill the memory.
            del self._depth[priority]
        self._metrics.depth(priority, entries)
