"""The claim of an instance: whether its Nextcloud exists, and whether the claim is the operator's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD, POOL
from konverge.reconcilers.pools.records import is_confirmed, pool_of_member, recorded
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ObservedOrphan", "observe", "stored_instance"]


@dataclass(frozen=True, slots=True)
class ObservedOrphan:
    """An instance that may be an orphan, and the Nextcloud of its claim."""

    instance: Metadata
    uid: str
    """The UID of the Nextcloud."""
    path: str
    """Namespace and name of the Nextcloud."""
    settled: bool = False
    """Whether the instance has no claim, was or is being deleted or released, or the cache confirms its claim."""
    exists: bool = False
    """Whether the API server has the Nextcloud."""
    unconfirmed: bool = False
    """Whether the Nextcloud exists and does not have this member of a pool in its status."""

    @property
    def marked(self) -> str:
        """The mark of an orphan, "" without a mark."""
        return self.instance.annotation(PoolsAnnotation.ORPHANED_SINCE)


async def observe(instance: Object, ctx: Context[Object]) -> ObservedOrphan:
    """Read the Nextcloud of a claim from the API server, unless the claim is settled."""
    metadata, claim = instance.metadata, instance.get("spec", "claimRef", default={}) or {}
    uid = str(claim.get("uid", ""))
    namespace, name = str(claim.get("namespace", "")), str(claim.get("name", ""))
    observed = ObservedOrphan(metadata, uid, f"{namespace}/{name}", settled=True)
    if not uid or _ends_without_a_release(metadata, uid):
        return observed
    if not observed.marked and is_confirmed(metadata, uid, ctx.cache(NEXTCLOUD)):
        return observed
    stored = await ctx.live(NEXTCLOUD).find(namespace, name)
    if stored is None or stored.metadata.uid != uid:
        return ObservedOrphan(metadata, uid, observed.path)
    unconfirmed = _is_unconfirmed_member(metadata, stored, ctx)
    return ObservedOrphan(metadata, uid, observed.path, exists=True, unconfirmed=unconfirmed)


async def stored_instance(instance: Metadata, ctx: Context[Object]) -> Object | None:
    """Return the very instance as the API server has it, None if it was deleted or recreated."""
    stored = await ctx.live(INSTANCE).find(instance.namespace, instance.name)
    return stored if stored is not None and stored.metadata.uid == instance.uid else None


def _is_unconfirmed_member(instance: Metadata, nextcloud: Object, ctx: Context[Object]) -> bool:
    """Whether a pool has the instance in its record, and the Nextcloud of its claim does not have it in its status."""
    if not pool_of_member(instance, ctx.cache(POOL)):
        return False
    return not {instance.uid, f"{instance.namespace}/{instance.name}"}.intersection(recorded(nextcloud))


def _ends_without_a_release(metadata: Metadata, uid: str) -> bool:
    """Whether the instance was released, or its deletion is not refused; a refused deletion waits for the release."""
    forced = metadata.deleting and metadata.label(PoolsLabel.FORCE_DELETE) == PoolsLabel.TRUE
    return forced or metadata.annotation(PoolsAnnotation.RELEASED) == uid
