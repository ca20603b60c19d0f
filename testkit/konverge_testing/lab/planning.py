"""From a reference run to plans: every fault at every place that matters, and the list of pruned plans. Pure.

Guarantees: the same reference gives the same plans in the same order. A plan that is left out is listed with the reason; nothing is left
out silently. Source of the kinds of plan: Sieve (OSDI '22) for crashes, stale views and unobserved events;
docs/reference/runtime.md#fault-plans for the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import count, zip_longest
from operator import itemgetter
from random import Random
from typing import Any, Final, Literal
from zlib import crc32

import msgspec

from konverge_testing.apiserver.faults.rules import Moment
from konverge_testing.lab.plans import (
    MOST_DOWN,
    MOST_JOINED,
    Crash,
    Foreign,
    Interruption,
    Lease,
    LeaseFault,
    Plan,
    ServiceFault,
    Timed,
    Touch,
)
from konverge_testing.lab.runs import Run
from konverge_testing.lab.timeline import TimelineEntry

__all__ = [
    "Planned",
    "Pruned",
    "kind_of_fault",
    "plans_of",
    "random_plan",
    "random_seed",
    "skips",
    "spread_over_faults",
]

_REFUSALS: Final = ((409, None), (422, None), (429, 2), (500, None), (503, None), (504, None))
_DOWN: Final = (("for 10 minutes", 600.0), ("for 3 hours", MOST_DOWN))
"""How long the process is down in the plans that keep it down: clock-driven operators miss what was due in that time."""
_MOST_EVENTS: Final = 12
"""Events of one kind that get plans of their own; later events of a stream resemble the earlier events."""

_FINALIZES: Final = 2
"""Calls of `finalize` that get plans of their own, beside the last call, after which everything is cleaned up."""
_INTERRUPTIONS: Final[tuple[Literal["raise", "cancel"], ...]] = ("raise", "cancel")

_MOST_REQUESTS: Final = 12
"""Requests of one service that get plans of their own."""
_SERVICE_FAULTS: Final[dict[Literal["unavailable", "silent", "lost"], str]] = {
    "unavailable": "is answered with 503",
    "silent": "gets no response",
    "lost": "is carried out, and its response is lost",
}

_LEASE_FAULTS: Final[dict[LeaseFault, str]] = {
    "lose": "the lease is lost",
    "pause": "the leader is paused for minutes",
    "delete": "the lease is deleted",
    "empty": "the holder of the lease is emptied by hand",
    "slow": "renewals of the lease are too slow",
    "apart": "the lease is lost to a replica whose clock is a day apart",
    "twins": "of two replicas with one identity the leader is paused",
}
_AT_EVERY_WRITE: Final = ("lose", "pause")

_BY_HAND: Final = ("delete", "edit")
_MOST_BY_HAND: Final = 16
"""Deletions and edits of children after the last write that precede other plans: with them quick mode still tries every kind of fault."""

_GOLDEN_RATIO: Final = (5**0.5 - 1) / 2
_PLACES: Final = ("first", "lines")
"""Fields of a fault that name the watch event that triggers it."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """A plan that cannot matter, and why."""

    plan: Plan
    reason: str


@dataclass(frozen=True, slots=True)
class Planned:
    """The plans to run, and the pruned plans."""

    plans: tuple[Plan, ...]
    pruned: tuple[Pruned, ...]
    unmatched: tuple[str, ...] = ()
    """Patterns of `Lab.skip_plans` that match the name of no plan, each with the name that is nearest to it."""


def plans_of(reference: Run, *, process: str, foreign: bool = True) -> Planned:
    """Return all plans for a reference run; `process` is the name of the manager under test.

    With `foreign` False the plans with writes of other clients are listed as pruned.
    """
    plans, pruned = list[Plan](), list[Pruned]()
    agent = f"{process} *"
    writes = reference.timeline.writes()
    effective = [write.number for write in writes if write.effect]
    for place, write in enumerate(writes):
        for plan in _at_write(write, agent):
            reason = _pointless(plan, write, writes[place - 1] if place else None, reference)
            reason = reason or _rare(plan, first_or_last=write.number in (*effective[:1], *effective[-1:]))
            if reason:
                pruned.append(Pruned(plan, reason))
            else:
                plans.append(plan)
    for resource, lines in sorted(reference.watched.items()):
        plans += _of_kind(resource, lines, agent)
        pruned += [
            Pruned(
                Plan(name=f"events of {resource} from number {_MOST_EVENTS + 1} on"),
                f"{lines} events; the first {_MOST_EVENTS} have plans",
            )
        ] * (lines > _MOST_EVENTS)
    plans += _at_finalize(reference)
    if len(reference.finalizes) > _FINALIZES + 1:
        reason = f"{len(reference.finalizes)} calls; the first {_FINALIZES} and the last one have plans"
        pruned.append(Pruned(Plan(name=f"calls of finalize from number {_FINALIZES + 1} to the last but one"), reason))
    for service, requests in sorted(reference.requests.items()):
        plans += _of_service(service, requests)
        if len(requests) > _MOST_REQUESTS:
            reason = f"{len(requests)} requests; the first {_MOST_REQUESTS} have plans"
            pruned.append(Pruned(Plan(name=f"requests of {service} from number {_MOST_REQUESTS + 1} on"), reason))
    by_others = list(_foreign_writes(reference))
    if foreign:
        plans += by_others
    else:
        pruned += [Pruned(plan, "the scenario itself plays those who touch the objects") for plan in by_others]
    unmatched = _unmatched(reference, [*(plan.name for plan in plans), *(one.plan.name for one in pruned)])
    applying = list[Plan]()
    for plan in plans:
        why = skips(reference, plan)
        if why:
            pruned.append(Pruned(plan, f"the scenario skips it: {why}"))
        else:
            applying.append(plan)
    return Planned(tuple(applying), tuple(pruned), tuple(unmatched))


def skips(reference: Run, plan: Plan) -> str:
    """Return the scenario's reason to leave out a plan, "" if it has none."""
    return next((why for pattern, why in reference.skipped if fnmatchcase(plan.name, pattern)), "")


def _unmatched(reference: Run, names: Sequence[str]) -> Iterator[str]:
    """Yield the patterns that match no name. The names of random plans are drawn later, and only in full mode."""
    for pattern, _ in reference.skipped:
        if pattern.startswith("random") or any(fnmatchcase(name, pattern) for name in names):
            continue
        nearest = get_close_matches(pattern, names, n=1, cutoff=0.0)
        yield f"{pattern!r}" + "".join(f"; the nearest is {name!r}" for name in nearest)


def spread_over_faults(plans: Iterable[Plan], random: Random, position: int | None = None) -> list[Plan]:
    """Shuffle plans: every kind of fault appears once before any kind appears twice, and so on.

    Deletions and edits of children by hand after the last write take every other place at the beginning: only these plans and a few others
    find an operator that skips work because it assumes the work is done.

    With a `position` the other kinds follow a fixed cyclic order, and the position selects the first kind. So the first plans of scenarios
    with consecutive positions have different kinds of fault.
    """
    drawn = list(plans)
    random.shuffle(drawn)
    last = max((foreign.after for plan in drawn for foreign in plan.foreign), default=0)
    by_hand = _in_rounds([plan for plan in drawn if _is_by_hand(plan, last)], _child_and_deed)[:_MOST_BY_HAND]
    names = {plan.name for plan in by_hand}
    others = [plan for plan in drawn if plan.name not in names]
    if position is not None:
        others = _from_position(others, position)
    others = _in_rounds(others, kind_of_fault)
    pairs = zip_longest(by_hand, others[: len(by_hand)])
    return [plan for pair in pairs for plan in pair if plan is not None] + others[len(by_hand) :]


def _in_rounds(plans: Iterable[Plan], kind: Callable[[Plan], str]) -> list[Plan]:
    """Return the plans with one of each kind before a second of any kind, and so on; otherwise in the given order."""
    rounds: defaultdict[str, Iterator[int]] = defaultdict(count)
    return [plan for _, plan in sorted(((next(rounds[kind(plan)]), plan) for plan in plans), key=itemgetter(0))]


def _from_position(plans: list[Plan], position: int) -> list[Plan]:
    """Sort plans by the kind of fault, in a cyclic order whose first kind depends on the position.

    Multiples of the golden ratio are spread almost evenly over a circle, whatever their number, and so are the first kinds.
    """
    kinds = sorted({kind_of_fault(plan) for plan in plans}, key=lambda kind: (crc32(kind.encode()), kind))
    start = int(position * _GOLDEN_RATIO % 1.0 * len(kinds))
    places = {kind: place for place, kind in enumerate(kinds[start:] + kinds[:start])}
    return sorted(plans, key=lambda plan: places[kind_of_fault(plan)])


def _is_by_hand(plan: Plan, last: int) -> bool:
    """Return whether a plan does nothing but delete or edit a child after the last write."""
    if plan.faults != 1 or not plan.foreign:
        return False
    [foreign] = plan.foreign
    return foreign.after == last and foreign.do in _BY_HAND


def _child_and_deed(plan: Plan) -> str:
    return f"{plan.foreign[0].do} {plan.foreign[0].resource}"


def kind_of_fault(plan: Plan) -> str:
    """Return the same text for plans that do the same thing at different places of a run."""
    kinds = [f"crash {crash.moment} {crash.behind} {crash.down:g}" for crash in plan.crashes]
    kinds += [
        str({word: value for word, value in timed.rule["fault"].items() if word not in _PLACES}) for timed in plan.rules
    ]
    kinds += [foreign.do for foreign in plan.foreign]
    kinds += [f"lease {lease.do}" for lease in plan.leases]
    kinds += [f"service {fault.do}" for fault in plan.services]
    return "; ".join([*kinds, *(f"finalize {one.do} {one.moment}" for one in plan.interruptions)])


# --- at a write ------------------------------------------------------------------------------------------------------------------


def _at_write(write: TimelineEntry, agent: str) -> Iterator[Plan]:
    number, what = write.number, write.text
    for moment in ("before", "after"):
        yield Plan(name=f"crash {moment} write {number} ({what})", crashes=(Crash(write=number, moment=moment),))
    for behind in (1, 3):
        crash = Crash(write=number, behind=behind)
        yield Plan(
            name=f"crash after write {number} ({what}), then a server that lags {behind} versions", crashes=(crash,)
        )
    for words, seconds in _DOWN:
        crash = Crash(write=number, down=seconds)
        yield Plan(name=f"crash after write {number} ({what}), and the process is down {words}", crashes=(crash,))
    strikes = [
        *(
            (f"write {number} ({what}) is answered with {status}", _refuse(status, retry))
            for status, retry in _REFUSALS
        ),
        (f"the answer to write {number} ({what}) is lost, the write is done", {"type": "drop", "moment": "after"}),
        (f"write {number} ({what}) is lost", {"type": "drop"}),
        (f"write {number} ({what}) takes 20 s", {"type": "delay", "seconds": 20.0, "moment": "after"}),
    ]
    for name, fault in strikes:
        rule = {"match": {"verbs": ["write"], "user_agent": agent}, "fault": fault, "count": 1}
        yield Plan(name=name, rules=(Timed(rule=rule, after=number - 1),))
    cut = {"match": {"user_agent": agent}, "fault": {"type": "drop", "refused": True, "watches": True}}
    yield Plan(
        name=f"partition for 30 s after write {number} ({what})", rules=(Timed(rule=cut, after=number, seconds=30.0),)
    )

    for do, words in _LEASE_FAULTS.items():
        yield Plan(name=f"{words} after write {number} ({what})", leases=(Lease(after=number, do=do),))


def _rare(plan: Plan, *, first_or_last: bool) -> str:
    """Return the reason why a fault of the lease is not tried at a write, or "" if it is."""
    if first_or_last or all(lease.do in _AT_EVERY_WRITE for lease in plan.leases):
        return ""
    return "this fault of the lease is tried after the first and the last write"


def _refuse(status: int, retry_after: int | None) -> dict[str, Any]:
    fault: dict[str, Any] = {"type": "refuse", "status": status}
    return fault if retry_after is None else {**fault, "retry_after": retry_after}


def _pointless(plan: Plan, write: TimelineEntry, earlier: TimelineEntry | None, reference: Run) -> str:
    """Return the reason why a plan cannot find anything new, or "" if it can."""
    if not write.effect and not _is_refusal(plan):
        return "the write changed nothing in the reference run"
    if plan.crashes and plan.crashes[0].moment == "before" and earlier is not None and earlier.effect:
        entries = reference.timeline.entries
        between = entries[entries.index(earlier) + 1 : entries.index(write)]
        if not any(entry.kind == "commit" and entry.who != "process" for entry in between):
            return f"nothing was stored since write {earlier.number}: the same as a crash after that one"
    return ""


def _is_refusal(plan: Plan) -> bool:
    return any(timed.rule["fault"]["type"] == "refuse" for timed in plan.rules)


# --- at an event -----------------------------------------------------------------------------------------------------------------


def _of_kind(resource: str, lines: int, agent: str) -> Iterator[Plan]:
    match = {"verbs": ["watch"], "resources": [resource], "user_agent": agent}
    for number in range(1, min(lines, _MOST_EVENTS) + 1):
        before = number - 1
        for name, fault in (
            (
                f"a stale view of {resource} from event {number} on, for 2 writes",
                {"type": "freeze", "lines": before, "steps": 2},
            ),
            (
                f"a stale view of {resource} from event {number} on, for 20 s",
                {"type": "freeze", "lines": before, "seconds": 20.0},
            ),
            (f"the watch of {resource} breaks inside event {number}", {"type": "cut", "lines": before}),
            (f"the watch of {resource} ends before event {number}", {"type": "cut", "lines": before, "clean": True}),
            (f"410 on the watch of {resource} instead of event {number}", {"type": "expire", "lines": before}),
            (
                f"event {number} of {resource} comes twice",
                {"type": "lines", "do": "duplicate", "first": number, "count": 1},
            ),
            (
                f"event {number} of {resource} is 5 s late",
                {"type": "lines", "do": "delay", "first": number, "count": 1, "seconds": 5.0},
            ),
        ):
            yield Plan(name=name, rules=(Timed(rule={"match": match, "fault": fault, "count": 1}),))
        yield Plan(
            name=f"events of {resource} from {number} on are lost before a new list",
            rules=_lost(match, before, resource, agent),
        )
    for do in ("omit", "duplicate", "delay"):
        fault = {"type": "bookmarks", "do": do, **({"seconds": 30.0} if do == "delay" else {})}
        yield Plan(name=f"bookmarks of {resource}: {do}", rules=(Timed(rule={"match": match, "fault": fault}),))
    reads = {"verbs": ["read"], "resources": [resource], "user_agent": agent}
    for behind in (1, 5):
        fault = {"type": "stale", "behind": behind, "seconds": 10.0, "honest": True}
        yield Plan(
            name=f"{resource} is read {behind} versions late",
            rules=(Timed(rule={"match": reads, "fault": fault}, after=1, seconds=10.0),),
        )
    everything = {"resources": [resource], "user_agent": agent}
    for after in (0, 1, 2):
        rule = {"match": everything, "fault": {"type": "refuse", "status": 403}}
        name = f"the right on {resource} is withdrawn for 30 s after write {after}"
        yield Plan(name=name, rules=(Timed(rule=rule, after=after, seconds=30.0),))


def _lost(match: dict[str, Any], before: int, resource: str, agent: str) -> tuple[Timed, ...]:
    # The second watch follows the cut, whether the first watch followed a list or began with initial events.
    again = {"verbs": ["watch"], "resources": [resource], "user_agent": agent}
    return (
        Timed(rule={"match": match, "fault": {"type": "cut", "lines": before}, "count": 1}),
        Timed(rule={"match": again, "fault": {"type": "refuse", "status": 503}, "nth": 2, "count": 3}),
        Timed(rule={"match": again, "fault": {"type": "forget"}, "nth": 2, "count": 4}),
    )


# --- at a call of finalize -------------------------------------------------------------------------------------------------------


def _at_finalize(reference: Run) -> Iterator[Plan]:
    moments: tuple[Moment, ...] = ("before", "after")
    calls = list(enumerate(reference.finalizes, 1))
    for number, what in calls[:_FINALIZES] + calls[_FINALIZES:][-1:]:
        for moment in moments:
            for do in _INTERRUPTIONS:
                one = Interruption(finalize=number, do=do, moment=moment)
                yield Plan(name=f"{one.text} ({what})", interruptions=(one,))


# --- at a request of a service ---------------------------------------------------------------------------------------------------


def _of_service(service: str, requests: Sequence[str]) -> Iterator[Plan]:
    for number, what in enumerate(requests[:_MOST_REQUESTS], 1):
        for do, words in _SERVICE_FAULTS.items():
            fault = ServiceFault(service=service, request=number, do=do)
            yield Plan(name=f"request {number} of {service} ({what}) {words}", services=(fault,))


# --- other people ----------------------------------------------------------------------------------------------------------------


def _foreign_writes(reference: Run) -> Iterator[Plan]:
    """Yield the foreign writes on existing objects, right after writes that concern them, and after the last write."""
    gone: tuple[Touch, ...] = ("delete", "recreate")
    changed: tuple[Touch, ...] = ("edit", "take")
    unmade: tuple[Touch, ...] = ("recreate", "unfinalize")
    texts = [write.text.split(" ") for write in reference.timeline.writes()]
    primaries = {text[1].removesuffix("/status") for text in texts if text[1].endswith("/status")}
    removed = set[str]()
    for after, where, made in _moments(reference):
        resource, _, place = where.partition(" ")
        namespace, _, name = place.rpartition("/")
        about: dict[str, Any] = {"after": after, "resource": resource, "namespace": namespace, "name": name}
        for do in gone if made else unmade if resource in primaries else ():
            # An object that the scenario itself deletes may stay after a foreign recreate.
            same = made or reference.places.get(where, where) in reference.state
            name_ = f"{where}: {do} by hand after write {after}"
            yield Plan(name=name_, foreign=(Foreign(do=do, **about),), same_end=same)
        for path, value in _fields(reference.state.get(reference.places.get(where, where))) if made else ():
            for do in changed:
                what = Foreign(do=do, path=path, value=value, **about)
                name_ = f"{where}: {do} .{'.'.join(path)} after write {after}"
                yield Plan(name=name_, foreign=(what,), same_end=False)
        if made and resource in reference.definitions and resource not in removed:
            removed.add(resource)
            what = Foreign(do="remove-crd", **about)
            yield Plan(name=f"the CRD of {resource} goes after write {after} and comes back", foreign=(what,))
    for write in reference.timeline.writes():
        if write.effect:
            what = Foreign(after=write.number, do="terminate", resource="namespaces", namespace="lab", name="lab")
            yield Plan(name=f"the namespace is deleted after write {write.number}", foreign=(what,), same_end=False)


def _moments(reference: Run) -> Iterator[tuple[int, str, bool]]:
    """Yield writes of the process with an object that they concern (the last write: every object), and whether the process created it."""
    last = max((write.number for write in reference.timeline.writes() if write.effect), default=0)
    alive: dict[str, bool] = {}
    for entry in reference.timeline.entries:
        word, _, where = entry.text.partition(" ")
        if entry.kind == "commit" and word == "added":
            alive[where] = entry.who == "process"
        elif entry.kind == "commit" and word == "deleted":
            alive.pop(where, None)
        elif entry.kind == "write" and entry.effect:
            for found, made in sorted(alive.items()):
                place = found.partition(" ")[2]
                if entry.number == last or entry.text.endswith(f" {place}"):
                    yield entry.number, found, made


def _fields(data: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the first plain field below spec or data, and another value for it."""
    for top in ("spec", "data"):
        found = _first(data.get(top) if isinstance(data, dict) else None, (top,))
        if found is not None:
            yield found
            return


def _first(here: Any, path: tuple[str, ...]) -> tuple[tuple[str, ...], Any] | None:
    if isinstance(here, bool):
        return path, not here
    if isinstance(here, int):
        return path, here + 1
    if isinstance(here, dict):
        for key, value in sorted(here.items()):
            found = _first(value, (*path, key))
            if found is not None:
                return found
    if isinstance(here, str) and here != "a time":
        return path, f"{here}-edited"
    return None


# --- beyond ----------------------------------------------------------------------------------------------------------------------


def random_seed(random: Random) -> int:
    """Draw the seed of another order of ready tasks."""
    return random.getrandbits(31) + 1


def random_plan(plans: Iterable[Plan], random: Random, number: int, *, seed: int | None = None) -> Plan:
    """Join two or three plans into one, with a seed for the order of ready tasks (None: a fresh seed)."""
    chosen = random.sample(list(plans), k=random.randint(2, MOST_JOINED))
    name = f"random {number}: {'; '.join(plan.name for plan in chosen)}"
    joined = Plan(name=name, seed=random_seed(random) if seed is None else seed)
    return msgspec.structs.replace(
        joined,
        crashes=tuple(crash for plan in chosen for crash in plan.crashes),
        rules=tuple(timed for plan in chosen for timed in plan.rules),
        foreign=tuple(foreign for plan in chosen for foreign in plan.foreign),
        leases=tuple(lease for plan in chosen for lease in plan.leases),
        interruptions=tuple(one for plan in chosen for one in plan.interruptions),
        services=tuple(fault for plan in chosen for fault in plan.services),
        same_end=all(plan.same_end for plan in chosen),
    )
