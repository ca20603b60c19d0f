"""The observation at the start of a reconcile: cache reads, gathered into frozen views of one pool or of all pools.

Guarantees: reads caches only, and decides nothing. If a cache is not synced the reconcile ends before it writes, so an object that is
missing from an incomplete cache never counts as deleted (X04).
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import RetryAfter
from konverge.kinds import Kind, Resource
from konverge.objects import Metadata, Object
from konverge.reconcilers.quota.kinds import CLAIM, NAMESPACE, POOL, RESOURCE_QUOTA
from konverge.reconcilers.quota.namespace_selectors import selects
from konverge.reconcilers.quota.observation import NOWHERE, ClaimView, PoolObservation, QuotaView
from konverge.reconcilers.quota.parse import PoolFacts, claim_view, pool_facts, pool_view, quota_view, record_in
from konverge.reconcilers.quota.settings import Settings
from konverge.reconcilers.quota.view_cache import ViewCache
from konverge.reconcilers.quota.words import QuotaLabel, quota_name

if TYPE_CHECKING:
    from konverge.runtime import Context, Reader

__all__ = ["PoolViewCaches", "belongs", "complete", "has_lost_its_owner", "observe", "observe_pools"]

_SYNC_SECONDS = 5.0


class PoolViewCaches:
    """The view caches of the pool controller."""

    def __init__(self) -> None:
        self.claims: ViewCache[ClaimView] = ViewCache()
        self.quotas: dict[str, ViewCache[tuple[int, QuotaView]]] = {}

    def forget(self, pool: str) -> None:
        """Drop the views of a deleted pool."""
        self.quotas.pop(pool, None)


def belongs(claim: ClaimView, pool: str, uid: str, listed: Container[str] = ()) -> bool:
    """Whether this pool is responsible for a claim: the claim names it; or names none and waits in its queue; or was assigned to it and not
    edited since. A claim without a status belongs to the pool that lists it.
    """
    if claim.pool:
        return claim.pool == pool
    if claim.place == NOWHERE:
        return claim.uid in listed
    return claim.queue == (pool, uid) or (claim.assigned == (pool, uid) and not claim.needs_new_pool)


def complete(ctx: Context[Resource], kind: Kind[Object]) -> Reader[Object]:
    """Return the cache of a kind; raises RetryAfter if it is not synced."""
    reader = ctx.cache(kind)
    if not reader.synced:
        raise RetryAfter(
            _SYNC_SECONDS, f"the cache of {kind.group_kind} is not complete at present; nothing is decided without it"
        )
    return reader


def observe(
    pool: ResourcePool, ctx: Context[ResourcePool], books: PoolViewCaches, settings: Settings
) -> PoolObservation:
    """Read the caches for a reconcile of one pool."""
    selected: set[str] = set()
    terminating: set[str] = set()
    everywhere: set[str] = set()
    for metadata in complete(ctx, NAMESPACE).all_metadata():
        everywhere.add(metadata.name)
        if metadata.deleting:
            terminating.add(metadata.name)
        elif selects(pool.spec.selectors, metadata.labels or {}):
            selected.add(metadata.name)
    recorded = record_in(pool.status)
    listed = {entry.uid for entries in recorded.claims.values() for entry in entries}
    claims = complete(ctx, CLAIM)
    views = books.claims.read(claims, claims.all_metadata(), claim_view)
    quotas = _quotas(pool, ctx, books, everywhere)
    reader, name = ctx.cache(RESOURCE_QUOTA), quota_name(pool.name)
    return PoolObservation(
        pool=pool_view(pool),
        selected=frozenset(selected),
        terminating=frozenset(terminating),
        claims=tuple(view for view in views.values() if belongs(view, pool.name, pool.uid, listed)),
        quotas=quotas,
        foreign=frozenset(
            namespace for namespace in selected - quotas.keys() if reader.metadata(namespace, name) is not None
        ),
        recorded=recorded,
        semantics=settings.semantics,
        max_claims=settings.max_claims,
        max_status_bytes=settings.max_status_bytes,
        namespace_share=settings.namespace_share,
    )


def has_lost_its_owner(quota: Metadata, pool: str) -> bool:
    """Whether a ResourceQuota is the pool's by name and label and lacks its owner reference: it is adopted again."""
    return quota.name == quota_name(pool) and quota.controller is None and quota.label(QuotaLabel.POOL) == pool


def _quotas(
    pool: ResourcePool, ctx: Context[ResourcePool], books: PoolViewCaches, namespaces: set[str]
) -> dict[str, QuotaView]:
    """Return the ResourceQuotas that the pool controls, and the ResourceQuotas to adopt, by namespace.

    A copy under another name has the owner reference too, and grants nothing.
    """
    reader = complete(ctx, RESOURCE_QUOTA)
    book = books.quotas.setdefault(pool.name, ViewCache())
    name = quota_name(pool.name)
    mine = [metadata for metadata in reader.metadata_by_index("owner", pool.uid) if metadata.name == name]
    others = (reader.metadata(namespace, name) for namespace in namespaces - {metadata.namespace for metadata in mine})
    strays = [metadata for metadata in others if metadata is not None and has_lost_its_owner(metadata, pool.name)]
    found = book.read(reader, [*mine, *strays], lambda quota: (pool.generation, quota_view(quota, pool)))
    if any(generation != pool.generation for generation, _ in found.values()):
        books.forget(pool.name)  # `intact` depends on the pool's scopes
        return _quotas(pool, ctx, books, namespaces)
    return {namespace: view for (namespace, _), (_, view) in found.items()}


def observe_pools(ctx: Context[ResourcePoolClaim], book: ViewCache[PoolFacts]) -> dict[str, PoolFacts]:
    """Read the properties of all pools that the claim controller needs, by name."""
    reader = complete(ctx, POOL)
    return {facts.name: facts for facts in book.read(reader, reader.all_metadata(), pool_facts).values()}
