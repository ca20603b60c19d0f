"""The observation of a pool: cache reads, gathered into frozen views.

Guarantees: reads caches only, and decides nothing. If a cache is not synced the reconcile ends before it writes, so an object that is
missing from an incomplete cache never counts as deleted (X04).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.objects import Metadata
from konverge.reconcilers.quota.kinds import CLAIM, NAMESPACE, RESOURCE_QUOTA
from konverge.reconcilers.quota.namespace_selectors import selects
from konverge.reconcilers.quota.parse import claim_view, pool_view, quota_view, record_in
from konverge.reconcilers.quota.settings import Settings
from konverge.reconcilers.quota.view_cache import ViewCache, complete
from konverge.reconcilers.quota.views import NOWHERE, ClaimView, PoolRecord, PoolView, QuotaView
from konverge.reconcilers.quota.words import QuotaLabel, Semantics, quota_name

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = [
    "PoolObservation",
    "PoolRemains",
    "PoolViewCaches",
    "belongs",
    "has_lost_its_owner",
    "observe",
    "observe_remains",
    "quota_basis",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolObservation:
    """The input of an allocation.

    `selected` are the live namespaces that the pool selects; `terminating` all that are being deleted. `claims` are all that name this
    pool or were assigned to it. `refused` maps the uid of a claim whose ResourceQuota the API server rejected to the reason.
    """

    pool: PoolView
    selected: frozenset[str] = frozenset()
    terminating: frozenset[str] = frozenset()
    claims: tuple[ClaimView, ...] = ()
    quotas: Mapping[str, QuotaView] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    """Namespaces that have a ResourceQuota of this name that is not the pool's: an apply is refused before it is sent."""
    recorded: PoolRecord = field(default_factory=PoolRecord)
    refused: Mapping[str, str] = field(default_factory=dict)
    impossible: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By namespace the resources that the API server rejects in a ResourceQuota: no claim can use any of them."""
    unconfirmed: frozenset[str] = frozenset()
    """Namespaces whose ResourceQuota could not be written: no release ends in them now."""
    semantics: str = Semantics.V012
    max_claims: int = 5000
    max_status_bytes: int = 1_300_000
    """Bytes of the status that the listed claims may take."""
    namespace_share: float = 1.0
    """One namespace's part of both limits."""


@dataclass(frozen=True, slots=True)
class PoolRemains:
    """The objects that the finalizer of a pool may delete: its allocated claims, if its spec requests it, and its ResourceQuotas."""

    claims: tuple[ClaimView, ...] = ()
    quotas: tuple[Metadata, ...] = ()


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


def observe(
    pool: ResourcePool, ctx: Context[ResourcePool], caches: PoolViewCaches, settings: Settings
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
    views = caches.claims.read(claims, claims.all_metadata(), claim_view)
    quotas = _quotas(pool, ctx, caches, everywhere)
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
    pool: ResourcePool, ctx: Context[ResourcePool], caches: PoolViewCaches, namespaces: set[str]
) -> dict[str, QuotaView]:
    """Return the ResourceQuotas that the pool controls, and the ResourceQuotas to adopt, by namespace.

    A copy under another name has the owner reference too, and grants nothing.
    """
    reader = complete(ctx, RESOURCE_QUOTA)
    cache = caches.quotas.setdefault(pool.name, ViewCache())
    name = quota_name(pool.name)
    mine = [metadata for metadata in reader.metadata_by_index("owner", pool.uid) if metadata.name == name]
    others = (reader.metadata(namespace, name) for namespace in namespaces - {metadata.namespace for metadata in mine})
    strays = [metadata for metadata in others if metadata is not None and has_lost_its_owner(metadata, pool.name)]
    views = cache.read(reader, [*mine, *strays], lambda quota: (pool.generation, quota_view(quota, pool)))
    if any(generation != pool.generation for generation, _ in views.values()):
        caches.forget(pool.name)  # `intact` depends on the pool's scopes
        return _quotas(pool, ctx, caches, namespaces)
    return {namespace: view for (namespace, _), (_, view) in views.items()}


def observe_remains(pool: ResourcePool, ctx: Context[ResourcePool], caches: PoolViewCaches) -> PoolRemains:
    """Read the caches for the finalizer of a pool. Its ResourceQuotas include those that an orphaning deletion released from it."""
    claims: tuple[ClaimView, ...] = ()
    if pool.spec.config.delete_bound_resources:
        reader = complete(ctx, CLAIM)
        claims = tuple(caches.claims.read(reader, reader.all_metadata(), claim_view).values())
    name = quota_name(pool.name)
    quotas = tuple(
        metadata
        for metadata in complete(ctx, RESOURCE_QUOTA).all_metadata()
        if metadata.name == name
        and metadata.label(QuotaLabel.POOL) == pool.name
        and (metadata.controller is None or metadata.controller.uid == pool.uid)
    )
    return PoolRemains(claims, quotas)


def quota_basis(pool: ResourcePool, ctx: Context[ResourcePool], namespace: str) -> tuple[object, ...]:
    """Return the state that a rejection depends on: the spec of the pool, and the owner of the namespace's ResourceQuota."""
    quota = ctx.cache(RESOURCE_QUOTA).metadata(namespace, quota_name(pool.name))
    if quota is None:
        return (pool.uid, pool.generation)
    return (pool.uid, pool.generation, quota.uid, quota.controller, quota.label(QuotaLabel.POOL))
