"""`FaultInjector`: injects the plan's faults during a run, counts the process's writes, and records the timeline.

Guarantees: a fault strikes at most once. A foreign write happens after the write that it waits for is stored and before the process gets
that write's response, so the same plan always meets the same moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from konverge.client.requests import APPLY, Request
from konverge.client.transport import Response
from konverge.keys import Key
from konverge_testing.apiserver.faults import Faults
from konverge_testing.apiserver.faults.rules import Hit, Moment, Rule
from konverge_testing.apiserver.storage import Event
from konverge_testing.lab.branching import SharedPrefix
from konverge_testing.lab.finalizing import raise_interruption
from konverge_testing.lab.foreign import ForeignWriter
from konverge_testing.lab.invariants import QUIET, broken, place_of, violated
from konverge_testing.lab.leaks import LeakSearch
from konverge_testing.lab.plans import Crash, Lease, Plan, Timed
from konverge_testing.lab.process import WRITE, about_of
from konverge_testing.lab.reconcile_oracle import ReconcileOracle
from konverge_testing.lab.timeline import Timeline, TimelineEntry

__all__ = ["MOST_WRITES", "FaultInjector", "TargetProcess"]

MOST_WRITES: Final = 1000
"""The most write requests of a run: a process that writes without end is stopped, because a run has to end."""


class TargetProcess(Protocol):
    """The process under test, as the injector controls it."""

    @property
    def process(self) -> str:
        """The name of the manager under test."""

    def crash(self, down: float) -> None:
        """Kill the process, and start it again `down` seconds later."""

    def halt(self) -> None:
        """End the process for good."""


@dataclass(slots=True)
class FaultInjector:
    """Injects the faults of one run."""

    plan: Plan
    faults: Faults
    target: TargetProcess
    foreign_writer: ForeignWriter
    timeline: Timeline
    prefix: SharedPrefix | None = None
    """Set if this run is the common beginning of plans; None again in the copy that runs one of these plans."""
    always: list[Callable[[], None]] = field(default_factory=list)
    """Predicates of the user; each raises AssertionError."""
    disturb_lease: Callable[[Lease], Awaitable[float]] | None = None
    """Injects a fault of leadership; returns its duration in seconds."""
    other_leaders: Callable[[], list[str]] = list
    """Returns a problem for each other replica that leads while this replica writes."""
    problems: list[str] = field(default_factory=list)
    created: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    """Commits of all writers, Events and Leases aside."""
    last_commit: float = 0.0
    finalizes: list[str] = field(default_factory=list)
    """The objects of the calls of `finalize`, in the order of their starts."""
    touched: set[str] = field(default_factory=set)
    """Objects that the foreign writer touched; their counts of creations and deletions are not compared."""
    oracle: ReconcileOracle | None = None
    """Judges each reconcile by its writes."""
    leaks: LeakSearch | None = None
    """Searches what the process shows for values of Secrets."""
    _taken: int | None = None
    _halted: bool = False
    _effects: set[int] = field(default_factory=set)
    _places: dict[str, str] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self) -> None:
        """Start the faults that hold from the start."""
        self._start_faults_after(0)

    # --- the gate at every write ---------------------------------------------------------------------------------------------

    async def before(self, number: int, request: Request) -> None:
        """Called before a write of the process is sent."""
        if number > MOST_WRITES:
            if not self._halted:
                self._halted = True
                self.problems.append(
                    f"{MOST_WRITES} writes and no end: the process was stopped at {_describe(request)}"
                )
                self._note("life", "process", f"is stopped after {MOST_WRITES} writes", number)
                self.target.halt()
            return
        self._branch(number, "before")
        for crash in self.plan.crashes:
            if crash.write == number and crash.moment == "before":
                self._note("write", "process", _describe(request), number)
                self._crash(crash, number)
                return

    async def after(self, number: int, request: Request, answer: Response) -> None:
        """Called with the response to a write, before the process gets it."""
        outcome = "" if answer.status < 400 else f" -> {answer.status}"
        self._note("write", "process", f"{_describe(request)}{outcome}", number, effect=number in self._effects)
        if self.oracle is not None:
            self.oracle.answered(_describe(request), answer.status)
        self._start_faults_after(number)
        for foreign in self.plan.foreign:
            if foreign.after == number:
                self._note(
                    "fault",
                    "another client",
                    f"{foreign.do} {foreign.resource} {foreign.namespace}/{foreign.name}",
                    number,
                )
                self.touched |= await self.foreign_writer.act(foreign)
        for lease in self.plan.leases:
            if lease.after == number and self.disturb_lease is not None:
                self._note("fault", "plan", f"the lease: {lease.do}", number)
                if seconds := await self.disturb_lease(lease):
                    self._spawn(asyncio.sleep(seconds))
        for crash in self.plan.crashes:
            if crash.write == number and crash.moment == "after":
                self._crash(crash, number)

    def broke(self, request: Request, error: Exception) -> None:
        """Called with the error of a write that got no response."""
        if self.oracle is not None:
            self.oracle.broke(_describe(request), error)

    # --- the gate at every finalize ------------------------------------------------------------------------------------------

    def finalize_begins(self, key: Key) -> int:
        """Called before `finalize`; returns the number of the call, or raises in its place."""
        self.finalizes.append(f"{key.kind.kind} {key.path}")
        self._interrupt(len(self.finalizes), "before")
        return len(self.finalizes)

    def finalize_ends(self, number: int) -> None:
        """Called after `finalize` has returned; may raise in place of its outcome."""
        self._interrupt(number, "after")

    def _interrupt(self, number: int, moment: Moment) -> None:
        if self.prefix is not None:
            for place in self.prefix.due_at_finalize(number, moment):
                if self._takes_over(place):
                    break
        for one in self.plan.interruptions:
            if (one.finalize, one.moment) == (number, moment):
                self._note("fault", "plan", one.text)
                raise_interruption(one)

    # --- the common beginning of plans -----------------------------------------------------------------------------------------------

    def _start_faults_after(self, number: int) -> None:
        """Start the faults that begin after a write."""
        self._branch(number, "after")
        if self.prefix is not None:
            for place, timed in self.prefix.armed_after(number):
                self._probe(place, timed)
            return
        for timed in self.plan.rules:
            if timed.after == number:
                self._arm(timed)

    def _branch(self, number: int, moment: Moment) -> None:
        """Branch off the plans whose first fault is due; in a copy of this process, continue as the run of its plan."""
        if self.prefix is not None:
            for place in self.prefix.due(number, moment, self.faults.watches):
                if self._takes_over(place):
                    return

    def _takes_over(self, place: int) -> bool:
        """Return whether this process runs the plan of a place from here on."""
        if self.prefix is None:
            return self._taken == place
        prefix = self.prefix
        if place not in prefix.waiting:  # a probe that was removed while a request was about to use it
            return False
        taken, others = prefix.branch(place)
        for rule in others:
            self.faults.remove(rule)
        if taken:
            self.plan, self.prefix, self._taken = prefix.waiting[place], None, place
            self.timeline.entries[:] = prefix.timeline(place, self.timeline).entries
        return taken

    def _probe(self, place: int, timed: Timed) -> None:
        assert self.prefix is not None
        rule = timed.as_rule
        self.prefix.probe(place, rule, self.timeline, self._arming_entry(timed, rule))
        self.faults.add(rule, self._record_hit(rule), may_strike=lambda: self._takes_over(place))

    # --- what is done ----------------------------------------------------------------------------------------------------------------

    def _crash(self, crash: Crash, number: int) -> None:
        down = f" and is down for {crash.down:g} s" if crash.down else ""
        self._note("life", "process", f"dies {crash.moment} its write{down}", number)
        if crash.behind:
            match = {"verbs": ["read"], "user_agent": f"{self.target.process} *"}
            fault = {"type": "stale", "behind": crash.behind, "seconds": crash.stale_seconds, "honest": True}
            self._arm(Timed(rule={"match": match, "fault": fault}, seconds=crash.stale_seconds))
        self.target.crash(crash.down)
        if crash.down:
            self._spawn(asyncio.sleep(crash.down))

    def _arm(self, timed: Timed) -> None:
        rule = timed.as_rule
        self.timeline.add(self._arming_entry(timed, rule))
        self.faults.add(rule, self._record_hit(rule))
        if timed.seconds is not None:
            self._spawn(self._remove_later(rule, timed.seconds))

    def _arming_entry(self, timed: Timed, rule: Rule) -> TimelineEntry:
        text = f"{type(rule.fault).__name__} for {', '.join(rule.match.resources or ('everything',))}"
        return TimelineEntry(asyncio.get_running_loop().time(), "fault", "plan", text, timed.after)

    def _record_hit(self, rule: Rule) -> Callable[[Hit], None]:
        return lambda hit: self._note("fault", "plan", f"{type(rule.fault).__name__} strikes {hit.about}")

    async def _remove_later(self, rule: Any, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.faults.remove(rule)
        self._note("fault", "plan", f"{type(rule.fault).__name__} ends")

    def _spawn(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Wait for the faults with a duration, then end every fault: from here on nothing is injected."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self.foreign_writer.put_back()
        self.faults.clear()

    # --- what is stored ------------------------------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        """Record one commit, and check the invariants."""
        entry = event.entry
        number = WRITE.get()
        if number:
            self._effects.add(number)
        if self.leaks is not None:
            self.leaks.committed(event, by_process=number > 0)
        if entry.resource in QUIET:
            return
        self.commits += 1
        self.last_commit = asyncio.get_running_loop().time()
        where = place_of(event)
        if event.type == "ADDED":
            self._places[entry.uid] = entry.namespace
            self.created[where] += 1
        elif event.type == "DELETED":
            self.deleted[where] += 1
        self._note("commit", "process" if number else "", f"{event.type.lower()} {where}", number)
        if number and self.oracle is not None:
            self.oracle.committed(event)
        problems = violated(event, self._places) if number else []  # invariants concern the process's own writes
        problems += self.other_leaders() if number else []
        self.problems += problems + [words for _, words in broken(self.always, event)]

    def note_fault(self, text: str) -> None:
        """Add a fault that strikes elsewhere to the timeline."""
        self._note("fault", "plan", text)

    def _note(self, kind: Any, who: str, text: str, number: int = 0, *, effect: bool = False) -> None:
        self.timeline.add(TimelineEntry(asyncio.get_running_loop().time(), kind, who, text, number, effect))


def _describe(request: Request) -> str:
    about = about_of(request)
    if request.content_type == APPLY:
        about = msgspec.structs.replace(about, apply=True)
    return str(about)
