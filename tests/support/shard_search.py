"""The search of the hand-over model for several objects: states as small tuples of numbers, and one of all that are alike.

Objects touch each other only by what happens to members (a crash, a drain, a release), and there are far fewer states of one object than pairs of
them. So each state of an object has a number, its next states are found once, and a state of all is a tuple of numbers. Two states are alike if
one is the other with members or objects renamed: the decisions of the product compare names with the own one alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import permutations
from typing import Generic, NamedTuple, TypeVar

from shard_model import Copy, Model, State, Thing, Write, stopped

from konverge.runtime.sharding.stamp import Stamp

__all__ = ["Searched", "search_all"]

V = TypeVar("V", bound=Hashable)
Packed = tuple[int, ...]
"""Faults, phases of the members, and each object, as numbers."""


class Searched(NamedTuple):
    """The result: how many states were found, and each state of one object among them, with the members around it."""

    states: int
    of_one: frozenset[Packed]


class _Numbers(Generic[V]):
    def __init__(self) -> None:
        self.values: list[V] = []
        self._of: dict[V, int] = {}

    def of(self, value: V) -> int:
        number = self._of.get(value)
        if number is None:
            number = self._of[value] = len(self.values)
            self.values.append(value)
        return number


class _Search:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._orders = tuple(permutations(range(model.members)))
        self._things = _Numbers[Thing]()
        self._phases = _Numbers[tuple[str, ...]]()
        self._renamed_things: dict[int, Packed] = {}
        self._renamed_phases: dict[int, Packed] = {}
        self._next: dict[tuple[int, int], tuple[frozenset[int], frozenset[int]]] = {}
        self._ended: dict[tuple[int, int], int] = {}

    def run(self, limit: int) -> Searched:
        """Visit every state."""
        begin = self._model.begin()
        first = self._least((0, self._phases.of(begin.phases), *map(self._things.of, begin.things)))
        seen, waiting = {first}, [first]
        while waiting:
            found = set[Packed]()
            for state in waiting:
                found.update(map(self._least, self._steps(state)))
            waiting = list(found - seen)
            seen |= found
            assert len(seen) < limit, "the model is too large"
        ones = {(phases, thing) for _, phases, *things in seen for thing in things}
        return Searched(len(seen), frozenset(map(self._by_value, ones)))

    def _by_value(self, one: Packed) -> Packed:
        """Return a state of one object by its values, since its numbers are those of this search."""
        phases, thing = one
        alike = zip(self._phases_renamed(phases), self._thing_renamed(thing), strict=True)
        return min((hash(self._phases.values[first]), hash(self._things.values[second])) for first, second in alike)

    def _steps(self, state: Packed) -> Iterator[Packed]:
        faults, phases, *things = state
        may_fail = faults < self._model.faults
        for place, thing in enumerate(things):
            steps, edits = self._of_thing(phases, thing)
            before, after = things[:place], things[place + 1 :]
            for step in steps:
                yield (faults, phases, *before, step, *after)
            for edit in edits if may_fail else ():
                yield (faults + 1, phases, *before, edit, *after)
        for member, phase in enumerate(self._phases.values[phases]):
            if phase == "up" and may_fail:
                ended = (self._stopped(thing, member) for thing in things)
                yield (faults + 1, self._become(phases, member, "gone"), *ended)
                yield (faults + 1, self._become(phases, member, "draining"), *things)
            if phase == "draining" and not any(self._busy(thing, member) for thing in things):
                yield (faults, self._become(phases, member, "released"), *things)

    def _become(self, phases: int, member: int, phase: str) -> int:
        former = self._phases.values[phases]
        return self._phases.of((*former[:member], phase, *former[member + 1 :]))

    def _busy(self, thing: int, member: int) -> bool:
        copy = self._things.values[thing].copies[member]
        return bool(copy.running or copy.pending)

    def _stopped(self, thing: int, member: int) -> int:
        found = self._ended.get((thing, member))
        if found is None:
            found = self._ended[thing, member] = self._things.of(stopped(self._things.values[thing], member))
        return found

    def _of_thing(self, phases: int, thing: int) -> tuple[frozenset[int], frozenset[int]]:
        """The next states of one object, and those after an edit by hand; raises Overlap."""
        found = self._next.get((phases, thing))
        if found is None:
            state, value = State(self._phases.values[phases], ()), self._things.values[thing]
            steps = frozenset(self._things.of(one) for _, one in self._model.steps_of(state, value))
            edits = frozenset(self._things.of(one) for _, one in self._model.edits_of(state, value))
            found = self._next[phases, thing] = steps, edits
        return found

    def _least(self, state: Packed) -> Packed:
        """Return the one of all states alike that stands for them."""
        faults, phases, *things = state
        columns = (self._phases_renamed(phases), *map(self._thing_renamed, things))
        if len(things) == 1:
            return (faults, *min(zip(*columns, strict=True)))
        return (faults, *min((first, *sorted(rest)) for first, *rest in zip(*columns, strict=True)))

    def _phases_renamed(self, phases: int) -> Packed:
        found = self._renamed_phases.get(phases)
        if found is None:
            value = self._phases.values[phases]
            moved = (tuple(value[order.index(place)] for place in range(len(value))) for order in self._orders)
            found = self._renamed_phases[phases] = tuple(map(self._phases.of, moved))
        return found

    def _thing_renamed(self, thing: int) -> Packed:
        found = self._renamed_things.get(thing)
        if found is None:
            value = self._things.values[thing]
            found = tuple(self._things.of(_renamed(value, order)) for order in self._orders)
            self._renamed_things[thing] = found
        return found


def _renamed(thing: Thing, order: tuple[int, ...]) -> Thing:
    """Return the object as it is if member 0 is called `order[0]`, and so on."""
    names = {"abc"[old]: "abc"[new] for old, new in enumerate(order)} | {"": ""}

    def stamp(one: Stamp | None) -> Stamp | None:
        return None if one is None else Stamp(names[one.owner], one.epoch)

    def write(one: Write) -> Write:
        return Write(one.base, Stamp(names[one.stamp.owner], one.stamp.epoch))

    def copy(one: Copy) -> Copy:
        pending = None if one.pending is None else write(one.pending)
        return one._replace(stamp=stamp(one.stamp), former=stamp(one.former), pending=pending, mark=renamed(one.mark))

    def renamed(member: int) -> int:
        return order[member] if member >= 0 else member

    copies = tuple(copy(thing.copies[order.index(place)]) for place in range(len(order)))
    epoch, member = thing.last
    seen = thing.seen
    if seen is not None:
        seen = seen._replace(stamp=stamp(seen.stamp), former=stamp(seen.former))
    return thing._replace(
        label=renamed(thing.label),
        mark=renamed(thing.mark),
        seen=seen,
        copies=copies,
        stamp=stamp(thing.stamp),
        last=(epoch, renamed(member)),
        late=tuple(map(write, thing.late)),
    )


def search_all(model: Model, *, limit: int = 2_000_000) -> Searched:
    """Search all states, up to the names of members and objects. Raises Overlap if one breaks the protocol.

    A member of `model` may not come back or release while it reconciles: those mistakes are for the search that shows the way.
    """
    assert not model.comes_back
    assert not model.releases_while_running
    return _Search(model).run(limit)
