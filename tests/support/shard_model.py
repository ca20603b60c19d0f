"""A model of the hand-over, searched breadth-first: every order in which the parts of a small ring can act.

A state is what the server stores, what each cache shows, what each member remembers, and which writes are under way. A member's view of the
ring is chosen freely at each decision: any member may be the rightful owner of the object, and a dead member may be known to be dead or
not. So the views of two members may contradict each other at any time. The decisions are made by the product's code.

Newcomers start when another member has ended: like a restarted replica after a crash they have an unused name, a cache with the object's
current state, and no memory of earlier states.

With `labels` one coordinator gives objects to members, which see an object only while its label names them, and know nothing of the
object's past. At each decision the coordinator may choose any member as the rightful owner.

Assumptions about time: a member is known to be dead only when its fence has closed (10 s after its last renewal, against 30 s). A person
edits a stamp when every cache has shown it, and its owner sees that before the others forget the stamp (30 s). No newcomer starts in
between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from konverge.daemon import garbage
from konverge.runtime.sharding.assignment import Assignment, assign
from konverge.runtime.sharding.decision import MemberState, ShardAction, ShardDecision, ShardView, decide, former_after
from konverge.runtime.sharding.stamp import Stamp

_AWAY = ("absent", "gone", "released")


class Write(NamedTuple):
    base: int
    stamp: Stamp


class Copy(NamedTuple):
    """An object as a member knows it."""

    version: int = 1
    stamp: Stamp | None = None
    former: Stamp | None = None
    held: int = 0
    held_version: int = 0
    running: int = 0
    """The epoch of the reconcile that runs; 0 for none."""
    pending: Write | None = None
    """The write whose response it waits for."""
    present: bool = True
    """Whether its cache holds the object: with labels, if the label names it."""
    mark: int = -1
    """The member that the object is to be handed over to, as the cache shows it; -1 for none."""


class Seen(NamedTuple):
    """An object as the coordinator knows it."""

    version: int = 1
    stamp: Stamp | None = None
    former: Stamp | None = None


class Thing(NamedTuple):
    """One object on the server, and the copies of all members."""

    copies: tuple[Copy, ...]
    version: int = 1
    stamp: Stamp | None = None
    last: tuple[int, int] = (0, -1)
    """The epoch and the member of the last reconcile."""
    late: tuple[Write, ...] = ()
    """Writes that were given up and may still arrive."""
    tampered: bool = False
    label: int = -1
    mark: int = -1
    seen: Seen | None = None
    """The knowledge of the coordinator; None without one."""


class State(NamedTuple):
    phases: tuple[str, ...]
    """Of each member: absent, up, draining, gone (its fence has closed, or it crashed), released."""
    things: tuple[Thing, ...]
    faults: int = 0


class Overlap(AssertionError):
    """The protocol failed; the message is the shortest path to the failure."""


Assign = Callable[..., Assignment]
Decide = Callable[[ShardView, Callable[[str], MemberState]], ShardDecision]


@dataclass(frozen=True)
class Model:
    """The size of the search, and the mistakes that are planted."""

    members: int = 3
    newcomers: int = 0
    """How many of the members start later."""
    objects: int = 1
    writes: int = 5
    """Writes of one object, after which a branch ends."""
    faults: int = 2
    """Crashes, drains and edits by hand, together."""
    tampering: bool = True
    decide: Decide = decide
    former: Callable[[Stamp | None, Stamp | None, Stamp | None], Stamp | None] = former_after
    blind_writes: bool = False
    holds_after_clear: bool = False
    releases_while_running: bool = False
    comes_back: bool = False
    labels: bool = False
    """Whether a coordinator gives objects to members by labels."""
    assign: Assign = assign
    coordinator_forgets: bool = False

    def begin(self) -> State:
        thing = Thing(copies=(Copy(present=not self.labels),) * self.members, seen=Seen() if self.labels else None)
        phases = ("up",) * (self.members - self.newcomers) + ("absent",) * self.newcomers
        return State(phases, (thing,) * self.objects)

    # --- what can happen next ------------------------------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for member, phase in enumerate(state.phases):
            yield from self._of_member(state, member, phase)
        for number, thing in enumerate(state.things):
            for what, changed in self.steps_of(state, thing):
                things = (*state.things[:number], changed, *state.things[number + 1 :])
                yield f"object {number}: {what}", state._replace(things=things)
            if state.faults < self.faults:
                for what, edited in self.edits_of(state, thing):
                    things = (*state.things[:number], edited, *state.things[number + 1 :])
                    yield f"object {number}: {what}", state._replace(things=things, faults=state.faults + 1)

    def edits_of(self, state: State, thing: Thing) -> Iterator[tuple[str, Thing]]:
        """The edits of a stamp by hand; each edit is a fault."""
        shown = all(
            copy.version == thing.version or phase in _AWAY or not copy.present
            for copy, phase in zip(thing.copies, state.phases, strict=True)
        )
        shown = shown and (thing.seen is None or thing.seen.version == thing.version)
        if self.tampering and not thing.tampered and shown and thing.stamp is not None and thing.stamp.owner:
            edited = thing._replace(version=thing.version + 1, tampered=True)
            yield "a person removes the stamp", edited._replace(stamp=None)
            for other in range(self.members):
                if _name(other) != thing.stamp.owner and state.phases[other] != "absent":
                    forged = Stamp(_name(other), thing.stamp.epoch + 1)
                    yield f"a person writes {forged}", edited._replace(stamp=forged)

    def _of_member(self, state: State, member: int, phase: str) -> Iterator[tuple[str, State]]:
        def become(new: str, *, fault: int = 0, stop: bool = False) -> State:
            phases = (*state.phases[:member], new, *state.phases[member + 1 :])
            things = tuple(stopped(thing, member) for thing in state.things) if stop else state.things
            return State(phases, things, state.faults + fault)

        if phase == "up" and state.faults < self.faults:
            yield f"{_name(member)} loses its lease and stops", become("gone", fault=1, stop=True)
            yield f"{_name(member)} begins to drain", become("draining", fault=1)
        if phase == "draining":
            busy = any(thing.copies[member].running or thing.copies[member].pending for thing in state.things)
            if not busy or self.releases_while_running:
                yield f"{_name(member)} releases its lease", become("released")
        if phase == "absent" and any(one in ("gone", "released") for one in state.phases) and _quiet(state):
            things = tuple(_with(thing, member, Copy(thing.version, thing.stamp)) for thing in state.things)
            phases = (*state.phases[:member], "up", *state.phases[member + 1 :])
            yield f"{_name(member)} starts", State(phases, things, state.faults)
        if phase == "gone" and self.comes_back:
            yield f"{_name(member)} comes back under its name", become("back")

    def steps_of(self, state: State, thing: Thing) -> Iterator[tuple[str, Thing]]:
        """The next steps of one object; it shares only the phases of the members with other objects."""
        for write in thing.late:
            rest = tuple(one for one in thing.late if one != write)
            if self.blind_writes or write.base == thing.version:
                landed = thing._replace(version=thing.version + 1, stamp=write.stamp, late=rest)
                yield f"a late write of {write.stamp} arrives", landed
            elif write.base < thing.version:
                yield "a late write is refused", thing._replace(late=rest)
                return
        for member, phase in enumerate(state.phases):
            if phase in _AWAY:
                continue
            copy = thing.copies[member]
            if self.labels and not (copy.present and thing.label == member):
                yield from _moves_of_cache(thing, member, copy)
            else:
                yield from self._caches(state, thing, member, copy)
            if copy.pending is not None:
                yield from self._responses(thing, member, copy, copy.pending)
            if copy.running:
                yield f"{_name(member)} ends its reconcile", _with(thing, member, copy._replace(running=0))
            if copy.pending is None and copy.present:
                yield from self._decisions(state, thing, member, copy, phase)

        if thing.seen is not None:
            yield from self._coordinates(state, thing, thing.seen)

    def _coordinates(self, state: State, thing: Thing, seen: Seen) -> Iterator[tuple[str, Thing]]:
        if seen.version < thing.version:
            former = None if self.coordinator_forgets else self.former(seen.former, seen.stamp, thing.stamp)
            yield "the coordinator sees it", thing._replace(seen=Seen(thing.version, thing.stamp, former))
            return  # a write would be rejected
        if seen.former is not None and self._can_forget(state, thing, seen.former):
            yield "the coordinator forgets the stamp before", thing._replace(seen=seen._replace(former=None))
        if thing.version > self.writes:
            return
        present = Assignment(_label(thing.label), _label(thing.mark))
        for desired in range(self.members):
            for known in (True, False):
                states = {_name(member): _state(phase, known=known) for member, phase in enumerate(state.phases)}
                wanted = self.assign(
                    present,
                    desired=_name(desired),
                    stamp=seen.stamp,
                    former=seen.former,
                    state_of=states.__getitem__,
                    replica_of=lambda member: member,
                )
                if wanted != present:
                    label, mark = _number(wanted.replica), _number(wanted.drain) if wanted.drain else -1
                    labelled = thing._replace(version=thing.version + 1, label=label, mark=mark)
                    yield f"the coordinator writes {wanted}", labelled

    def _can_forget(self, state: State, thing: Thing, former: Stamp) -> bool:
        """Whether the owner before an edit has seen it and written its stamp again, or has ended."""
        owner = _number(former.owner)
        at_work = thing.copies[owner]
        knows = at_work.version == thing.version and (
            not at_work.held or thing.stamp == Stamp(_name(owner), at_work.held)
        )
        return state.phases[owner] in ("gone", "released") or (knows and at_work.pending is None)

    def _caches(self, state: State, thing: Thing, member: int, copy: Copy) -> Iterator[tuple[str, Thing]]:
        if copy.version < thing.version:
            former = self.former(copy.former, copy.stamp, thing.stamp)
            seen = copy._replace(version=thing.version, stamp=thing.stamp, former=former, mark=thing.mark)
            yield f"{_name(member)} sees version {thing.version}", _with(thing, member, seen)
        # The memory of the former stamp expires: its owner has seen the edit and written its stamp again, or has ended.
        if copy.former is not None and self._can_forget(state, thing, copy.former):
            yield f"{_name(member)} forgets the stamp before", _with(thing, member, copy._replace(former=None))

    def _responses(self, thing: Thing, member: int, copy: Copy, write: Write) -> Iterator[tuple[str, Thing]]:
        name, free = _name(member), copy._replace(pending=None)
        if self.blind_writes or write.base == thing.version:
            done = thing._replace(version=thing.version + 1, stamp=write.stamp)
            if write.stamp.owner:
                held = free._replace(held=write.stamp.epoch, held_version=done.version)
            else:
                held = free
            yield f"{name} writes {write.stamp}", _with(done, member, held)
            yield f"{name} writes {write.stamp}, and the response is lost", _with(done, member, free)
        else:
            yield f"{name} is refused", _with(thing, member, free)
            return
        if len(thing.late) < 1:
            late = thing._replace(late=(*thing.late, write))
            yield f"{name} gives up the write of {write.stamp}, which is under way", _with(late, member, free)

    def _decisions(
        self, state: State, thing: Thing, member: int, copy: Copy, phase: str
    ) -> Iterator[tuple[str, Thing]]:
        name = _name(member)
        others = [_name(other) for other in range(self.members) if other != member]
        seen: set[ShardDecision] = set()
        wanted: tuple[str, ...] = (name, others[0])
        if self.labels:
            wanted = (name if copy.mark in (-1, member) else _name(copy.mark),)
        for desired in (others[0],) if phase == "draining" else wanted:
            for known in (True, False):
                view = ShardView(
                    me=name,
                    desired=desired,
                    stamp=copy.stamp,
                    version=str(copy.version * 10),
                    held=copy.held,
                    current=copy.version >= copy.held_version,
                    former=copy.former,
                    running=bool(copy.running),
                )
                states = {name: MemberState.READY}
                for other, one in enumerate(state.phases):
                    if other != member:
                        states[_name(other)] = _state(one, known=known)
                decision = self.decide(view, states.__getitem__)
                if decision in seen:
                    continue
                seen.add(decision)
                yield from self._acts(thing, member, copy, decision)

    def _acts(self, thing: Thing, member: int, copy: Copy, decision: ShardDecision) -> Iterator[tuple[str, Thing]]:
        name, epoch = _name(member), decision.epoch
        if decision.action is ShardAction.KEEP and not copy.running and copy.version >= copy.held_version:
            self._check(thing, member, epoch)
            running = _with(thing, member, copy._replace(running=epoch))
            yield f"{name} begins a reconcile in epoch {epoch}", running._replace(last=(epoch, member))
        if thing.version > self.writes:
            return
        fresh = self.blind_writes or copy.version == thing.version  # else it is rejected, whatever happens in between
        if decision.action is ShardAction.CLAIM and fresh:
            yield (
                f"{name} sends {name}/{epoch}",
                _with(thing, member, copy._replace(pending=Write(copy.version, Stamp(name, epoch)))),
            )
        if decision.action is ShardAction.CLEAR:
            held = copy.held if self.holds_after_clear else 0
            pending = Write(copy.version, Stamp("", epoch)) if fresh else None
            yield f"{name} sends /{epoch}", _with(thing, member, copy._replace(held=held, pending=pending))

    def _check(self, thing: Thing, member: int, epoch: int) -> None:
        for other, copy in enumerate(thing.copies):
            if other != member and copy.running:
                raise Overlap(f"{_name(member)} begins in epoch {epoch} while {_name(other)} reconciles")
        last, by = thing.last
        if epoch < last or (epoch == last and by != member):
            raise Overlap(f"{_name(member)} begins in epoch {epoch}, after epoch {last} of {_name(by)}")


def _quiet(state: State) -> bool:
    """Whether no member still has to notice an edit of a stamp, or remembers a former stamp."""
    return not any(
        thing.tampered and phase not in _AWAY and (copy.version < thing.version or copy.former or copy.pending)
        for thing in state.things
        for copy, phase in zip(thing.copies, state.phases, strict=True)
    )


def _label(member: int) -> str:
    return _name(member) if member >= 0 else ""


def _moves_of_cache(thing: Thing, member: int, copy: Copy) -> Iterator[tuple[str, Thing]]:
    """An object enters the cache of a member without its past, or leaves the cache; its reconcile continues."""
    if copy.present and copy.version < thing.version:
        late = (*thing.late, copy.pending) if copy.pending is not None and len(thing.late) < 1 else thing.late
        gone = Copy(version=thing.version, running=copy.running, present=False)
        yield f"{_name(member)} sees it go", _with(thing._replace(late=late), member, gone)
    elif not copy.present and thing.label == member:
        come = Copy(version=thing.version, stamp=thing.stamp, running=copy.running, mark=thing.mark)
        yield f"{_name(member)} sees it come", _with(thing, member, come)


def _name(member: int) -> str:
    return "abc"[member]


def _number(name: str) -> int:
    return "abc".index(name)


def _state(phase: str, *, known: bool) -> MemberState:
    if phase == "released":
        return MemberState.RELEASED if known else MemberState.DRAINING
    if phase in ("gone", "back"):
        return MemberState.DEAD if known else MemberState.EXPIRED
    return MemberState.READY


def _with(thing: Thing, member: int, copy: Copy) -> Thing:
    copies = (*thing.copies[:member], copy, *thing.copies[member + 1 :])
    return Thing(copies, *thing[1:])  # a third of the time of `_replace`


def stopped(thing: Thing, member: int) -> Thing:
    """A member that lost its lease runs nothing and holds nothing; its write may still be under way."""
    copy = thing.copies[member]
    late = (*thing.late, copy.pending) if copy.pending is not None and len(thing.late) < 1 else thing.late
    return _with(thing._replace(late=late), member, Copy())


def search(model: Model, *, limit: int = 2_000_000) -> int:
    """Search all states; returns their number. Raises Overlap with the path to the first state that breaks the protocol."""
    # A search leaves no garbage in cycles, and the collector would traverse all states repeatedly.
    with garbage.paused():
        return _search(model, limit)


def _search(model: Model, limit: int) -> int:
    first = model.begin()
    before: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque((first,))
    while waiting:
        state = waiting.popleft()
        try:
            for what, following in model.steps(state):
                if following not in before:
                    before[following] = (state, what)
                    waiting.append(following)
        except Overlap as error:
            raise Overlap(f"{error}:\n{way_to(before, state)}") from None
        assert len(before) < limit, "the model is too large"
    return len(before)


def way_to(before: Mapping[Any, tuple[Any, str] | None], state: object) -> str:
    """Return the steps that lead to a state, one in a line."""
    steps = []
    step = before[state]
    while step is not None:
        steps.append(step[1])
        step = before[step[0]]
    return "\n".join(reversed(steps))
