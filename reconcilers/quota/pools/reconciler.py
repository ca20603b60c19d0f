"""The reconciler of ResourcePools: observes, allocates, and writes the difference.

`reconcile` writes ResourceQuotas (`act`), release annotations and claim statuses (`claim_writes`), and executes the plan of the pool's
status last; `decide` explains the order. `finalize` deletes the allocated claims, if the pool's spec requests it, and the pool's
ResourceQuotas.

Guarantees: idempotent, and safe to kill after any write, since it decides by the stored objects only; a settled pool causes no write.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.quota.kinds import CLAIM
from konverge.reconcilers.quota.metrics import QuotaMetrics
from konverge.reconcilers.quota.pools.act import PoolChanged, QuotaWriter, delete_all
from konverge.reconcilers.quota.pools.allocate import PoolAllocation
from konverge.reconcilers.quota.pools.claim_writes import write_claims
from konverge.reconcilers.quota.pools.concurrency import in_slices
from konverge.reconcilers.quota.pools.decide import plan_finalize, plan_status, planning_steps
from konverge.reconcilers.quota.pools.observe import PoolObservation, quota_basis
from konverge.reconcilers.quota.pools.observer import PoolObserver
from konverge.reconcilers.quota.pools.outcomes import WriteOutcomes
from konverge.reconcilers.quota.pools.rejected_quotas import RejectedQuotas
from konverge.reconcilers.quota.pools.render import render_steps
from konverge.reconcilers.quota.pools.rival import WrittenStatuses, outline
from konverge.reconcilers.quota.settings import Settings
from konverge.reconcilers.quota.wake_index import WakeIndex
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ResourcePoolReconciler"]

_OMITTED_IF_EMPTY = ("claims", "exhaustions", "releasing")


class ResourcePoolReconciler:
    """Allocates a pool, as one ResourceQuota for each namespace."""

    def __init__(self, settings: Settings, wake_index: WakeIndex, metrics: QuotaMetrics) -> None:
        self._settings = settings
        self._wake_index = wake_index
        self._metrics = metrics
        self._observer = PoolObserver(settings)
        self._rejected = RejectedQuotas(settings.refused_retry)
        self._written = WrittenStatuses()

    async def reconcile(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> Outcome:
        """Bring ResourceQuotas, claims and status to the allocation of the pool."""
        clock, parallel, outcomes = asyncio.get_running_loop().time, self._settings.parallel, WriteOutcomes()
        await asyncio.sleep(0)  # the pool was decoded in this turn
        await in_slices(self._observer.warm(pool, ctx))
        await asyncio.sleep(0)
        ledger = self._observer.memory(pool).ledger
        observed = self._observer.observe(pool, ctx)
        await asyncio.sleep(0)  # let other work run: with thousands of claims each part takes a while
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
            observed, allocation = await QuotaWriter(pool, ctx, outcomes, parallel, ledger).apply_quotas(observed)
        except PoolChanged:
            ctx.status.skip_write()
            return RequeueAfter(READ_AGAIN)
        self._rejected.add(pool.name, recalled, outcomes, observed.claims, basis, clock())
        self._update_wake_index(observed, allocation)
        await asyncio.sleep(0)
        writes = await in_slices(planning_steps(observed, allocation, ledger))
        await write_claims(observed, writes, outcomes, ctx, parallel)
        await in_slices(render_steps(observed.pool, allocation, ledger.rendered))
        await asyncio.sleep(0)
        refused = recalled.messages(allocation.reserving) | outcomes.refused
        plan = plan_status(observed, allocation, refused, outcomes, self._settings.refused_retry, ledger)
        assert plan.draft is not None
        self._written.remember(pool.name, outline(plan.draft, writes.record), clock())
        outcome = await ctx.execute(plan)
        _omit_empty_maps(ctx)
        await asyncio.sleep(0)
        metrics = self._metrics
        for path in await in_slices(metrics.set_pool(observed.pool, allocation, plan.set_conditions)):
            if ctx.cache(CLAIM).metadata(*path) is None:
                metrics.remove_claim(*path)
        if outcomes.error is not None:
            raise outcomes.error
        return outcome

    async def finalize(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> Outcome:
        """Delete the pool's claims, if its spec requests it, and its ResourceQuotas.

        From now on the claim controller writes the claims' statuses.
        """
        for deletes in plan_finalize(pool, self._observer.remains(pool, ctx)):
            await delete_all(deletes, ctx, self._settings.parallel)
        self._wake_index.forget(pool.name)
        self._observer.forget(pool.name)
        self._rejected.forget(pool.name)
        self._written.forget(pool.name)
        self._metrics.remove_pool(pool.name)
        return Done()

    def _update_wake_index(self, observed: PoolObservation, allocation: PoolAllocation) -> None:
        pool = observed.pool.name
        self._wake_index.set_releasing(
            pool, {*observed.recorded.releasing, *allocation.releasing, *allocation.settling}
        )
        self._wake_index.set_namespaces(pool, {*allocation.quotas, *observed.claims_in})


def _may_release(observed: PoolObservation) -> list[str]:
    """Return the namespaces whose ResourceQuota has a release, or may have had a release in the lost record."""
    lost = observed.recorded.lost
    return [namespace for namespace, quota in observed.quotas.items() if lost or quota.releasing]


def _omit_empty_maps(ctx: Context[ResourcePool]) -> None:
    """Leave empty maps out of the status, as Capsule does."""
    for name in _OMITTED_IF_EMPTY:
        if not getattr(ctx.status.draft, name):
            ctx.status.draft.model_fields_set.discard(name)
