"""The members of a ring, by what this replica saw of their Leases. Pure: a value of the loop's clock is an argument of each method.

    a new Lease            joining; counted `join_seconds` after the last that joined, at most five times as long after the first of those
                           that wait, or at once when a member leaves
    renewed in time        ready
    unchanged for 15 s     expired: it keeps its objects
    unchanged for 30 s     dead, for good
    annotated              draining: it keeps its objects until its release
    released               released, for good
    deleted by hand        as unchanged: a member that is alive creates it again
    no Lease was seen      unknown; absent if a list that is two durations younger than the question shows no Lease either

Guarantees: the age of a Lease counts from the moment when this replica saw it change to the moment when it asked the API server for it and
got it unchanged. Times of the record are never compared with a clock, and a watch that brings nothing makes no member dead. Only a Lease
makes a member: a name in a stamp, which any writer of the object may forge, takes no memory here, and all names together cause one list
each `retry_seconds`.

Source of the states: https://github.com/timebertt/kubernetes-controller-sharding/blob/main/pkg/sharding/leases/state.go
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from konverge.runtime.election.record import LeaseRecord
from konverge.runtime.sharding.decision import MemberState
from konverge.runtime.sharding.settings import ShardingSettings

__all__ = ["Membership"]

_ROUNDING = 1e-6
_LONGEST_JOIN = 5
"""Times `join_seconds` for which a member that joins waits at most: one that starts again and again must not keep others out for ever."""


@dataclass(slots=True)
class _Member:
    record: LeaseRecord
    changed_at: float
    """When this replica saw the record change."""
    looked_at: float
    """When it last asked for the record, and got it."""
    draining: bool = False
    joins_at: float = -math.inf
    """When it is counted; infinity while others join too."""
    state: MemberState = field(default=MemberState.READY)


class Membership:
    """The ring as one replica sees it.

    >>> ring = Membership(ShardingSettings(mode="hash"))
    >>> ring.observe("a", LeaseRecord(holder="a", duration=15), now=100.0)
    >>> ring.live(), ring.live(103.0)
    ((), ('a',))
    """

    def __init__(self, settings: ShardingSettings) -> None:
        self._settings = settings
        self._members: dict[str, _Member] = {}
        self._joins_at = math.inf
        self._joins_by = math.inf
        """The latest time at which those that wait now are counted, however many follow."""
        self._listed_at = -math.inf
        """When the newest list of all Leases was asked for."""
        self._absence_due = math.inf
        """When the next list is due that may prove names absent."""
        self._absences_until = -math.inf
        """When the last list is due that was awaited."""

    # --- what was seen -------------------------------------------------------------------------------------------------------

    def observe(
        self, name: str, record: LeaseRecord, now: float, *, draining: bool = False, initial: bool = False
    ) -> None:
        """Take note of a Lease that came at `now`. `initial`: its member was there before this one."""
        member = self._members.get(name)
        if member is None:
            member = self._members[name] = _Member(record, now, now)
            if not initial:
                member.joins_at = math.inf
                join = self._settings.join_seconds
                self._joins_by = min(self._joins_by, now + _LONGEST_JOIN * join)
                self._joins_at = min(now + join, self._joins_by)
        if member.record != record:
            member.record, member.changed_at, member.looked_at = record, now, now
        member.draining = draining
        self._judge(member)

    def observe_all(self, leases: Mapping[str, tuple[LeaseRecord, bool]], *, asked: float, now: float) -> None:
        """Take note of all Leases as they were when they were asked for, and came at `now`; members that are left out have none."""
        for name, (record, draining) in leases.items():
            self.observe(name, record, now, draining=draining)
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

    def _duration(self, member: _Member) -> float:
        return max(member.record.duration, self._settings.lease_seconds)

    def _judge(self, member: _Member) -> None:
        if member.state.gone:
            return
        before, age, duration = member.state, _age(member), self._duration(member)
        if member.record.released:
            member.state = MemberState.RELEASED
        elif age >= 2 * duration:
            member.state = MemberState.DEAD
        elif member.draining:
            member.state = MemberState.DRAINING
        else:
            member.state = MemberState.EXPIRED if age >= duration else MemberState.READY
        if member.state is not before and (member.state.gone or member.state is MemberState.DRAINING):
            self._joins_at = -math.inf  # objects move anyway: those that join are counted at once

    # --- what follows --------------------------------------------------------------------------------------------------------

    def state_of(self, name: str) -> MemberState:
        """Return the state of a member; UNKNOWN for a name without a Lease."""
        member = self._members.get(name)
        return MemberState.UNKNOWN if member is None else member.state

    def is_absent(self, name: str, since: float) -> bool:
        """Return whether an unknown name belongs to no live member, if it was unknown `since` then.

        A member that is alive creates a deleted Lease again. So a name without a Lease counts as a Lease that is never renewed.
        """
        return name not in self._members and self._listed_at + _ROUNDING >= self._proof_of_absence(since)

    def await_absence(self, since: float) -> bool:
        """Let `look_at` ask for the list that proves names absent which are unknown `since` then; returns whether it is due sooner now.

        However many names there are, the lists for them are `retry_seconds` apart.
        """
        due, before = self._proof_of_absence(since), self._absence_due
        self._absences_until = max(self._absences_until, due)
        self._absence_due = min(before, max(due, self._listed_at + self._settings.retry_seconds))
        return self._absence_due < before

    def absence_due(self, since: float) -> float:
        """Return when the next list is due that may prove names absent which are unknown `since` then."""
        return max(self._proof_of_absence(since), self._absence_due)

    def _proof_of_absence(self, since: float) -> float:
        return since + 2 * self._settings.lease_seconds

    def live(self, now: float = -math.inf) -> tuple[str, ...]:
        """Return the members that objects are shared among, in the order of their names."""
        if now >= self._joins_at:
            for member in self._members.values():
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
        """Return the time at which the Leases have to be asked for, or those that join are counted; infinity if nothing is to be done."""
        due = min(self._joins_at, self._absence_due)
        for member in self._members.values():
            if not member.state.gone:
                duration = self._duration(member)
                for limit in (duration, 2 * duration):
                    if _age(member) < limit:
                        due = min(due, member.changed_at + limit)
                        break
        return max(due, now)

    def outdated(self, now: float, seconds: float) -> tuple[str, ...]:
        """Return the members that have been gone for so many seconds, whose Leases can be deleted."""
        return tuple(name for name, one in self._members.items() if one.state.gone and now - one.changed_at > seconds)


def _age(member: _Member) -> float:
    """Return the age of a Lease; a look at the very moment when it is due counts, although sums of floats may be a little less."""
    return member.looked_at - member.changed_at + _ROUNDING
