"""The sweeper: instances whose Nextcloud was deleted without having released them, for instance because its finalizer was removed by hand.

Guarantees: an instance is an orphan only if the API server itself has no Nextcloud of its claim's UID, or if a pool has it in its record
and the Nextcloud does not: then the claim is not the operator's. It is marked first, with an event, and reclaimed by its policy after a
grace time. It never returns to a pool. An orphan whose deletion was refused is marked and released like any other orphan.

Caveats: every writer of spec.claimRef of an instance can have that instance reclaimed, and only that instance.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from konverge.clock import from_rfc3339, rfc3339
from konverge.keys import Key
from konverge.objects import Metadata, Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.claims.indexes import BY_CLAIM
from konverge.reconcilers.pools.claims.release import release_step
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD, POOL
from konverge.reconcilers.pools.records import is_confirmed, pool_of_member, recorded
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsEvent, PoolsLabel
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Caches, Context

__all__ = ["OrphanReconciler", "instances_of_claim"]


def instances_of_claim(nextcloud: Object, caches: Caches) -> Iterable[Key]:
    """Map a deleted Nextcloud to its instances; another Nextcloud may have its name now."""
    stored = caches(NEXTCLOUD).metadata(nextcloud.namespace, nextcloud.name)
    if stored is not None and stored.uid == nextcloud.metadata.uid:
        return []
    found = caches(INSTANCE).metadata_by_index(BY_CLAIM, nextcloud.metadata.uid)
    return [Key("", INSTANCE, one.namespace, one.name) for one in found]


class OrphanReconciler:
    """Reclaims instances whose Nextcloud was deleted."""

    def __init__(self, settings: PoolSettings) -> None:
        self._grace = timedelta(seconds=settings.orphan_grace)

    async def reconcile(self, instance: Object, ctx: Context[Object]) -> Outcome:
        """Mark an orphan, and release it after the grace time."""
        ctx.status.skip_write()
        metadata, claim = instance.metadata, instance.get("spec", "claimRef", default={}) or {}
        uid = str(claim.get("uid", ""))
        if not uid or _ends_without_a_release(metadata, uid):
            return Done()
        where = (str(claim.get("namespace", "")), str(claim.get("name", "")))
        marked = metadata.annotation(PoolsAnnotation.ORPHANED_SINCE)
        if not marked and is_confirmed(metadata, uid, ctx.cache(NEXTCLOUD)):
            return Done()
        stored = await ctx.live(NEXTCLOUD).find(*where)
        exists = stored is not None and stored.metadata.uid == uid
        if exists and not self._is_unconfirmed_member(metadata, stored, ctx):
            if marked:
                await self._mark(metadata, None, ctx)
            return Done()
        if not marked:
            await self._mark(metadata, rfc3339(ctx.now()), ctx)
            path = "/".join(where)
            reason, fault = PoolsEvent.ORPHANED, f"Nextcloud {path} is gone without having released it"
            if exists:
                reason, fault = PoolsEvent.CLAIM_UNCONFIRMED, f"Nextcloud {path} does not have it in its status"
            ctx.event(reason, f"{fault}; it is reclaimed in {self._grace}", type_=EventType.WARNING)
            return RequeueAfter(self._grace)
        since = _since(marked, ctx.now())
        if since is None:
            await self._mark(metadata, rfc3339(ctx.now()), ctx)
            return RequeueAfter(self._grace)
        left = since + self._grace - ctx.now()
        if left > timedelta(0):
            return RequeueAfter(left)
        found = await ctx.live(INSTANCE).find(metadata.namespace, metadata.name)
        if found is not None and found.metadata.uid == metadata.uid:
            await release_step(found, uid, ctx)
        return Done()

    def _is_unconfirmed_member(self, metadata: Metadata, nextcloud: Object | None, ctx: Context[Object]) -> bool:
        """Whether a pool has the instance in its record, and the Nextcloud of its claim does not have it in its status."""
        if nextcloud is None or not pool_of_member(metadata, ctx.cache(POOL)):
            return False
        return not {metadata.uid, f"{metadata.namespace}/{metadata.name}"}.intersection(recorded(nextcloud))

    async def _mark(self, metadata: Metadata, since: str | None, ctx: Context[Object]) -> None:
        patch = {"metadata": {"uid": metadata.uid, "annotations": {PoolsAnnotation.ORPHANED_SINCE: since}}}
        await ctx.patch(INSTANCE, metadata.name, metadata.namespace, patch=patch)


def _ends_without_a_release(metadata: Metadata, uid: str) -> bool:
    """Whether the instance was released, or its deletion is not refused; a refused deletion waits for the release."""
    forced = metadata.deleting and metadata.label(PoolsLabel.FORCE_DELETE) == PoolsLabel.TRUE
    return forced or metadata.annotation(PoolsAnnotation.RELEASED) == uid


def _since(text: str, now: datetime) -> datetime | None:
    """Return the time of a mark; None if it is unreadable or in the future: another writer set it, and the grace time might never end."""
    try:
        since = from_rfc3339(text)
    except ValueError:
        return None
    return since if since <= now else None
