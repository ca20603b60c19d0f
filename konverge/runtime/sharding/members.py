"""The members of a ring, judged by the states of their Leases that this replica saw. Pure: a value of the loop's clock is an argument of
each method.

    a new Lease            a newcomer: not counted before the annotation that it has judged every other member
    annotated as joined    counted `join_seconds` after the last member that joined, at most five times as long after the first waiting
                           member, or at once when a member leaves
    renewed in time        ready
    unchanged for 15 s     expired: it keeps its objects
    unchanged for 30 s     dead, for good
    never seen to change   dead after twice the seconds within which its holder stops without a renewal (20 s), for good
    annotated              draining: it keeps its objects until its release
    released               released, for good
    deleted by hand        as unchanged: a live member creates it again
    no Lease was seen      unknown; absent if a list that is two durations younger than the question shows no Lease either

Guarantees: the age of a Lease counts from its last change that this replica saw. It ends at the request of the last read that returned
the Lease unchanged. Times of the record are never compared with a clock, and a watch that brings nothing makes no member dead. Only a
Lease makes a member: a name in a stamp, which any writer of the object may forge, takes no memory here, and all names together cause
one list each `retry_seconds`. A newcomer has judged a member when it has seen the member renew its Lease, release it, or die. So a
replica that crashes again and again is not counted while its own last crash keeps objects waiting.

Source of the states: https://github.com/timebertt/kubernetes-controller-sharding/blob/main/pkg/sharding/leases/state.go
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from konverge.objects import compare_versions
from konverge.runtime.election.record import LeaseRecord
from konverge.runtime.sharding.decision import MemberState
from konverge.runtime.sharding.settings import ShardingSettings

__all__ = ["MemberLease", "Membership"]

_ROUNDING = 1e-6
_LONGEST_JOIN = 5
"""The longest wait of a joining member, in `join_seconds`: a member that starts again and again must not keep others out for ever."""


@dataclass(frozen=True, slots=True)
class MemberLease:
    """The Lease of a member, as it was read."""

    record: LeaseRecord
    draining: bool = False
    joined: bool = True
    """Whether the member has judged every other member, or has a version that does not report this."""
    stops_after: int = 0
    """Seconds without a renewal after which the holder has stopped to write; 0 if the Lease does not have the number."""
    version: str = ""
    """The resourceVersion, "" if unknown."""


@dataclass(slots=True)
class _Member:
    lease: MemberLease
    changed_at: float
    """When this replica saw the record change."""
    looked_at: float
    """When it last requested the record, and got it."""
    renewed: bool = True
    """Whether this replica has seen its record change, or its first record."""
    marked: bool = True
    """Whether its Lease shows now that it has joined."""
    deleted: bool = False
    """Whether its Lease was deleted after its end."""
    joins_at: float = -math.inf
    """When the member is counted; infinity until that time has passed."""
    state: MemberState = field(default=MemberState.READY)


class Membership:
    """The ring as one replica sees it.

    >>> ring = Membership(ShardingSettings(mode="hash"))
    >>> ring.observe("a", MemberLease(LeaseRecord(holder="a", duration=15)), now=100.0)
    >>> ring.live(), ring.live(103.0)
    ((), ('a',))
    """

    def __init__(self, settings: ShardingSettings) -> None:
        self._settings = settings
        self._members: dict[str, _Member] = {}
        self._joins_at = math.inf
        self._joins_by = math.inf
        """The latest time for counting the members that wait now, however many follow."""
        self._listed_at = -math.inf
        """When the newest list of all Leases was requested."""
        self._absence_due = math.inf
        """When the next list is due that may prove names absent."""
        self._absences_until = -math.inf
        """When the last awaited list is due."""

    # --- observations --------------------------------------------------------------------------------------------------------

    def observe(self, name: str, lease: MemberLease, now: float, *, initial: bool = False, alone: bool = False) -> None:
        """Record a Lease that arrived at `now`; a Lease older than the last is ignored.

        `initial`: its member is older than this replica's. `alone`: no other process may take part, so its member is counted at once.
        """
        member = self._members.get(name)
        if member is None:
            member = self._members[name] = _Member(lease, now, now, renewed=not initial)
            if not initial:
                member.joins_at = math.inf
                if lease.joined:
                    self._count_soon(now)
        if _is_older(lease, member.lease):
            return
        if member.lease.record != lease.record:
            member.changed_at, member.looked_at, member.renewed = now, now, True
        if not member.lease.joined:
            member.joins_at = math.inf
            if lease.joined:
                self._count_soon(now)
        # A joined member stays joined, whatever another writer removes from its Lease.
        member.marked = lease.joined
        member.lease = replace(lease, joined=lease.joined or member.lease.joined)
        if alone and member.lease.joined:
            member.joins_at = min(member.joins_at, now)
        self._judge(member)

    def _count_soon(self, now: float) -> None:
        """Count the joined members `join_seconds` from now, so that further members are counted with them."""
        join = self._settings.join_seconds
        self._joins_by = min(self._joins_by, now + _LONGEST_JOIN * join)
        self._joins_at = min(now + join, self._joins_by)

    def observe_all(self, leases: Mapping[str, MemberLease], *, asked: float, now: float) -> None:
        """Record a complete list of Leases, requested at that time and received at `now`; members absent from it have no Lease."""
        for name, lease in leases.items():
            self.observe(name, lease, now)
        for member in self._members.values():
            member.looked_at = max(member.looked_at, asked)
            self._judge(member)
        self._listed_at = max(self._listed_at, asked)
        if self._absence_due <= self._listed_at + _ROUNDING:
            awaited = self._absences_until > self._listed_at
            self._absence_due = self._listed_at + self._settings.retry_seconds if awaited else math.inf

    def forget(self, name: str) -> None:
        """Forget a member."""
        self._members.pop(name, None)

    def note_deletion(self, name: str) -> None:
        """Record the deletion of a Lease: a member that released it or died stays so, and any other member creates its Lease again."""
        member = self._members.get(name)
        if member is not None and member.state.gone:
            member.deleted = True

    def _duration(self, member: _Member) -> float:
        return max(member.lease.record.duration, self._settings.lease_seconds)

    def _dead_after(self, member: _Member) -> float:
        """Return the age of a dead member's Lease: more than twice the seconds after which it has stopped to write, in each case.

        A member that this replica saw renew its Lease gets a second duration.
        """
        longest = 2 * self._duration(member)
        if member.renewed or not member.lease.stops_after:
            return longest
        return min(longest, 2 * max(member.lease.stops_after, self._settings.renew_seconds))

    def _judge(self, member: _Member) -> None:
        if member.state.gone:
            return
        before, age = member.state, _age(member)
        if member.lease.record.released:
            member.state = MemberState.RELEASED
        elif age >= self._dead_after(member):
            member.state = MemberState.DEAD
        elif member.lease.draining:
            member.state = MemberState.DRAINING
        else:
            member.state = MemberState.EXPIRED if age >= self._duration(member) else MemberState.READY
        if member.state is not before and (member.state.gone or member.state is MemberState.DRAINING):
            self._joins_at = -math.inf  # objects move anyway: joining members are counted at once

    # --- conclusions ---------------------------------------------------------------------------------------------------------

    def state_of(self, name: str) -> MemberState:
        """Return the state of a member; UNKNOWN for a name without a Lease."""
        member = self._members.get(name)
        return MemberState.UNKNOWN if member is None else member.state

    def is_absent(self, name: str, since: float) -> bool:
        """Return whether a name that is unknown since `since` belongs to no live member.

        A live member creates its deleted Lease again. So a name without a Lease counts as a Lease that is never renewed.
        """
        return name not in self._members and self._listed_at + _ROUNDING >= self._proof_of_absence(since)

    def await_absence(self, since: float) -> bool:
        """Schedule the list that can prove names absent that are unknown since `since`; returns whether a list is due sooner now.

        However many names there are, the lists for them are `retry_seconds` apart.
        """
        due, before = self._proof_of_absence(since), self._absence_due
        self._absences_until = max(self._absences_until, due)
        self._absence_due = min(before, max(due, self._listed_at + self._settings.retry_seconds))
        return self._absence_due < before

    def absence_due(self, since: float) -> float:
        """Return when the next list is due that can prove names absent that are unknown since `since`."""
        return max(self._proof_of_absence(since), self._absence_due)

    def _proof_of_absence(self, since: float) -> float:
        return since + 2 * self._settings.lease_seconds

    def live(self, now: float = -math.inf) -> tuple[str, ...]:
        """Return the members that share the objects, in the order of their names."""
        if now >= self._joins_at:
            for member in self._members.values():
                if member.lease.joined:
                    member.joins_at = min(member.joins_at, now)
            self._joins_at = self._joins_by = math.inf
        return tuple(
            sorted(
                name
                for name, member in self._members.items()
                if member.state in (MemberState.READY, MemberState.EXPIRED) and member.joins_at < math.inf
            )
        )

    def states(self) -> dict[str, MemberState]:
        """Return the state of each member, by its name."""
        return {name: member.state for name, member in self._members.items()}

    def look_at(self, now: float) -> float:
        """Return when to list the Leases or to count joining members next; infinity if never."""
        due = min(self._joins_at, self._absence_due)
        for member in self._members.values():
            if not member.state.gone:
                for limit in sorted((self._duration(member), self._dead_after(member))):
                    if _age(member) < limit:
                        due = min(due, member.changed_at + limit)
                        break
        return max(due, now)

    def has_judged_all(self) -> bool:
        """Return whether every earlier member was seen to renew its Lease, has released it, or is dead.

        Members that have not joined own nothing, so no newcomer waits for them.
        """
        return all(member.renewed or member.state.gone or not member.lease.joined for member in self._members.values())

    def is_alone(self, name: str) -> bool:
        """Return whether this replica has seen no other process that may take part in the ring."""
        return all(member.state.gone for other, member in self._members.items() if other != name)

    def has_joined(self, name: str) -> bool:
        """Return whether a member's Lease has ever had the mark of a joined member."""
        member = self._members.get(name)
        return member is not None and member.lease.joined

    def is_marked(self, name: str) -> bool:
        """Return whether a member's Lease has the mark of a joined member now."""
        member = self._members.get(name)
        return member is not None and member.marked

    def unreleased(self) -> dict[str, MemberLease]:
        """Return the Leases of dead members that still name a holder, by the names of their members."""
        return {
            name: member.lease
            for name, member in self._members.items()
            if member.state is MemberState.DEAD and not member.deleted and not member.lease.record.released
        }

    def outdated(self, now: float, seconds: float) -> tuple[str, ...]:
        """Return the members that have been dead or released for so many seconds: their Leases can be deleted."""
        return tuple(
            name
            for name, member in self._members.items()
            if self._gone_for(member, now) > seconds and not member.deleted
        )

    def forget_gone(self, now: float, seconds: float) -> tuple[str, ...]:
        """Forget the members that have been dead or released for so many seconds and whose Leases were deleted; returns their names."""
        names = tuple(
            name for name, member in self._members.items() if self._gone_for(member, now) > seconds and member.deleted
        )
        for name in names:
            self.forget(name)
        return names

    @staticmethod
    def _gone_for(member: _Member, now: float) -> float:
        return now - member.changed_at if member.state.gone else -math.inf


def _is_older(lease: MemberLease, other: MemberLease) -> bool:
    return bool(lease.version and other.version) and (compare_versions(lease.version, other.version) or 0) < 0


def _age(member: _Member) -> float:
    """Return the age of a Lease; a read at the very moment when it is due counts, although sums of floats may be a little less."""
    return member.looked_at - member.changed_at + _ROUNDING
