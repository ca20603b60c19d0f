"""The hold on a target: the compare-and-swap that adds an Operation to a namespace's Lease; `turns.py` has the format of the Lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from konverge.clock import from_rfc3339, rfc3339
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import AlreadyExists, Conflict
from konverge.objects import Metadata, Object
from konverge.outcome import RequeueAfter
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.delays import LOOK_AGAIN
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked
from konverge.reconcilers.apps.operations.kinds import VIEW
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.waiting.conflicts import TERMINAL, Contestant, blocker, contestant_of
from konverge.reconcilers.apps.operations.waiting.decide import conflict
from konverge.reconcilers.apps.operations.waiting.turns import (
    LEASE,
    UNCONFIRMED,
    Holder,
    holders_of,
    lease_name,
    with_holders,
)
from konverge.reconcilers.apps.operations.words import BlockedReason

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["TargetKey", "give_turn_back", "take_turn", "turn_since"]

_TRIES: Final = 8
"""Operations of one namespace write one Lease, as many at once as there are workers."""
_FRESH: Final = timedelta(minutes=1)
"""An older own entry is written again: another process may be about to drop it as unconfirmed."""


@dataclass(frozen=True, slots=True)
class TargetKey:
    """Namespace and name of a target."""

    namespace: str
    name: str


async def _left(holder: Holder, target: TargetKey, ctx: Context[Operation]) -> timedelta | None:
    """Return for how long a holder counts at least: None if only an event ends it, zero if it no longer counts."""
    unconfirmed = _unconfirmed(from_rfc3339(holder.since), ctx.now())
    cached = ctx.cache(VIEW).find(target.namespace, holder.name)
    if cached is not None and cached.metadata.uid != holder.uid:
        cached = None
    if holder.target != target.name and unconfirmed > timedelta(0) and not (cached is not None and _ended(cached)):
        return unconfirmed  # nothing depends on it here: no read
    if cached is None or not cached.status.get("startedAt"):
        cached = await ctx.live(VIEW).find(target.namespace, holder.name)
    if cached is None or cached.metadata.uid != holder.uid or _ended(cached):
        return timedelta(0)
    return None if cached.status.get("startedAt") else unconfirmed


def _ended(operation: Object) -> bool:
    return operation.status.get("phase") in TERMINAL


def _unconfirmed(since: datetime, now: datetime) -> timedelta:
    """Return for how long the entry of an Operation that has not started still counts: an entry from far in the future does not."""
    left = (since - now) + UNCONFIRMED  # not since + UNCONFIRMED, which may be beyond the calendar
    return left if timedelta(0) < left <= 2 * UNCONFIRMED else timedelta(0)


async def take_turn(mine: Contestant, target: TargetKey, home: str, ctx: Context[Operation]) -> OpPlan | None:
    """Add the Operation to the holders of its namespace's Lease; returns the plan of an Operation that has to wait for another.

    Raises Conflict or AlreadyExists after several races.
    """
    name = lease_name(target.namespace)
    for attempt in range(_TRIES):
        lease = await ctx.live(LEASE).find(home, name)
        if lease is None:
            plan = await _behind_an_earlier_release(mine, target, ctx)
            if plan is not None:
                return plan
        kept = list[Holder]()
        for holder in holders_of(lease):
            if holder.uid == mine.uid:
                if _unconfirmed(from_rfc3339(holder.since), ctx.now()) > UNCONFIRMED - _FRESH:
                    kept.append(holder)
                continue
            left = await _left(holder, target, ctx)
            if left == timedelta(0):
                continue
            if holder.excludes(mine, target.name):
                # A holder that has not started may release the target without an event.
                return conflict(holder.name, None if left is None else min(left, LOOK_AGAIN))
            kept.append(holder)
        if any(holder.uid == mine.uid for holder in kept):
            return None
        entry = Holder(mine.uid, mine.name, target.name, mine.type, mine.exclusive, rfc3339(ctx.now()))
        stored = with_holders(lease, (*kept, entry), name=name, namespace=home)
        if stored is None:
            message = "too many Operations run in this namespace at once; it starts when some of them have ended"
            blocked = EngineBlocked(BlockedReason.CONFLICTING_OPERATION, message)
            return report.waiting(blocked, outcome=RequeueAfter(LOOK_AGAIN))
        try:
            await (ctx.client.create(stored) if lease is None else ctx.client.replace(stored))
        except (AlreadyExists, Conflict):
            if attempt == _TRIES - 1:
                raise
        else:
            return None
    raise AssertionError("the last try returns or raises")


async def _behind_an_earlier_release(mine: Contestant, target: TargetKey, ctx: Context[Operation]) -> OpPlan | None:
    """Return the plan behind an Operation that runs without an entry.

    A release that kept its Leases elsewhere started it, or the Lease was deleted. The list is live, because the cache may not show yet the
    Operations that another process started.
    """
    stored = (await ctx.client.list(VIEW, target.namespace)).items
    others = (other for other in stored if other.get("spec", "targetRef", "name") == target.name)
    running = blocker(mine, map(contestant_of, others))
    return None if running is None else conflict(running.name, LOOK_AGAIN)


async def turn_since(operation: Operation, home: str, ctx: Context[Operation]) -> datetime | None:
    """Return since when the Lease records the Operation as a holder of the target that it names; None without a record."""
    lease = await ctx.live(LEASE).find(home, lease_name(operation.namespace))
    for holder in holders_of(lease):
        if (holder.uid, holder.target) == (operation.metadata.uid, operation.spec.target_ref.name):
            return from_rfc3339(holder.since)
    return None


async def give_turn_back(operation: Metadata, home: str, ctx: Context[Operation]) -> None:
    """Remove the Operation from the holders of its namespace's Lease, after its status has reported that.

    An entry that stays (a crash in between, several races) counts for `UNCONFIRMED`.
    """
    name = lease_name(operation.namespace)
    for _ in range(_TRIES):
        lease = await ctx.live(LEASE).find(home, name)
        holders = holders_of(lease)
        kept = [holder for holder in holders if holder.uid != operation.uid]
        stored = with_holders(lease, kept, name=name, namespace=home)
        if lease is None or stored is None or len(kept) == len(holders):
            return
        try:
            await ctx.client.replace(stored)
        except Conflict:
            continue
        return
