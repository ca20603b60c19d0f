"""The reconciler of ResourcePools: observes, allocates, and writes the difference.

`reconcile` writes ResourceQuotas (`act`), release annotations and claim statuses (`claim_writes`), and executes the plan of the pool's
status last; `decide` explains the order. `finalize` deletes the allocated claims, if the pool's spec requests it, and the pool's
ResourceQuotas.

Guarantees: idempotent, and safe to kill after any write, since it decides by the stored objects only; a settled pool causes no write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.quota.claims.queue import place_after
from konverge.reconcilers.quota.kinds import CLAIM
from konverge.reconcilers.quota.metrics import QuotaMetrics, pool_series
from konverge.reconcilers.quota.pools.act import PoolChanged, QuotaWriter, delete_all
from konverge.reconcilers.quota.pools.allocate import PoolAllocation
from konverge.reconcilers.quota.pools.claim_writes import write_claims
from konverge.reconcilers.quota.pools.decide import plan_finalize, plan_status, plan_writes
from konverge.reconcilers.quota.pools.observe import (
    PoolObservation,
    PoolViewCaches,
    observe,
    observe_remains,
    quota_basis,
)
from konverge.reconcilers.quota.pools.outcomes import WriteOutcomes
from konverge.reconcilers.quota.pools.rejected_quotas import RejectedQuotas
from konverge.reconcilers.quota.pools.rival import WrittenStatuses, outline
from konverge.reconcilers.quota.settings import Settings
from konverge.reconcilers.quota.wake_index import WakeIndex
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import ConditionUpdate, Context

__all__ = ["ResourcePoolReconciler"]

_OMITTED_IF_EMPTY = ("claims", "exhaustions", "releasing")


class ResourcePoolReconciler:
    """Allocates a pool, as one ResourceQuota for each namespace."""

    def __init__(self, settings: Settings, wake_index: WakeIndex, metrics: QuotaMetrics) -> None:
        self._settings = settings
        self._wake_index = wake_index
        self._metrics = metrics
        self._caches = PoolViewCaches()
        self._claims_in_metrics: dict[str, frozenset[tuple[str, str]]] = {}
        self._rejected = RejectedQuotas(settings.refused_retry)
        self._written = WrittenStatuses()

    async def reconcile(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> Outcome:
        """Bring ResourceQuotas, claims and status to the allocation of the pool."""
        clock, slots, outcomes = asyncio.get_running_loop().time, self._slots(), WriteOutcomes()
        observed = observe(pool, ctx, self._caches, self._settings)
        await asyncio.sleep(0)  # yield to other reconciles: with thousands of claims each part takes a while
        pause = self._written.pause(pool.name, outline(pool.status, observed.recorded), clock())
        if pause:
            ctx.status.skip_write()
            return RequeueAfter(pause)
        basis = partial(quota_basis, pool, ctx)
        recalled = self._rejected.recall(pool.name, observed.claims, basis, clock())
        observed = replace(observed, refused=recalled.reasons)
        # Set before the first write, so that no watch event caused by it is filtered out.
        self._wake_index.set_releasing(pool.name, {*observed.recorded.releasing, *_may_release(observed)})
        try:
            observed, allocation = await QuotaWriter(pool, ctx, outcomes, slots).apply_quotas(observed)
        except PoolChanged:
            ctx.status.skip_write()
            return RequeueAfter(READ_AGAIN)
        self._rejected.add(pool.name, recalled, outcomes, observed.claims, basis, clock())
        self._update_wake_index(observed, allocation)
        writes = plan_writes(observed, allocation)
        await write_claims(observed, writes, outcomes, ctx, slots)
        await asyncio.sleep(0)
        refused = recalled.messages(allocation.reserving) | outcomes.refused
        plan = plan_status(observed, allocation, refused, outcomes, self._settings.refused_retry)
        assert plan.draft is not None
        self._written.remember(pool.name, outline(plan.draft, writes.record), clock())
        outcome = await ctx.execute(plan)
        _omit_empty_maps(ctx)
        await asyncio.sleep(0)
        self._update_metrics(observed, allocation, plan.set_conditions, ctx)
        if outcomes.error is not None:
            raise outcomes.error
        return outcome

    async def finalize(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> Outcome:
        """Delete the pool's claims, if its spec requests it, and its ResourceQuotas.

        From now on the claim controller writes the claims' statuses.
        """
        slots = self._slots()
        for deletes in plan_finalize(pool, observe_remains(pool, ctx, self._caches)):
            await delete_all(deletes, ctx, slots)
        self._wake_index.forget(pool.name)
        self._caches.forget(pool.name)
        self._rejected.forget(pool.name)
        self._written.forget(pool.name)
        self._claims_in_metrics.pop(pool.name, None)
        self._metrics.set_pool(pool.name, None)
        return Done()

    def _slots(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self._settings.parallel)

    def _update_wake_index(self, observed: PoolObservation, allocation: PoolAllocation) -> None:
        pool = observed.pool.name
        self._wake_index.set_releasing(
            pool, {*observed.recorded.releasing, *allocation.releasing, *allocation.settling}
        )
        self._wake_index.set_namespaces(pool, {*allocation.quotas, *(claim.namespace for claim in observed.claims)})

    def _update_metrics(
        self,
        observed: PoolObservation,
        allocation: PoolAllocation,
        conditions: tuple[ConditionUpdate, ...],
        ctx: Context[ResourcePool],
    ) -> None:
        pool = observed.pool.name
        before = self._claims_in_metrics.get(pool, frozenset())
        self._claims_in_metrics[pool] = frozenset((claim.namespace, claim.name) for claim in observed.claims)
        for path in before - self._claims_in_metrics[pool]:
            if ctx.cache(CLAIM).metadata(*path) is None:
                self._metrics.remove_claim(*path)
        self._metrics.set_pool(pool, pool_series(observed.pool, allocation, conditions))
        for claim in observed.claims:
            decision = allocation.decisions.get(claim.uid)
            if decision is not None:
                self._metrics.set_claim(claim, decision, place_after(claim, decision, observed.pool).name)


def _may_release(observed: PoolObservation) -> Iterable[str]:
    """Return the namespaces whose ResourceQuota has a release, or may have had a release in the lost record."""
    return (namespace for namespace, quota in observed.quotas.items() if quota.releasing or observed.recorded.lost)


def _omit_empty_maps(ctx: Context[ResourcePool]) -> None:
    """Leave empty maps out of the status, as Capsule does."""
    for name in _OMITTED_IF_EMPTY:
        if not getattr(ctx.status.draft, name):
            ctx.status.draft.model_fields_set.discard(name)
