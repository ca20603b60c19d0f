"""The observation of a claim without a responsible pool: the cached claim, and all pools.

Guarantees: reads caches only, and decides nothing. If the cache of pools is not synced the reconcile ends before it writes, so a missing
pool never counts as deleted (X04).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from konverge.crds.quota_v1beta2 import ResourcePoolClaim
from konverge.reconcilers.quota.claims.conditions import read
from konverge.reconcilers.quota.kinds import CLAIM, POOL
from konverge.reconcilers.quota.parse import PoolFacts, claim_view, pool_facts, pool_named_in
from konverge.reconcilers.quota.view_cache import ViewCache, complete
from konverge.reconcilers.quota.views import ClaimView
from konverge.reconcilers.quota.words import Semantics

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ObservedClaim", "observe", "observe_after_failure"]


class ObservedClaim(msgspec.Struct, frozen=True):
    """A claim and the pools by name; `claim` is None if the cache lacks it, or has another claim of the same name."""

    claim: ClaimView | None
    pools: Mapping[str, PoolFacts] = msgspec.field(default_factory=dict)


def observe(
    claim: ResourcePoolClaim, ctx: Context[ResourcePoolClaim], pool_cache: ViewCache[PoolFacts]
) -> ObservedClaim:
    """Read the caches for a reconcile of one claim."""
    stored = ctx.cache(CLAIM).find(claim.namespace, claim.name)
    view = None if stored is None or stored.metadata.uid != claim.uid else claim_view(stored)
    views = pool_cache.read(complete(ctx, POOL), pool_facts)
    return ObservedClaim(view, {facts.name: facts for facts in views.values()})


def observe_after_failure(claim: ResourcePoolClaim, ctx: Context[ResourcePoolClaim]) -> ClaimView | None:
    """Return the view of a claim whose reconcile failed; None if a pool writes its status: a live pool that wrote it before, or a pool
    whose finalizer reads it.

    It reads metadata and single fields only, since parsing the claim or a pool may be the step that failed.
    """
    stored, pools, status = ctx.cache(CLAIM).find(claim.namespace, claim.name), ctx.cache(POOL), claim.status
    if stored is None:
        return None
    named = pool_named_in(stored)
    assigned, queued = ((place.name or "") if place is not None else "" for place in (status.pool, status.queue))
    pool, holder = pools.metadata("", named or assigned or queued), pools.metadata("", assigned)
    lives = pool is not None and not pool.deleting
    if claim.conditions if lives else holder is not None and holder.deleting:
        return None
    return ClaimView(
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        generation=claim.generation,
        pool=named,
        condition=status.condition if status.semantics is None else read(status.conditions)[0],
        semantics=status.semantics or Semantics.V012,
    )
