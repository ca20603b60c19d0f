"""Taking a turn: the compare-and-swap of a target's Lease; `turns.py` holds its form."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import from_rfc3339, rfc3339
from konverge.errors import AlreadyExists, Conflict
from konverge.objects import Metadata, Object
from konverge.reconcilers.apps.operations.conflicts import TERMINAL, Contestant
from konverge.reconcilers.apps.operations.kinds import INSTANCE, VIEW
from konverge.reconcilers.apps.operations.turns import (
    LEASE,
    UNCONFIRMED,
    Holder,
    holders_of,
    lease_name,
    with_holders,
)

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["Taken", "give_turn_back", "take_turn"]

_TRIES: Final = 4
_FRESH: Final = timedelta(minutes=1)
"""An own entry that is older is written anew: another process may be about to drop it as unconfirmed."""
_LOOK_AGAIN: Final = timedelta(seconds=30)
"""After this time the Lease is read again because of a holder that has not started: it may give its turn back without an event."""

Taken = tuple[str, timedelta | None]
"""The name of the Operation that has the turn, "" for this one; and when to look again if no event may come."""


async def _left(holder: Holder, namespace: str, ctx: Context[Any]) -> timedelta | None:
    """Return for how long a holder counts at least: None if it has no end that time brings, zero if it no longer counts."""
    cached = ctx.cache(VIEW).find(namespace, holder.name)
    if cached is None or cached.metadata.uid != holder.uid or not cached.status.get("startedAt"):
        cached = await ctx.live(VIEW).find(namespace, holder.name)
    if cached is None or cached.metadata.uid != holder.uid or cached.status.get("phase") in TERMINAL:
        return timedelta(0)
    if cached.status.get("startedAt"):
        return None
    return _unconfirmed(from_rfc3339(holder.since), ctx.now())


def _unconfirmed(since: datetime, now: datetime) -> timedelta:
    """Return for how long the entry of an Operation that has not started still counts: one from far in the future does not."""
    left = (since - now) + UNCONFIRMED  # not since + UNCONFIRMED, which may be beyond the calendar
    return left if timedelta(0) < left <= 2 * UNCONFIRMED else timedelta(0)


async def take_turn(mine: Contestant, namespace: str, instance: Object, ctx: Context[Any]) -> Taken:
    """Add the Operation to the holders of its target, unless one that it excludes is there.

    Raises Conflict or AlreadyExists after several races.
    """
    name = lease_name(instance.name)
    for attempt in range(_TRIES):
        lease = await ctx.live(LEASE).find(namespace, name)
        holders, kept = holders_of(lease), list[Holder]()
        for holder in holders:
            if holder.uid == mine.uid:
                if _unconfirmed(from_rfc3339(holder.since), ctx.now()) > UNCONFIRMED - _FRESH:
                    kept.append(holder)
                continue
            left = await _left(holder, namespace, ctx)
            if left == timedelta(0):
                continue
            if holder.excludes(mine):
                return holder.name, None if left is None else min(left, _LOOK_AGAIN)
            kept.append(holder)
        if any(holder.uid == mine.uid for holder in kept):
            return "", None
        entry = Holder(mine.uid, mine.name, mine.type, mine.exclusive, rfc3339(ctx.now()))
        stored = with_holders(lease, (*kept, entry), name=name, namespace=namespace, owner=_owner(instance))
        try:
            await (ctx.client.create(stored) if lease is None else ctx.client.replace(stored))
        except (AlreadyExists, Conflict):
            if attempt == _TRIES - 1:
                raise
        else:
            return "", None
    raise AssertionError("the last try returns or raises")


async def give_turn_back(operation: Metadata, target: str, ctx: Context[Any]) -> None:
    """Remove the Operation from the holders of its target, after its status has told so.

    An entry that stays (a crash in between, several races) counts for `UNCONFIRMED`.
    """
    for _ in range(_TRIES):
        lease = await ctx.live(LEASE).find(operation.namespace, lease_name(target))
        holders = holders_of(lease)
        kept = [holder for holder in holders if holder.uid != operation.uid]
        if lease is None or len(kept) == len(holders):
            return
        try:
            await ctx.client.replace(
                with_holders(lease, kept, name=lease.name, namespace=operation.namespace, owner=None)
            )
        except Conflict:
            continue
        return


def _owner(instance: Object) -> dict[str, Any]:
    """The Lease goes with its target; the instance does not control it."""
    return {
        "apiVersion": INSTANCE.api_version,
        "kind": INSTANCE.kind,
        "name": instance.name,
        "uid": instance.metadata.uid,
    }
