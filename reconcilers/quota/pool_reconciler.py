"""The reconciler of ResourcePools: observes, allocates, and writes the difference.

`reconcile` writes ResourceQuotas, release annotations, claim statuses, and the status of the pool last (`decide` explains the order).
`finalize` deletes the allocated claims, if the pool's spec requests it, and the pool's ResourceQuotas.

Guarantees: idempotent, and safe to kill after any write, since it decides by the stored objects only; a settled pool causes no write.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolStatus
from konverge.errors import Conflict
from konverge.objects import Metadata
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.quota.allocate import PoolAllocation
from konverge.reconcilers.quota.decide import place_after, plan_writes
from konverge.reconcilers.quota.kinds import CLAIM, RESOURCE_QUOTA
from konverge.reconcilers.quota.metrics import QuotaMetrics, pool_series
from konverge.reconcilers.quota.observation import PoolObservation, PoolRecord
from konverge.reconcilers.quota.observe import PoolViewCaches, complete, observe
from konverge.reconcilers.quota.parse import claim_view
from konverge.reconcilers.quota.pool_writer import PoolChanged, PoolWriter, WriteOutcomes
from konverge.reconcilers.quota.rejected_quotas import RejectedQuota, RejectedQuotas
from konverge.reconcilers.quota.render import pool_conditions, pool_status
from konverge.reconcilers.quota.settings import Settings
from konverge.reconcilers.quota.wake_index import WakeIndex
from konverge.reconcilers.quota.words import QuotaLabel, quota_name
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN, SHORTEST_WAIT

if TYPE_CHECKING:
    from konverge.runtime import ConditionUpdate, Context

__all__ = ["ResourcePoolReconciler"]

_RIVAL_PAUSE = 0.25
"""Seconds between two reconciles of a pool whose status another process writes, so that two daemons with unlike caches do not spin."""
_OMITTED_IF_EMPTY = ("claims", "exhaustions", "releasing")


class ResourcePoolReconciler:
    """Allocates a pool, as one ResourceQuota for each namespace."""

    def __init__(self, settings: Settings, wake_index: WakeIndex, metrics: QuotaMetrics) -> None:
        self._settings = settings
        self._wake_index = wake_index
        self._metrics = metrics
        self._caches = PoolViewCaches()
        self._claims_in_metrics: dict[str, frozenset[tuple[str, str]]] = {}
        self._refusals = RejectedQuotas(settings.refused_retry)
        self._written: dict[str, tuple[tuple[object, ...], float]] = {}

    async def reconcile(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> Outcome:
        """Bring ResourceQuotas, claims and status to the allocation of the pool."""
        observed = observe(pool, ctx, self._caches, self._settings)
        await asyncio.sleep(0)  # yield to other reconciles: with thousands of claims each part takes a while
        pause = self._pause_for_rival(pool, observed.recorded)
        if pause:
            ctx.status.skip_write()
            return RequeueAfter(pause)
        observed, held, lapsed = self._recall_refusals(pool, observed, ctx)
        writer = PoolWriter(pool, ctx, self._settings.parallel)
        # Set before the first write, so that no watch event caused by it is filtered out.
        self._wake_index.set_releasing(
            pool.name,
            {
                *observed.recorded.releasing,
                *(
                    namespace
                    for namespace, quota in observed.quotas.items()
                    if quota.releasing or observed.recorded.lost
                ),
            },
        )
        try:
            observed, allocation = await writer.apply_quotas(observed)
        except PoolChanged:
            ctx.status.skip_write()
            return RequeueAfter(READ_AGAIN)
        self._remember_refusals(pool, observed, writer.outcomes, held, ctx)
        refused = {namespace: refusal.message for namespace, refusal in held.items()}
        # A claim that is tried again is listed first, and does not make the pool Ready.
        refused |= {name: refusal.message for name, refusal in lapsed.items() if name in allocation.reserving}
        refused |= writer.outcomes.refused
        self._update_wake_index(pool, observed, allocation)
        writes = plan_writes(observed, allocation)
        await writer.remove_release_annotations(writes.spent_releases)
        await writer.write_claim_status(observed, writes.claim_statuses)
        await asyncio.sleep(0)
        conditions = pool_conditions(observed.pool, allocation, refused)
        status = pool_status(observed.pool, allocation, tuple(sorted(observed.selected)))
        self._written[pool.name] = (_outline(status, writes.record), asyncio.get_running_loop().time())
        _set_status(ctx, status, conditions)
        await asyncio.sleep(0)
        self._update_metrics(observed, allocation, conditions, ctx)
        if writer.outcomes.error is not None:
            raise writer.outcomes.error
        if (allocation.pending | allocation.reserving) - writer.outcomes.failed:
            return RequeueAfter(NEXT_STEP)
        if writer.outcomes.again:
            return RequeueAfter(READ_AGAIN)
        return RequeueAfter(self._settings.refused_retry) if refused else Done()

    def _pause_for_rival(self, pool: ResourcePool, recorded: PoolRecord) -> float:
        """Return how long to wait if another writer has just changed the status that this process wrote, 0 if none has."""
        written, since = self._written.get(pool.name, ((), 0.0))
        if not written or written == _outline(pool.status, recorded):
            return 0.0
        rest = since + _RIVAL_PAUSE - asyncio.get_running_loop().time()
        return rest if rest > SHORTEST_WAIT.total_seconds() else 0.0

    def _recall_refusals(
        self, pool: ResourcePool, observed: PoolObservation, ctx: Context[ResourcePool]
    ) -> tuple[PoolObservation, dict[str, RejectedQuota], dict[str, RejectedQuota]]:
        held, lapsed = self._refusals.recall(
            pool.name,
            observed.claims,
            lambda namespace: _basis(pool, namespace, ctx),
            asyncio.get_running_loop().time(),
        )
        reasons = {uid: reason for refusal in held.values() for uid, (_, reason) in refusal.claims.items()}
        return replace(observed, refused=reasons), held, lapsed

    def _remember_refusals(
        self,
        pool: ResourcePool,
        observed: PoolObservation,
        outcomes: WriteOutcomes,
        held: dict[str, RejectedQuota],
        ctx: Context[ResourcePool],
    ) -> None:
        generations = {claim.uid: claim.generation for claim in observed.claims}
        news = {
            namespace: RejectedQuota(
                message=outcomes.refused[namespace],
                claims={
                    **(held[namespace].claims if namespace in held else {}),
                    **{uid: (generations[uid], reason) for uid, reason in culprits.items()},
                },
                basis=_basis(pool, namespace, ctx),
                since=asyncio.get_running_loop().time(),
            )
            for namespace, culprits in outcomes.culprits.items()
            if culprits
        }
        self._refusals.replace(pool.name, {**held, **news})

    def _update_wake_index(self, pool: ResourcePool, observed: PoolObservation, allocation: PoolAllocation) -> None:
        self._wake_index.set_releasing(
            pool.name, {*observed.recorded.releasing, *allocation.releasing, *allocation.settling}
        )
        self._wake_index.set_namespaces(
            pool.name, {*allocation.quotas, *(claim.namespace for claim in observed.claims)}
        )

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

    async def finalize(self, pool: ResourcePool, ctx: Context[ResourcePool]) -> Outcome:
        """Delete the pool's claims, if its spec requests it, and its ResourceQuotas.

        From now on the claim controller writes the claims' statuses.
        """
        slots = asyncio.Semaphore(self._settings.parallel)
        if pool.spec.config.delete_bound_resources:
            await self._delete_claims(pool, ctx, slots)
        async with asyncio.TaskGroup() as tasks:
            for metadata in _quotas_of(pool, ctx):
                if not metadata.deleting:
                    tasks.create_task(_delete(ctx, metadata, slots))
        self._wake_index.forget(pool.name)
        self._caches.forget(pool.name)
        self._refusals.forget(pool.name)
        self._written.pop(pool.name, None)
        self._claims_in_metrics.pop(pool.name, None)
        self._metrics.set_pool(pool.name, None)
        return Done()

    async def _delete_claims(self, pool: ResourcePool, ctx: Context[ResourcePool], slots: asyncio.Semaphore) -> None:
        """Delete the allocated claims by uid; queued claims survive, and so does a claim that was recreated under the same name.

        A claim is allocated if the pool lists it or its own status reports it: a reconcile that was killed may not have written the pool's
        status.
        """

        async def delete(namespace: str, name: str, uid: str) -> None:
            async with slots:
                try:
                    await ctx.delete(CLAIM, name, namespace, uid=uid)
                except Conflict:
                    ctx.log.debug("a claim was made anew and stays", namespace=namespace, name=name)

        bound = {(where, entry.name, entry.uid) for where, entries in pool.status.claims.items() for entry in entries}
        reader = complete(ctx, CLAIM)
        claims = self._caches.claims.read(reader, reader.all_metadata(), claim_view).values()
        bound |= {
            (claim.namespace, claim.name, claim.uid) for claim in claims if claim.is_bound_to(pool.name, pool.uid)
        }
        async with asyncio.TaskGroup() as tasks:
            for namespace, name, uid in sorted(bound):
                tasks.create_task(delete(namespace, name, uid))


def _outline(status: ResourcePoolStatus, record: PoolRecord) -> tuple[object, ...]:
    """Return the part of a pool's status that is compared."""
    return (
        status.namespaces,
        status.allocation,
        dict(status.exhaustions),
        dict(status.releasing),
        dict(record.claims),
    )


def _basis(pool: ResourcePool, namespace: str, ctx: Context[ResourcePool]) -> tuple[object, ...]:
    """Return the state that a refusal depends on: the spec of the pool, and the owner of the namespace's ResourceQuota."""
    quota = ctx.cache(RESOURCE_QUOTA).metadata(namespace, quota_name(pool.name))
    if quota is None:
        return (pool.uid, pool.generation)
    return (pool.uid, pool.generation, quota.uid, quota.controller, quota.label(QuotaLabel.POOL))


def _set_status(
    ctx: Context[ResourcePool], status: ResourcePoolStatus, conditions: tuple[ConditionUpdate, ...]
) -> None:
    ctx.status.update(status)
    for name in _OMITTED_IF_EMPTY:  # empty maps are omitted, as in Capsule
        if not getattr(status, name):
            ctx.status.draft.model_fields_set.discard(name)
    for condition in conditions:
        ctx.status.set_condition(condition.type, condition.status, condition.reason, condition.message)


def _quotas_of(pool: ResourcePool, ctx: Context[ResourcePool]) -> list[Metadata]:
    """Return the ResourceQuotas of a pool, including ResourceQuotas that an orphaning deletion released from it."""
    name = quota_name(pool.name)
    return [
        metadata
        for metadata in complete(ctx, RESOURCE_QUOTA).all_metadata()
        if metadata.name == name
        and metadata.label(QuotaLabel.POOL) == pool.name
        and (metadata.controller is None or metadata.controller.uid == pool.uid)
    ]


async def _delete(ctx: Context[ResourcePool], metadata: Metadata, slots: asyncio.Semaphore) -> None:
    async with slots:
        try:
            await ctx.delete(RESOURCE_QUOTA, metadata.name, metadata.namespace, uid=metadata.uid)
        except Conflict:
            ctx.log.debug("a ResourceQuota was made anew and stays", namespace=metadata.namespace)
