"""The search of the hand-over model for several objects: states as small tuples of numbers, with a single representative of equivalent
states.

Objects touch each other only by what happens to members (a crash, a drain, a release), and there are far fewer states of one object than
pairs of them. So each state of an object has a number, its next states are found once, and a state of all is a tuple of numbers. Two states
are equivalent if renaming members or objects turns the first into the second: the product's decisions compare names only with the own name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import permutations
from typing import Generic, NamedTuple, TypeVar

from shard_model import Copy, Model, State, Thing, Write, stopped

from konverge.daemon import garbage
from konverge.runtime.sharding.stamp import Stamp

V = TypeVar("V", bound=Hashable)
Packed = tuple[int, ...]
"""Faults, phases of the members, and each object, as numbers."""


class Searched(NamedTuple):
    """The result: the number of states."""

    states: int
    find_of_one: Callable[[], frozenset[Packed]]

    @property
    def of_one(self) -> frozenset[Packed]:
        """Each state of an object in the search, with the members around it."""
        with garbage.paused():
            return self.find_of_one()


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
        orders = tuple(permutations(range(model.members)))
        self._renamings = tuple(map(_Renaming, orders))
        self._after = tuple(tuple(orders.index(tuple(two[place] for place in one)) for two in orders) for one in orders)
        """By the places of two orders: that of the one that renames as the first and then the second."""
        self._things = _Numbers[Thing]()
        self._phases = _Numbers[tuple[str, ...]]()
        self._renamed_things: dict[int, Packed] = {}
        self._least_phases: dict[int, tuple[int, Packed]] = {}
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
        return Searched(len(seen), partial(self._of_one, seen))

    def _of_one(self, seen: set[Packed]) -> frozenset[Packed]:
        ones = {(phases, thing) for _, phases, *things in seen for thing in things}
        return frozenset(map(self._by_value, ones))

    def _by_value(self, one: Packed) -> Packed:
        """Return a state of one object by its values, since the numbers are valid only within this search."""
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
        """The next states of an object, including states after an edit by hand; raises Overlap."""
        found = self._next.get((phases, thing))
        if found is None:
            state, value = State(self._phases.values[phases], ()), self._things.values[thing]
            steps = frozenset(self._things.of(one) for _, one in self._model.steps_of(state, value))
            edits = frozenset(self._things.of(one) for _, one in self._model.edits_of(state, value))
            found = self._next[phases, thing] = steps, edits
        return found

    def _least(self, state: Packed) -> Packed:
        """Return the representative of the equivalent states."""
        faults, phases, *things = state
        least, orders = self._phases_least(phases)
        renamed = [self._thing_renamed(thing) for thing in things]
        if len(renamed) == 1:
            (one,) = renamed
            return faults, least, min([one[order] for order in orders])
        if len(renamed) == 2:  # by far the most: without a list for each order
            one, other = renamed
            pairs = [(one[order], other[order]) for order in orders]
            return (faults, least, *min([pair if pair[0] <= pair[1] else pair[::-1] for pair in pairs]))
        return (faults, least, *min([sorted([one[order] for one in renamed]) for order in orders]))

    def _phases_least(self, phases: int) -> tuple[int, Packed]:
        """The least numbering of the phases over all orders of the members, and the places of the orders that give it."""
        found = self._least_phases.get(phases)
        if found is None:
            renamed = self._phases_renamed(phases)
            least = min(renamed)
            places = tuple(place for place, number in enumerate(renamed) if number == least)
            found = self._least_phases[phases] = least, places
        return found

    def _phases_renamed(self, phases: int) -> Packed:
        value = self._phases.values[phases]
        return tuple(self._phases.of(renaming.in_place(value)) for renaming in self._renamings)

    def _thing_renamed(self, thing: int) -> Packed:
        found = self._renamed_things.get(thing)
        if found is None:
            value = self._things.values[thing]
            found = tuple(self._things.of(renaming.of_thing(value)) for renaming in self._renamings)
            for place, number in enumerate(found):  # equivalent states share these, in another order
                self._renamed_things[number] = tuple([found[after] for after in self._after[place]])
        return found


class _Renaming:
    """Member 0 is called `order[0]`, and so on. The parts of objects are few, so each is renamed once."""

    def __init__(self, order: Packed) -> None:
        self._order = order
        self._former = tuple(order.index(place) for place in range(len(order)))
        self._names = {"abc"[old]: "abc"[new] for old, new in enumerate(order)} | {"": ""}
        self._copies: dict[Copy, Copy] = {}

    def in_place(self, of_members: tuple[V, ...]) -> tuple[V, ...]:
        return tuple([of_members[former] for former in self._former])

    def of_thing(self, thing: Thing) -> Thing:
        """Return the object with the members renamed."""
        copies = tuple([self._copy(thing.copies[former]) for former in self._former])
        epoch, member = thing.last
        seen = thing.seen
        if seen is not None:
            seen = seen._replace(stamp=self._stamp(seen.stamp), former=self._stamp(seen.former))
        return thing._replace(
            label=self._member(thing.label),
            mark=self._member(thing.mark),
            seen=seen,
            copies=copies,
            stamp=self._stamp(thing.stamp),
            last=(epoch, self._member(member)),
            late=tuple(map(self._write, thing.late)),
        )

    def _copy(self, copy: Copy) -> Copy:
        found = self._copies.get(copy)
        if found is None:
            found = self._copies[copy] = copy._replace(
                stamp=self._stamp(copy.stamp),
                former=self._stamp(copy.former),
                pending=None if copy.pending is None else self._write(copy.pending),
                mark=self._member(copy.mark),
            )
        return found

    def _stamp(self, stamp: Stamp | None) -> Stamp | None:
        return None if stamp is None else Stamp(self._names[stamp.owner], stamp.epoch)

    def _write(self, write: Write) -> Write:
        return Write(write.base, Stamp(self._names[write.stamp.owner], write.stamp.epoch))

    def _member(self, member: int) -> int:
        return self._order[member] if member >= 0 else member


def search_all(model: Model, *, limit: int = 2_000_000) -> Searched:
    """Search all states, up to the names of members and objects. Raises Overlap if a state breaks the protocol.

    A member of `model` may not start later, restart or release while it reconciles: the search that reports paths has these steps.
    """
    assert not model.newcomers
    assert not model.comes_back
    assert not model.releases_while_running
    with garbage.paused():
        return _Search(model).run(limit)
