"""A model of replicas that crash and are started again, searched breadth-first: for how long an object has no live owner.

Time passes in steps of five seconds, the time between two renewals. In each step any number of replicas may crash or stop, and a stopped
replica may start. Then each replica renews its Lease, reads all Leases, and acts like the product: it reports dead members, joins, and
decides on the object. The Leases are judged by `Membership` and the object by `decide`, both of the product. The hash is hostile: it
prefers replicas in the given order.

A crash happens right after a renewal, so others detect it as late as possible. Instead of a crash a replica may lose its connection, and
work on until its fence closes: before that no other replica may take its object. Ages and waits are relative to the state, so equal states
compare equal at any time. A member that all consider dead and that owns nothing is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import msgspec
from shard_model import Overlap, way_to

from konverge.runtime.election.record import LeaseRecord
from konverge.runtime.sharding.decision import MemberState, ShardAction, ShardDecision, ShardView, decide
from konverge.runtime.sharding.members import MemberLease, Membership
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.runtime.sharding.stamp import Stamp

SETTINGS = ShardingSettings(mode="hash")
STEP = SETTINGS.retry_seconds
RELEASED = LeaseRecord("", 1)


class Late(AssertionError):
    """An object waits for too long; the message is the shortest path to this state."""


@dataclass(frozen=True)
class Restarts:
    """The size of the search, and the mistakes that are planted."""

    hosts: int = 3
    faults: int = 2
    """Crashes and stops, after which a branch has none; each begins the wait again, since it may be what the object waits for."""
    loops: bool = False
    """Whether only the last host crashes and stops, any number of times, and none of these begins the wait again."""
    newest_first: bool = True
    """Whether the hash prefers the replica that started last, or first."""
    bound: int = 6
    """Steps after which an object has an owner that lives: 30 s, and 5 s are left for the requests of a real replica."""
    reports: bool = True
    """Whether a member that judges another one dead releases its Lease."""
    joins_at_once: bool = False
    judges_as_others: bool = False
    """Whether a newcomer gives a Lease that it has never seen renewed as long as any other."""
    decide: Callable[[ShardView, Callable[[str], MemberState]], ShardDecision] = decide


@dataclass
class _World:
    """A state. Members are named after the order of their starts."""

    time: float = 0.0
    started: int = 0
    running: dict[int, str] = field(default_factory=dict)
    """The member of each host that is up."""
    leases: dict[str, MemberLease] = field(default_factory=dict)
    views: dict[str, Membership] = field(default_factory=dict)
    owner: str = ""
    at_work: dict[str, float] = field(default_factory=dict)
    """Until when a member may reconcile that others do not hear of any more."""
    wait: int = 0
    faults: int = 0

    def copy(self) -> _World:
        views = {name: _copied(view) for name, view in self.views.items()}
        return replace(
            self, running=dict(self.running), leases=dict(self.leases), views=views, at_work=dict(self.at_work)
        )

    def names(self) -> list[str]:
        return sorted(self.leases)

    def same(self) -> object:
        """Return a key that is equal for states with the same future."""
        place = {name: number for number, name in enumerate(self.names())}
        views = [(place[name], *_seen(view, place, self.time)) for name, view in sorted(self.views.items())]
        running = tuple((host, place[name]) for host, name in sorted(self.running.items()))
        leases = tuple((lease.joined, lease.record.released) for _, lease in sorted(self.leases.items()))
        works = max(0.0, self.at_work.get(self.owner, 0.0) - self.time)
        return running, leases, tuple(views), place.get(self.owner, -1), works, self.wait, self.faults


def _copied(view: Membership) -> Membership:
    copy = Membership(SETTINGS)
    for name, value in vars(view).items():
        setattr(copy, name, value)
    copy._members = {name: replace(member) for name, member in view._members.items()}
    return copy


def _seen(view: Membership, place: dict[str, int], now: float) -> tuple[object, ...]:
    members = tuple(
        (place[name], one.state, None if one.state.gone else now - one.changed_at, one.renewed, one.joins_at - now > 0)
        for name, one in sorted(view._members.items())
    )
    return members, view._joins_at - now, view._joins_by - now


def _begin(model: Restarts) -> _World:
    world = _World(faults=model.faults)
    for host in range(model.hosts):
        _start(model, world, host)
    for _ in range(3):
        _pass(model, world)
    return world


def _start(model: Restarts, world: _World, host: int) -> None:
    name = f"{world.started:04d}-{host}"
    world.started += 1
    view = world.views[name] = Membership(SETTINGS)
    for other, lease in world.leases.items():
        view.observe(other, lease, world.time, initial=True)
    stops_after = 0 if model.judges_as_others else int(SETTINGS.renew_seconds)
    record = LeaseRecord(name, int(SETTINGS.lease_seconds))
    world.leases[name] = MemberLease(record, joined=model.joins_at_once, stops_after=stops_after)
    world.running[host] = name


def _end(model: Restarts, world: _World, hosts: Iterable[int], *, release: bool = False) -> _World:
    """Return the state after the end of these replicas, which release their Leases if they stop."""
    ended = world.copy()
    for host in hosts:
        name = ended.running.pop(host)
        del ended.views[name]
        if not release:
            ended.at_work[name] = ended.time + SETTINGS.renew_seconds
        else:
            ended.leases[name] = replace(ended.leases[name], record=RELEASED)
    if not model.loops:
        ended.faults, ended.wait = ended.faults - 1, 0
    return ended


def _started(model: Restarts, world: _World, hosts: Iterable[int]) -> _World:
    started = world.copy()
    for host in hosts:
        _start(model, started, host)
    return started


def _pass(model: Restarts, world: _World) -> None:
    """Let one step of time pass."""
    world.time += STEP
    for name in world.running.values():
        lease = world.leases[name]
        world.leases[name] = replace(lease, record=msgspec.structs.replace(lease.record, renewed=str(world.time)))
    leases = dict(world.leases)
    for name, view in world.views.items():
        view.observe_all(leases, asked=world.time, now=world.time)
        for dead in view.unreleased() if model.reports else ():
            world.leases[dead] = replace(world.leases[dead], record=RELEASED)
        if view.has_judged_all() and not view.is_marked(name):
            world.leases[name] = replace(world.leases[name], joined=True)
            view.observe(name, world.leases[name], world.time, alone=view.is_alone(name))
    for name, view in world.views.items():
        _own(model, world, name, view)
    live = world.owner in world.views
    world.wait = 0 if live else world.wait + bool(world.views)
    for name in world.names():
        gone = name not in world.views and all(view.state_of(name).gone for view in world.views.values())
        if gone and world.views and name != world.owner:
            del world.leases[name]
            for view in world.views.values():
                view.forget(name)


def _own(model: Restarts, world: _World, name: str, view: Membership) -> None:
    members = view.live(world.time)
    desired = (members[-1] if model.newest_first else members[0]) if members else ""
    shown = ShardView(
        me=name,
        desired=desired,
        stamp=Stamp(world.owner, 1) if world.owner else None,
        version="2",
        held=int(world.owner == name),
    )
    action = model.decide(shown, view.state_of).action
    if action is ShardAction.CLAIM:
        other = world.owner != name and (world.owner in world.views or world.at_work.get(world.owner, 0.0) > world.time)
        if other:
            raise Overlap("a member takes an object whose owner is at work")
        world.owner = name
    elif action is ShardAction.CLEAR:
        world.owner = ""


def _faults(model: Restarts, world: _World) -> Iterator[tuple[str, _World]]:
    """Return the states after any event of one step: nothing, the start of a replica, or the end of one replica or of all."""
    yield "nothing happens", world.copy()
    for host in [model.hosts - 1] if model.loops else range(model.hosts):
        if host not in world.running:
            yield f"{host} starts", _started(model, world, [host])
    if not (model.loops or world.faults):
        return
    ends = [[host] for host in world.running if not model.loops or host == model.hosts - 1]
    if len(world.running) == model.hosts and not model.loops:
        ends.append(list(world.running))
    for hosts in ends:
        for release, what in ((False, "crashes"), (True, "stops")):
            ended = _end(model, world, hosts, release=release)
            yield f"{hosts} {what}", ended
            yield f"{hosts} {what} and starts again", _started(model, ended, hosts)


def search_restarts(model: Restarts, *, limit: int = 100_000) -> int:
    """Search all states; returns their number. Raises Late or Overlap with the path to the first state that breaks a rule."""
    first = _begin(model)
    before: dict[object, tuple[object, str] | None] = {first.same(): None}
    waiting = deque((first,))
    while waiting:
        world = waiting.popleft()
        same = world.same()
        for what, following in _faults(model, world):
            try:
                _pass(model, following)
            except Overlap as error:
                raise Overlap(f"{error}:\n{way_to(before, same)}\n{what}") from None
            after = following.same()
            if after in before:
                continue
            before[after] = same, what
            if following.wait > model.bound:
                raise Late(f"an object waits for {following.wait * STEP:g} s:\n{way_to(before, after)}")
            waiting.append(following)
        assert len(before) < limit, "the model is too large"
    return len(before)
