"""The observation of a pool as frozen views, and what belongs to a pool.

Guarantees: decides nothing. `konverge.reconcilers.quota.pools.observer` reads it from the caches.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.objects import Metadata
from konverge.reconcilers.quota.claims.queue import in_queue_order
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge.reconcilers.quota.views import NOWHERE, ClaimView, PoolRecord, PoolView, QuotaView
from konverge.reconcilers.quota.words import QuotaLabel, Semantics, quota_name

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = [
    "ClaimsByNamespace",
    "PoolObservation",
    "PoolRemains",
    "belongs",
    "has_lost_its_owner",
    "quota_basis",
]


class ClaimsByNamespace(Collection[ClaimView]):
    """Claims, by namespace and in queue order; the tuple of a namespace stays the same object until it changes."""

    def __init__(self, by_namespace: Mapping[str, tuple[ClaimView, ...]]) -> None:
        self.by_namespace = by_namespace

    @classmethod
    def of(cls, claims: Collection[ClaimView]) -> ClaimsByNamespace:
        """Return these claims by namespace."""
        if isinstance(claims, cls):
            return claims
        grouped: dict[str, list[ClaimView]] = {}
        for claim in in_queue_order(claims):
            grouped.setdefault(claim.namespace, []).append(claim)
        return cls({namespace: tuple(members) for namespace, members in grouped.items()})

    def __iter__(self) -> Iterator[ClaimView]:
        return chain.from_iterable(self.by_namespace.values())

    def __len__(self) -> int:
        return sum(map(len, self.by_namespace.values()))

    def __contains__(self, claim: object) -> bool:
        return any(claim in members for members in self.by_namespace.values())


class PoolObservation(msgspec.Struct, frozen=True, kw_only=True):
    """The input of an allocation.

    `selected` are the live namespaces that the pool selects; `terminating` all that are being deleted. `claims` are all that name this
    pool or were assigned to it. `refused` maps the uid of a claim whose ResourceQuota the API server rejected to the reason.
    """

    pool: PoolView
    selected: frozenset[str] = frozenset()
    terminating: frozenset[str] = frozenset()
    claims: Collection[ClaimView] = ()
    quotas: Mapping[str, QuotaView] = msgspec.field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    """Namespaces that have a ResourceQuota of this name that is not the pool's: an apply is refused before it is sent."""
    recorded: PoolRecord = msgspec.field(default_factory=PoolRecord)
    refused: Mapping[str, str] = msgspec.field(default_factory=dict)
    impossible: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """By namespace the resources that the API server rejects in a ResourceQuota: no claim can use any of them."""
    unconfirmed: frozenset[str] = frozenset()
    """Namespaces whose ResourceQuota could not be written: no release ends in them now."""
    semantics: str = Semantics.V012
    max_claims: int = 5000
    max_status_bytes: int = 1_300_000
    """Bytes of the status that the listed claims may take."""
    namespace_share: float = 1.0
    """One namespace's part of both limits."""

    @property
    def claims_in(self) -> Mapping[str, tuple[ClaimView, ...]]:
        """The claims by namespace, in queue order."""
        return ClaimsByNamespace.of(self.claims).by_namespace


class PoolRemains(msgspec.Struct, frozen=True):
    """The objects that the finalizer of a pool may delete: its allocated claims, if its spec requests it, and its ResourceQuotas."""

    claims: tuple[ClaimView, ...] = ()
    quotas: tuple[Metadata, ...] = ()


def belongs(claim: ClaimView, pool: str, uid: str, listed: Container[str] = ()) -> bool:
    """Whether this pool is responsible for a claim: the claim names it; or names none and waits in its queue; or was assigned to it and not
    edited since. A claim without a status belongs to the pool that lists it.
    """
    if claim.pool:
        return claim.pool == pool
    if claim.place == NOWHERE:
        return claim.uid in listed
    return claim.queue == (pool, uid) or (claim.assigned == (pool, uid) and not claim.needs_new_pool)


def has_lost_its_owner(quota: Metadata, pool: str) -> bool:
    """Whether a ResourceQuota is the pool's by name and label and lacks its owner reference: it is adopted again."""
    return quota.name == quota_name(pool) and quota.controller is None and quota.label(QuotaLabel.POOL) == pool


def quota_basis(pool: ResourcePool, ctx: Context[ResourcePool], namespace: str) -> tuple[object, ...]:
    """Return the state that a rejection depends on: the spec of the pool, and the owner of the namespace's ResourceQuota."""
    quota = ctx.cache(RESOURCE_QUOTA).metadata(namespace, quota_name(pool.name))
    if quota is None:
        return (pool.uid, pool.generation)
    return (pool.uid, pool.generation, quota.uid, quota.controller, quota.label(QuotaLabel.POOL))
