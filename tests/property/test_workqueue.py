"""The queue's core against a naive model, step by step.

For each waiting key the model keeps the list of its adds, and computes everything else from it by the contract: without a heap,
lanes or merging in place. All times are multiples of a quarter, so floats compare exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from konverge.workqueue import MAX_REASONS, Item, ItemExponential, NoMetrics, QueueCore, Throttle

NAMES = "abcd"
KEYS = st.sampled_from(NAMES)
PRIORITIES = st.sampled_from([-100, 0, 0, 3])
DELAYS = st.sampled_from([0.0, 0.25, 1.0, 2.5, 8.0, 40.0])
EARLY_RETRY = 5.0
BASE, CAP = 2.0, 64.0


@dataclass
class Add:
    """An add. `at` is None for an event."""

    time: float
    at: float | None
    reason: str
    priority: int


@dataclass
class Waiting:
    """A waiting key. `moved` is the (time, step) of the last call, other than its due time, that put it at the back of a priority."""

    adds: list[Add]
    moved: tuple[float, int] | None = None

    @property
    def priority(self) -> int:
        return max(add.priority for add in self.adds)

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(add.reason for add in self.adds))[:MAX_REASONS]

    @property
    def more(self) -> int:
        return sum(add.reason not in self.reasons for add in self.adds)

    def ready_at(self, throttle: Throttle, floor: float) -> float:
        """The time when the key becomes, or became, ready; later adds do not change it."""
        ready = math.inf
        for count, add in enumerate(self.adds, start=1):
            if ready <= add.time:
                break
            seen = self.adds[:count]
            asked = [a.at for a in seen if a.at is not None]
            events = [a.time for a in seen if a.at is None]
            if events and throttle.debounce:
                assert throttle.debounce_max is not None
                asked.append(min(events[-1] + throttle.debounce, events[0] + throttle.debounce_max))
            elif events:
                asked.append(events[0])
            ready = max(min(asked), floor)
            if ready <= add.time:
                ready = add.time
        return ready


@dataclass
class Model:
    """The contract of the queue as a slow and simple program."""

    throttle: Throttle
    now: float = 0.0
    step: int = 0
    waiting: dict[str, Waiting] = field(default_factory=dict)
    working: dict[str, float] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    deadlines: dict[str, float] = field(default_factory=dict)
    shut: bool = False
    retries: int = 0

    def ready_at(self, key: str) -> float:
        return self.waiting[key].ready_at(self.throttle, self.started.get(key, -math.inf) + self.throttle.min_interval)

    def is_ready(self, key: str) -> bool:
        return self.ready_at(key) <= self.now

    def available(self) -> list[str]:
        return [key for key in self.waiting if self.is_ready(key) and key not in self.working]

    def line(self, key: str) -> tuple[int, tuple[float, int]]:
        """The sort key of `get`, the smallest first; keys that became ready by time at the same instant are equal, in any order."""
        entry = self.waiting[key]
        return -entry.priority, entry.moved or (self.ready_at(key), -1)

    def add(self, key: str, at: float | None, reason: str, priority: int) -> None:
        self.step += 1
        add = Add(self.now, at, reason, priority)
        entry = self.waiting.get(key)
        if entry is None:
            entry = self.waiting[key] = Waiting([add])
            was_ready = False
            raised = False
        else:
            was_ready = self.is_ready(key)
            raised = priority > entry.priority
            entry.adds.append(add)
        if self.is_ready(key) and (raised if was_ready else True):
            entry.moved = (self.now, self.step)

    def retry_at(self, key: str) -> float:
        deadline = self.deadlines.get(key)
        if deadline is None or deadline - self.now <= EARLY_RETRY:
            delay = min(BASE * 2 ** self.failures.get(key, 0), CAP)
            self.failures[key] = self.failures.get(key, 0) + 1
            deadline = self.deadlines[key] = self.now + delay
        return deadline

    def start(self, key: str) -> None:
        del self.waiting[key]
        self.working[key] = self.started[key] = self.now

    def done(self, key: str) -> None:
        self.step += 1
        del self.working[key]
        if key in self.waiting and self.is_ready(key):
            self.waiting[key].moved = (self.now, self.step)

    def forget(self, key: str) -> None:
        self.failures.pop(key, None)
        self.deadlines.pop(key, None)


class Counting(NoMetrics):
    def __init__(self) -> None:
        self.waits: list[float] = []
        self.depths: dict[int, int] = {}
        self.retries = 0

    def waited(self, seconds: float) -> None:
        self.waits.append(seconds)

    def depth(self, priority: int, entries: int) -> None:
        self.depths[priority] = entries

    def retried(self) -> None:
        self.retries += 1


class QueueMachine(RuleBasedStateMachine):
    """Applies the same calls to the core and the model, and compares all observable state."""

    @initialize(
        min_interval=st.sampled_from([0.0, 3.0]),
        debounce=st.sampled_from([0.0, 1.0]),
        longest=st.sampled_from([1.0, 2.5]),
    )
    def build(self, min_interval: float, debounce: float, longest: float) -> None:
        throttle = Throttle(min_interval=min_interval, debounce=debounce, debounce_max=longest)
        self.model = Model(throttle)
        self.metrics = Counting()
        self.core = QueueCore[str](
            limiter=ItemExponential(BASE, CAP), early_retry=EARLY_RETRY, throttle=throttle, metrics=self.metrics
        )
        self.number = 0
        self.unseen = False

    def reason(self, fresh: bool) -> str:
        self.number += fresh
        return f"reason {self.number}"

    @rule(key=KEYS, priority=PRIORITIES, fresh=st.booleans())
    def add(self, key: str, priority: int, fresh: bool) -> None:
        self.unseen = False
        reason = self.reason(fresh)
        self.core.add(key, self.model.now, reason=reason, priority=priority)
        if not self.model.shut:
            self.model.add(key, None, reason, priority)

    @rule(key=KEYS, count=st.integers(2, 20), priority=PRIORITIES)
    def add_many(self, key: str, count: int, priority: int) -> None:
        for _ in range(count):
            self.add(key, priority, fresh=True)

    @rule(key=KEYS, gaps=st.lists(st.sampled_from([0.25, 0.75]), min_size=1, max_size=5))
    def burst(self, key: str, gaps: list[float]) -> None:
        for gap in gaps:
            self.add(key, 0, fresh=True)
            self.the_next_time_is_known()
            self.model.now += gap
        self.unseen = True

    @rule(key=KEYS, delay=DELAYS, priority=PRIORITIES)
    def add_after(self, key: str, delay: float, priority: int) -> None:
        self.unseen = False
        self.core.add_after(key, delay, self.model.now, reason="asked", priority=priority)
        if not self.model.shut:
            self.model.add(key, self.model.now + delay, "asked", priority)
            self.model.retries += delay > 0

    @rule(key=KEYS, priority=PRIORITIES)
    def add_rate_limited(self, key: str, priority: int) -> None:
        self.unseen = False
        at = self.core.add_rate_limited(key, self.model.now, reason="retry", priority=priority)
        if self.model.shut:
            assert at is None
        else:
            expected = self.model.retry_at(key)
            assert at == expected
            self.model.add(key, expected, "retry", priority)
            self.model.retries += 1

    @rule(seconds=st.sampled_from([0.0, 0.25, 1.0, 1.5, 4.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        """Let time pass without a call of the core: the next call must mark the due keys ready."""
        self.model.now += seconds
        self.unseen = True

    @rule()
    def look(self) -> None:
        self.unseen = False

    @rule()
    def get(self) -> None:
        self.unseen = False
        model = self.model
        available = model.available()
        item = self.core.get(model.now)
        if not available:
            assert item is None, "handed out what is not ready, or a key that is in work"
            return
        assert item is not None, f"{available} are ready, and nothing was handed out"
        assert item.key in available
        assert model.line(item.key) == min(model.line(key) for key in available), "out of line"
        self.compare_item(item)
        model.start(item.key)

    def compare_item(self, item: Item[str]) -> None:
        entry = self.model.waiting[item.key]
        assert item.priority == entry.priority
        assert (item.reasons, item.more) == (entry.reasons, entry.more)
        assert item.added_at == entry.adds[0].time
        assert item.waited == self.model.now - self.model.ready_at(item.key)
        assert self.metrics.waits[-1] == item.waited
        assert item.failures == self.model.failures.get(item.key, 0)

    @precondition(lambda self: self.model.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        self.unseen = False
        key = data.draw(st.sampled_from(sorted(self.model.working)))
        self.core.done(key, self.model.now)
        self.model.done(key)

    @precondition(lambda self: self.model.working)
    @rule(data=st.data(), priority=PRIORITIES)
    def fail(self, data: st.DataObject, priority: int) -> None:
        """Requeue a failed key as a worker does."""
        key = data.draw(st.sampled_from(sorted(self.model.working)))
        self.add_rate_limited(key, priority)
        self.core.done(key, self.model.now)
        self.model.done(key)

    @rule(key=KEYS)
    def done_without_get(self, key: str) -> None:
        if key not in self.model.working:
            with pytest.raises(ValueError, match="not in work"):
                self.core.done(key, self.model.now)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.core.forget(key)
        self.model.forget(key)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        self.unseen = False
        assert self.core.remove(key) is (key in self.model.waiting)
        self.model.forget(key)
        self.model.waiting.pop(key, None)

    @precondition(lambda self: self.model.step > 80)
    @rule()
    def shut_down(self) -> None:
        self.core.shut_down(self.model.now)
        self.model.shut = True
        for key in [key for key in self.model.waiting if not self.model.is_ready(key)]:
            del self.model.waiting[key]

    @precondition(lambda self: not self.unseen)
    @invariant()
    def the_next_time_is_known(self) -> None:
        model = self.model
        self.core.advance(model.now)
        assert self.core.next_at() == min(
            (model.ready_at(key) for key in model.waiting if not model.is_ready(key)), default=None
        )

    @precondition(lambda self: not self.unseen)
    @invariant()
    def every_key_explains_itself(self) -> None:
        model = self.model
        for key in NAMES:
            assert self.core.has(key) == (key in model.waiting or key in model.working)
            assert self.core.failures(key) == model.failures.get(key, 0)
            why = self.core.why(key, model.now)
            assert (why is None) == (key not in model.waiting)
            if why is not None:
                entry = model.waiting[key]
                assert why.next_at == model.ready_at(key)
                assert (why.priority, why.reasons, why.more) == (entry.priority, entry.reasons, entry.more)
                assert why.in_work == (key in model.working)

    @precondition(lambda self: not self.unseen)
    @invariant()
    def the_figures_agree(self) -> None:
        model = self.model
        statistics = self.core.statistics(model.now)
        ready = [key for key in model.waiting if model.is_ready(key)]
        assert statistics.ready == len(model.available()) == self.core.ready
        assert statistics.held == len(ready) - statistics.ready
        assert statistics.delayed == len(model.waiting) - len(ready)
        assert statistics.working == len(model.working)
        assert self.core.ended == (model.shut and not model.waiting)
        assert self.core.drained == (model.shut and not model.waiting and not model.working)
        assert statistics.unfinished_work_seconds == sum(model.now - since for since in model.working.values())
        assert statistics.failing == len(model.failures)
        assert statistics.retries == self.metrics.retries == model.retries
        depth: dict[int, int] = {}
        for key in ready:
            priority = model.waiting[key].priority
            depth[priority] = depth.get(priority, 0) + 1
        assert statistics.depth == depth
        assert {priority: entries for priority, entries in self.metrics.depths.items() if entries} == depth

    @precondition(lambda self: not self.unseen)
    @invariant()
    def a_snapshot_shows_every_key_in_the_order_of_its_next_run(self) -> None:
        model = self.model
        snapshot = self.core.snapshot(model.now, limit=100)
        assert {waiting.key for waiting in snapshot.waiting} == set(model.waiting)
        shown = [waiting.key for waiting in snapshot.waiting if not waiting.in_work and waiting.in_seconds == 0]
        assert [model.line(key) for key in shown] == sorted(model.line(key) for key in model.available())

    def teardown(self) -> None:
        """After shut-down `get` returns all ready keys, including re-runs of running keys, until the queue is empty."""
        if not hasattr(self, "core"):
            return
        self.shut_down()
        for key in sorted(self.model.working):
            self.core.done(key, self.model.now)
            self.model.done(key)
        for _ in range(len(self.model.waiting)):
            assert not self.core.ended
            self.get()
            (key,) = self.model.working
            self.core.done(key, self.model.now)
            self.model.done(key)
        assert self.core.ended
        assert self.core.drained
        assert self.core.get(self.model.now + 1e9) is None


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=80, deadline=None)
TestQueueAgainstItsModel = QueueMachine.TestCase
