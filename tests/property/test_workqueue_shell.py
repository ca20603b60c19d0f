"""The asyncio shell under random programs on virtual time: producers, cancelled and replaced workers, removals, and a drain."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from konverge.workqueue import Item, ItemExponential, WorkQueue
from konverge_testing.loop import VirtualTimeLoop

KEYS = st.sampled_from("abcd")
DELAYS = st.sampled_from([0.0, 0.1, 0.7, 3.0, 1 / 3])


@dataclass(frozen=True)
class Add:
    key: str
    delay: float
    priority: int


@dataclass(frozen=True)
class Pause:
    """Let virtual time pass; zero seconds are one step of the loop."""

    seconds: float


@dataclass(frozen=True)
class Replace:
    """Cancel a worker that waits in `get` and start a new worker."""

    worker: int


@dataclass(frozen=True)
class Grab:
    """Take and finish an item outside of the workers, with a timeout."""

    timeout: float


Step = Add | Pause | Replace | Grab
STEPS = st.one_of(
    st.builds(Add, KEYS, DELAYS, st.sampled_from([-100, 0, 5])),
    st.builds(Add, KEYS, st.just(0.0), st.just(0)),
    st.builds(Pause, st.sampled_from([0.0, 0.0, 0.1, 1.0])),
    st.builds(Replace, st.integers(0, 3)),
    st.builds(Grab, st.sampled_from([0.0, 0.2])),
)


@dataclass
class Run:
    """One run of a program, with its invariants."""

    queue: WorkQueue[str]
    busy: float
    failing: frozenset[int]
    in_work: set[str] = field(default_factory=set)
    owed: dict[str, set[str]] = field(default_factory=dict)
    in_get: dict[asyncio.Task[None], bool] = field(default_factory=dict)
    started: int = 0

    async def worker(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        while True:
            self.in_get[me] = True
            try:
                item = await anext(self.queue)
            except StopAsyncIteration:
                return
            finally:
                self.in_get[me] = False
            self.begin(item)
            await asyncio.sleep(self.busy)
            self.end(item.key)

    def begin(self, item: Item[str]) -> None:
        assert item.key not in self.in_work, "a key runs twice at a time"
        self.in_work.add(item.key)
        owed = self.owed.setdefault(item.key, set())
        owed.difference_update(item.reasons)
        for reason in sorted(owed)[
            : item.more
        ]:  # only counted: which reason was dropped is unknown, and does not matter here
            owed.remove(reason)
        self.started += 1

    def end(self, key: str) -> None:
        if self.started in self.failing:
            self.queue.add_rate_limited(key, reason="retry")
        else:
            self.queue.forget(key)
        self.in_work.remove(key)
        self.queue.done(key)

    async def perform(self, step: Step, number: int, workers: list[asyncio.Task[None]]) -> None:
        match step:
            case Add(key, delay, priority):
                reason = f"add {number}"
                self.owed.setdefault(key, set()).add(reason)
                self.queue.add_after(key, delay, reason=reason, priority=priority)
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Replace(place) if self.in_get.get(workers[place % len(workers)], True):
                old = workers[place % len(workers)]
                old.cancel()
                workers[place % len(workers)] = asyncio.create_task(self.worker())
            case Grab(timeout):
                try:
                    async with asyncio.timeout(timeout):
                        item = await self.queue.get()
                except TimeoutError:
                    return
                self.begin(item)
                self.end(item.key)

    async def whole(self, steps: list[Step], count: int, ends: int) -> None:
        workers = [asyncio.create_task(self.worker()) for _ in range(count)]
        for number, step in enumerate(steps):
            await self.perform(step, number, workers)
        # Longer than any delay and the work on all keys: afterwards `get` must have returned every reason.
        await asyncio.sleep(60.0)
        assert not any(self.owed.values()), f"lost: {self.owed}"
        assert self.queue.statistics().getters == count, "a getter sleeps on though it was woken, or is counted twice"
        self.queue.add("a", reason="last")
        async with asyncio.timeout(60.0):
            drained = await asyncio.gather(*(self.queue.drain(30.0) for _ in range(ends)))
            await asyncio.gather(*workers)
        assert all(drained)
        assert not self.in_work


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=40),
    count=st.integers(1, 3),
    busy=st.sampled_from([0.0, 0.05, 0.5]),
    failing=st.frozensets(st.integers(0, 20), max_size=5),
    ends=st.integers(1, 3),
)
def test_no_add_is_lost_no_key_overlaps_and_drain_ends(
    steps: list[Step], count: int, busy: float, failing: frozenset[int], ends: int
) -> None:
    async def program() -> None:
        await Run(WorkQueue[str](limiter=ItemExponential(0.1, 2.0)), busy, failing).whole(steps, count, ends)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(program())
