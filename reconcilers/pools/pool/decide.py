"""Which unassigned instances of a pool are deleted, and how many are created. Pure.

`decide_pool` takes one observation and returns a plan. The order of its rules:

1. A missing profile, or a namespace that is not ours: nothing is created or deleted.
2. Too many instances: failed instances are deleted first, then the oldest.
3. Replacement of failed instances (with backoff), and of stale, expired and misplaced instances: so many at a time that at most a quarter
   of the pool, or one instance, is not ready because of it.
4. Too few instances: as many are created as the window still allows.

Guarantees: an instance that was taken is never deleted. In no window more than the allowed number is created, whatever the cache shows and
whenever the process restarts: `recent` has the creations of the status and all creations that this process did or saw, the members show the
rest, and a member of the window is deleted only after the status has its creation.

Caveats: after a crash between a creation and the next write of the status, an instance that another program deletes before any process has
seen it does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from konverge.crds.pools_v1alpha1 import MIN_UNASSIGNED_AGE
from konverge.reconcilers.pools.members import PROVISIONED, Member
from konverge.reconcilers.pools.words import InstancePhase
from konverge.reconcilers.shared.delays import READ_AGAIN

__all__ = ["PoolCounts", "PoolLimits", "PoolPlan", "PoolState", "Removal", "age_limits", "counts_of", "decide_pool"]

_SHARE: Final = 4
"""A quarter of the pool is replaced at a time."""
_JITTER: Final = 0.1
"""Instances that were created together expire over a tenth of their age."""
_FAR: Final = timedelta(days=7)
"""The longest time until a pool is reconciled again."""
_OLDEST_FIRST: Final = attrgetter("created", "name")

EXCESS: Final = "excess"
FAILED: Final = "failed"
STALE: Final = "made with another profile"
EXPIRED: Final = "too old"
MISPLACED: Final = "in a former namespace of the pool's instances"


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The limits of the settings."""

    creates: int = 10
    window: timedelta = timedelta(seconds=60)
    deadline: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool as it was observed."""

    replicas: int
    members: tuple[Member, ...] = ()
    assigned: int = 0
    """How many Nextclouds have an instance of the pool."""
    digest: str | None = ""
    """The digest of its profile; "" without one, None if it is missing."""
    observed_digest: str | None = None
    """The digest in the status; None if none was recorded yet."""
    recreate: bool = False
    max_age: timedelta = timedelta(hours=168)
    recent: tuple[tuple[str, datetime], ...] = ()
    """Name and time of the creations that this process did or saw, or that the status has, also of deleted instances."""
    recorded: frozenset[str] = frozenset()
    """The names of the creations in the status."""
    replace_after: datetime | None = None
    """Until when failed instances are not replaced."""
    refusal: str = ""
    """Why no instance may be in the namespace of the pool; "" if instances may be."""


@dataclass(frozen=True, slots=True)
class Removal:
    """An instance to delete, and why."""

    member: Member
    why: str


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """The members of a pool by state."""

    ready: int = 0
    provisioning: int = 0
    failed: int = 0
    unassigned: int = 0
    assigned: int = 0


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The creations and deletions that a pool needs."""

    create: int = 0
    delete: tuple[Removal, ...] = ()
    counts: PoolCounts = field(default_factory=PoolCounts)
    digest: str | None = None
    """The digest to record; None leaves the recorded one."""
    stale: int = 0
    """How many instances are still to be replaced."""
    again: timedelta | None = None
    """When the plan changes without an event, by time."""


def counts_of(members: tuple[Member, ...], now: datetime, limits: PoolLimits, assigned: int = 0) -> PoolCounts:
    """Count the members by state, without members that are being deleted or have a claim."""
    free = _free(members)
    unready = _unready(free)
    failed = len(_failed(unready, now, limits))
    return PoolCounts(
        ready=len(free) - len(unready),
        provisioning=len(unready) - failed,
        failed=failed,
        unassigned=len(free),
        assigned=assigned,
    )


# These lists and the loops over `free` below call no Python code for a ready member: a pool may have 10,000.


def _free(members: Iterable[Member]) -> list[Member]:
    return [member for member in members if not member.taken and not member.deleting]


def _unready(free: list[Member]) -> list[Member]:
    ready = InstancePhase.READY
    return [member for member in free if member.phase != ready]


def _failed(unready: list[Member], now: datetime, limits: PoolLimits) -> list[Member]:
    return [member for member in unready if member.failed(now, limits.deadline)]


def age_limits(members: Iterable[Member], max_age: timedelta) -> list[timedelta]:
    """Return the age limit of each instance: up to a tenth below `max_age`, derived from its UID."""
    return [max_age * (1 - _JITTER * member.spread) for member in members]


def decide_pool(state: PoolState, now: datetime, limits: PoolLimits) -> PoolPlan:
    """Return the plan for a pool."""
    counts = counts_of(state.members, now, limits, state.assigned)
    if state.digest is None or state.refusal:
        return PoolPlan(counts=counts)
    free = _free(state.members)
    unready = _unready(free)
    failed = _failed(unready, now, limits)
    stale = _stale(free, state)
    digest = None if _roll_is_open(stale, state) else state.digest
    moments: list[timedelta] = []
    removals = _excess(free, failed, state.replicas)
    if not removals:
        removals = _replaced(free, failed, {member.uid for member in stale}, state, now, moments)
    recorded = [removal for removal in removals if not _is_unrecorded(removal.member, state, now - limits.window)]
    if len(recorded) < len(removals):
        moments.append(READ_AGAIN)
    removed = {removal.member.uid for removal in recorded}
    missing = state.replicas - (len(free) - len(removed))
    left, refill = _tokens(state, now, limits)
    if missing > left:
        moments.append(refill)
    moments += [
        limits.deadline - (now - member.waits_since)  # not a moment: it may be after the last year of a calendar
        for member in unready
        if member.uid not in removed and member.waits_since is not None and not member.failed(now, limits.deadline)
    ]
    return PoolPlan(
        create=max(0, min(missing, left)),
        delete=tuple(recorded),
        counts=counts,
        digest=digest,
        stale=len(stale),
        again=min((moment for moment in moments if moment > timedelta(0)), default=None),
    )


def _is_unrecorded(member: Member, state: PoolState, since: datetime) -> bool:
    """Whether deleting the member now would hide its creation, within the window, from the next process."""
    return member.created > since and member.name not in state.recorded


def _stale(free: list[Member], state: PoolState) -> list[Member]:
    """Return the members that were created with another profile; a member without a stamp is as old as the recorded digest."""
    wanted = state.digest
    unstamped = wanted if state.observed_digest is None else state.observed_digest
    return [member for member in free if (member.stamp or unstamped) != wanted]


def _roll_is_open(stale: list[Member], state: PoolState) -> bool:
    """Whether the recorded digest is still needed to recognize members without a stamp as stale."""
    return state.recreate and state.observed_digest is not None and any(not member.stamp for member in stale)


def _excess(free: list[Member], failed: list[Member], replicas: int) -> list[Removal]:
    number = len(free) - replicas
    if number <= 0:
        return []
    known = {member.uid for member in failed}
    others = [member for member in free if member.uid not in known]
    order = [*sorted(failed, key=_OLDEST_FIRST), *sorted(others, key=_OLDEST_FIRST)]
    return [Removal(member, EXCESS) for member in order[:number]]


def _replaced(
    free: list[Member],
    failed: list[Member],
    stale: set[str],
    state: PoolState,
    now: datetime,
    moments: list[timedelta],
) -> list[Removal]:
    removals: list[Removal] = []
    if failed and state.replace_after is not None and state.replace_after > now:
        moments.append(state.replace_after - now)
    else:
        removals = [Removal(member, FAILED) for member in sorted(failed, key=_OLDEST_FIRST)]
    known = {member.uid for member in failed}
    others = [member for member in free if member.uid not in known] if known else free
    recreated = stale if state.recreate else set[str]()
    unwanted = [member for member in others if member.misplaced or member.uid in recreated]
    unwanted += _expired(
        [member for member in others if not member.misplaced and member.uid not in recreated],
        state.max_age,
        now,
        moments,
    )
    unwanted.sort(key=_OLDEST_FIRST)
    unready = _unready(unwanted)
    budget = max(1, state.replicas // _SHARE)
    unavailable = max(0, state.replicas - (len(free) - len(_unready(free))) - len(unready))
    # Instances that are not ready are deleted first: to replace them costs nothing.
    ready = InstancePhase.READY
    order = [*unready, *[member for member in unwanted if member.phase == ready]]
    return removals + [
        Removal(member, MISPLACED if member.misplaced else STALE if member.uid in stale else EXPIRED)
        for member in order[: max(0, budget - unavailable)]
    ]


def _expired(members: list[Member], max_age: timedelta, now: datetime, moments: list[timedelta]) -> list[Member]:
    """Return the members that are too old, and add the time until the next member is."""
    if max_age <= timedelta(0):
        return []
    # A pool that was stored before the definition refused less would be replaced without end.
    longest, nothing = max(max_age, MIN_UNASSIGNED_AGE), timedelta(0)
    provisioned = PROVISIONED  # an instance that is not ready yet has the deadline of failed instances
    known = [member for member in members if member.phase in provisioned]
    left = [
        (limit - (now - member.created), member)
        for limit, member in zip(age_limits(known, longest), known, strict=True)
    ]
    later = [time for time, _ in left if time > nothing]
    if later:
        moments.append(min(*later, _FAR))
    return [member for time, member in left if time <= nothing]


def _tokens(state: PoolState, now: datetime, limits: PoolLimits) -> tuple[int, timedelta]:
    """Return how many instances may be created now, and when that number grows."""
    since = now - limits.window
    moments = {member.name: member.created for member in state.members if member.created > since}
    for name, moment in state.recent:
        # A name is recorded before its instance exists: the later time is nearer to the creation.
        moments[name] = max(moment, moments.get(name, moment))
    used = sorted(moment for moment in moments.values() if moment > since)
    left = max(0, limits.creates - len(used))
    # A timestamp of the API has whole seconds: one more second separates a window's creations from the next window's.
    return left, (limits.window - (now - used[0]) + timedelta(seconds=1) if used else limits.window)
