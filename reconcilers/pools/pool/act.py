"""Writes to the instances of a pool. The next decision needs their results, so no plan holds them.

Guarantees: each write carries UID and resourceVersion of the instance as it was read, so a claim that was faster wins. A lost race does not
keep the other writes from being sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from konverge.crds.pools_v1alpha1 import NextcloudPool
from konverge.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound, ObjectChanged
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.members import Member, member_of
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.pool.decide import EXCESS, Removal
from konverge.reconcilers.pools.pool.memory import PoolMemory
from konverge.reconcilers.pools.pool.observe import ObservedNextcloudPool
from konverge.reconcilers.pools.pool.render import new_member
from konverge.reconcilers.pools.words import PoolsEvent
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["Creations", "create_instances", "delete_instances", "reset_marks"]

_REFUSALS: Final = (BadRequest, Forbidden, Invalid, NotFound)


@dataclass(frozen=True, slots=True)
class Creations:
    """The UIDs of the created instances, and the API server's refusal, "" without a refusal."""

    uids: tuple[str, ...] = ()
    refused: str = ""


async def reset_marks(
    observed: ObservedNextcloudPool, ctx: Context[NextcloudPool]
) -> tuple[ObservedNextcloudPool, bool]:
    """Reset the labels and annotations of members; returns the members after that, and whether a member had changed."""
    edited = [member for member in observed.census.members if member.corrections]
    if not edited:
        return observed, False
    changed, corrected = False, dict[str, Member]()
    for member in edited:
        metadata, marks = member.metadata, member.corrections
        try:
            stored = await ctx.patch(INSTANCE, expect=metadata, patch={"metadata": marks})
        except ObjectChanged:
            changed = True
            continue
        corrected[member.uid] = member_of(stored, ctx.now(), observed.record.namespace)
        keys = sorted(key for part in marks.values() for key in part)
        message = f"set back {', '.join(keys)} of {metadata.name}: only the operator writes them on a member of a pool"
        if metadata.uid in observed.record.uids:
            ctx.event_about(INSTANCE, metadata, PoolsEvent.MARKS_CORRECTED, message, type_=EventType.WARNING)
    members = tuple([corrected.get(member.uid, member) for member in observed.census.members])
    return replace(observed, census=replace(observed.census, members=members)), changed


async def delete_instances(removals: Iterable[Removal], ctx: Context[NextcloudPool]) -> bool:
    """Delete exactly these instances; returns whether an instance had changed: a claim took it, or its status changed."""
    changed = False
    for removal in removals:
        member = removal.member
        try:
            deleted = await ctx.delete(INSTANCE, expect=member.metadata)
        except ObjectChanged:
            changed = True
            continue
        if deleted and removal.why != EXCESS:
            ctx.event(PoolsEvent.INSTANCE_REPLACED, f"{member.name} is replaced: {removal.why}")
    return changed


async def create_instances(
    observed: ObservedNextcloudPool, number: int, memory: PoolMemory, metrics: PoolMetrics, ctx: Context[NextcloudPool]
) -> Creations:
    """Create up to so many instances whose names the status has, until the API server refuses an instance."""
    pool = observed.pool
    names = [name for name in memory.nominations if name in observed.record.digests]
    uids: list[str] = []
    for name in names[:number]:
        try:
            uid = await _create(observed, name, memory, ctx)
        except _REFUSALS as error:
            del memory.created[name]
            metrics.refused.labels(pool.name).inc()
            # The same text for each name: no write of the status.
            return Creations(tuple(uids), error.message.replace(name, "a new instance"))
        del memory.nominations[name]
        if uid:
            metrics.creates.labels(pool.name).inc()
            uids.append(uid)
    return Creations(tuple(uids))


async def _create(observed: ObservedNextcloudPool, name: str, memory: PoolMemory, ctx: Context[NextcloudPool]) -> str:
    """Create an instance; returns its UID, "" if the name is taken."""
    profile, nonce = observed.profile, memory.nominations[name].nonce
    instance = new_member(
        observed.pool, name, observed.record.namespace, profile.name, profile.defaults, profile.digest or "", nonce
    )
    memory.created[name] = ctx.now()  # before the request: if its response is lost, it may have been done
    try:
        stored = await ctx.client.create(instance)
    except AlreadyExists:  # of another writer; our own instance is known by its nonce when the members are listed
        return ""
    return stored.metadata.uid
