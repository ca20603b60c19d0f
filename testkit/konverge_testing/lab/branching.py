"""The common beginning of plans: which plans share a run, and where each plan branches off. Pure, except for the call that forks.

A run is the same to the byte until its first fault strikes. So plans of one seed run a *shared prefix* without faults, and each plan
branches off at its first effect: a crash or a foreign write at its number, a rule at its first hit. Until then the rule is a probe: it
counts, as it would in a run of its own, and does nothing. A rule that acts when it is put in force branches off at that point.

Guarantees: a branched run is that plan's run from nothing, to the byte of its timeline. A plan whose faults never strike ends as the
prefix.

Caveats: plans with lease faults and plans without any fault share no run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from konverge_testing.apiserver.faults.rules import About, Cut, Drop, Expire, Moment, Rule, Stale
from konverge_testing.lab.plans import Plan, Timed
from konverge_testing.lab.timeline import Timeline, TimelineEntry

__all__ = ["LEAST", "MOST", "Batch", "SharedPrefix", "acts_when_armed", "batches", "branches_at"]

MOST: Final = 64
"""The most plans that share a prefix: the prefix then costs a few hundredths of their runs."""
LEAST: Final = 16
"""The fewest plans that justify a shared prefix of their own."""
_REACH: Final = 2 * MOST
"""The distance within which a batch takes plans of its prefix: plans further away would run too early."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Places of plans that one process runs in sequence."""

    places: tuple[int, ...]
    shared: bool = False
    """Whether these plans share a prefix."""


def batches(plans: Sequence[Plan], workers: int, *, share: bool = True) -> list[Batch]:
    """Cut plans into batches, nearly in their order: large batches first, small batches at the end, so that all workers finish together.

    A batch begins with the first plan that is left, and takes the plans that share its prefix, or else the plans that share no run, out of
    the next `2 * MOST`. Without `share` no plan shares a run.
    """
    found, left = list[Batch](), list(range(len(plans)))
    while left:
        near = left[:_REACH]
        seeds = {place: _prefix_of(plans[place]) if share else None for place in near}
        times = Counter(seeds.values())
        alike = {place: seed if times[seed] > 1 else None for place, seed in seeds.items()}
        now = [place for place in near if alike[place] == alike[near[0]]][: _size(len(left), workers)]
        found.append(Batch(tuple(now), shared=alike[near[0]] is not None and len(now) > 1))
        left = [place for place in left if place not in set(now)]
    return found


def _size(left: int, workers: int) -> int:
    size = MOST if workers <= 1 else max(LEAST, min(MOST, left // workers))
    return left if left - size < LEAST // 2 else size


def _prefix_of(plan: Plan) -> int | None:
    """Return the seed of the prefix that a plan shares with the other plans of this seed, or None if it shares no run."""
    return plan.seed if plan.faults and not plan.leases and not plan.services else None


# --- where a plan branches off ---------------------------------------------------------------------------------------------------


def branches_at(plan: Plan, number: int, moment: Moment, watches: Iterable[About]) -> bool:
    """Return whether a plan's first fault strikes before or after this write, apart from its probes.

    Number 0 is the start, where rules begin. `watches` are the open watches.
    """
    if number and any(crash.write == number and crash.moment == moment for crash in plan.crashes):
        return True
    if moment == "before":
        return False
    if number and any(foreign.after == number for foreign in plan.foreign):
        return True
    return any(timed.after == number and acts_when_armed(timed, watches) for timed in plan.rules)


def acts_when_armed(timed: Timed, watches: Iterable[About]) -> bool:
    """Return whether a rule acts as soon as it is armed: it sets a timer for its own end, or ends or holds open watches."""
    rule = timed.as_rule
    fault = rule.fault
    if timed.seconds is not None:
        return True
    if isinstance(fault, Drop):
        return fault.watches
    if isinstance(fault, Stale):
        return not fault.honest
    at_once = isinstance(fault, Expire) or (isinstance(fault, Cut) and (fault.clean or fault.bytes == 0))
    return at_once and any(rule.match.means(about) for about in watches)


@dataclass(slots=True)
class SharedPrefix:
    """The common beginning of several plans in one run: the plans that still wait to branch off, and their probes."""

    waiting: dict[int, Plan]
    """Plans that have not branched off, by their places."""
    fork: Callable[[int], bool]
    """Copies the process for the plan of a place. Returns True in the copy; in the original it returns when the copy is done."""
    taken: int | None = None
    """In a copy, the place of the plan that it runs."""
    probes: dict[int, list[Rule]] = field(default_factory=lambda: defaultdict(list))
    _notes: dict[int, list[tuple[int, TimelineEntry]]] = field(default_factory=lambda: defaultdict(list))

    def due(self, number: int, moment: Moment, watches: Iterable[About]) -> list[int]:
        """Return the places of the plans that branch off before or after this write."""
        watches = tuple(watches)
        return [place for place, plan in self.waiting.items() if branches_at(plan, number, moment, watches)]

    def due_at_finalize(self, number: int, moment: Moment) -> list[int]:
        """Return the places of the plans that branch off before or after this call of `finalize`."""
        return [
            place
            for place, plan in self.waiting.items()
            if any((one.finalize, one.moment) == (number, moment) for one in plan.interruptions)
        ]

    def armed_after(self, number: int) -> list[tuple[int, Timed]]:
        """Return the rules that begin after this write, in the order of each plan."""
        return [(place, timed) for place, plan in self.waiting.items() for timed in plan.rules if timed.after == number]

    def probe(self, place: int, rule: Rule, timeline: Timeline, note: TimelineEntry) -> None:
        """Remember a probe, and write its note where the timeline of this plan's own run would have it."""
        self.probes[place].append(rule)
        self._notes[place].append((len(timeline.entries), note))

    def branch(self, place: int) -> tuple[bool, list[Rule]]:
        """Branch off the plan of a place. Returns whether this process is the copy that runs it, and the probes that end here."""
        if self.fork(place):
            self.taken = place
            return True, [rule for other, rules in self.probes.items() if other != place for rule in rules]
        del self.waiting[place]
        return False, self.probes.pop(place, [])

    def timeline(self, place: int, timeline: Timeline) -> Timeline:
        """Return the timeline of the plan of a place: with the notes about its rules."""
        entries = list(timeline.entries)
        for at, note in reversed(self._notes[place]):
            entries.insert(at, note)
        return Timeline(entries)
