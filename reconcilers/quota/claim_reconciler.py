"""The reconciler of ResourcePoolClaims without a responsible pool: their pool is missing or being deleted, or they have none.

It shares the status of claims with the pool controller (`decide` selects the writer), and removes the owner references that Capsule set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.quota_v1beta2 import PoolReference, ResourcePoolClaim
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.quota.claim_conditions import CONDITION_TYPES, condition_fields, read
from konverge.reconcilers.quota.claim_decision import ClaimDecision, failed
from konverge.reconcilers.quota.decide import decide_claim, waits_for_new_pool
from konverge.reconcilers.quota.kinds import CLAIM, POOL
from konverge.reconcilers.quota.metrics import QuotaMetrics
from konverge.reconcilers.quota.observation import NOWHERE, ClaimPlace, ClaimView
from konverge.reconcilers.quota.observe import observe_pools
from konverge.reconcilers.quota.parse import PoolFacts, claim_view, pool_named_in
from konverge.reconcilers.quota.pool_writer import claim_event, remove_owner_references
from konverge.reconcilers.quota.render import claim_condition
from konverge.reconcilers.quota.view_cache import ViewCache
from konverge.reconcilers.quota.wake_index import WakeIndex
from konverge.reconcilers.quota.words import Semantics
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ResourcePoolClaimReconciler"]


class ResourcePoolClaimReconciler:
    """Reports why a claim has no pool, and assigns a claim that names none to a pool or to the queue of a pool."""

    def __init__(self, wake_index: WakeIndex, metrics: QuotaMetrics, semantics: str = Semantics.V012) -> None:
        self._semantics = semantics
        self._wake_index = wake_index
        self._metrics = metrics
        self._pool_cache: ViewCache[PoolFacts] = ViewCache()

    async def reconcile(self, claim: ResourcePoolClaim, ctx: Context[ResourcePoolClaim]) -> Outcome:
        """Reconcile one claim."""
        path = (claim.namespace, claim.name)
        await remove_owner_references(claim.metadata, ctx)
        stored = ctx.cache(CLAIM).find(*path)
        view = None if stored is None or stored.metadata.uid != claim.uid else claim_view(stored)
        pools = observe_pools(ctx, self._pool_cache)
        if view is not None and waits_for_new_pool(view, pools, ctx.now()):
            self._wake_index.waiting[path] = ""
            ctx.status.skip_write()
            return RequeueAfter(READ_AGAIN)
        decided = None if view is None else decide_claim(view, pools)
        if view is None or (decided is None and (view.pool or view.assigned[0])):
            self._wake_index.waiting.pop(path, None)
            ctx.status.skip_write()
            return Done()
        self._wake_index.waiting[path] = view.pool
        if decided is None:  # it waits in the queue of one pool, and another may get room
            ctx.status.skip_write()
            return Done()
        self._write_status(view, *decided, ctx)
        return Done()

    def report_failure(self, claim: ResourcePoolClaim, ctx: Context[ResourcePoolClaim], message: str) -> None:
        """Report in the status that the reconcile failed, unless a pool writes it.

        It reads metadata and single fields only, since parsing the claim or a pool may be the step that failed.
        """
        path = (claim.namespace, claim.name)
        stored = ctx.cache(CLAIM).find(*path)
        if stored is None or _pool_writes_status(claim, stored, ctx):
            ctx.status.skip_write()
            return
        status = claim.status
        view = ClaimView(
            namespace=claim.namespace,
            name=claim.name,
            uid=claim.uid,
            generation=claim.generation,
            pool=pool_named_in(stored),
            condition=status.condition if status.semantics is None else read(status.conditions)[0],
            semantics=status.semantics or Semantics.V012,
        )
        self._wake_index.waiting[path] = view.pool
        self._write_status(view, failed(message), NOWHERE, ctx)

    def _write_status(
        self, view: ClaimView, decision: ClaimDecision, place: ClaimPlace, ctx: Context[ResourcePoolClaim]
    ) -> None:
        draft = ctx.status.draft
        if self._semantics == Semantics.V014:
            draft.semantics, draft.condition = Semantics.V014, None
        else:
            draft.semantics, draft.condition = None, claim_condition(view, decision, ctx.now())
        decided = condition_fields(decision) if self._semantics == Semantics.V014 else ()
        for type_ in {*CONDITION_TYPES} - {type_ for type_, *_ in decided}:
            ctx.status.remove_condition(type_)
        for fields in decided:
            ctx.status.set_condition(*fields)
        draft.pool = _reference(place.pool)
        draft.queue = _reference(place.queue)
        event = claim_event(view, decision)
        if event is not None:
            ctx.event(event[0], decision.message, type_=event[1], action=event[2])
        self._metrics.set_claim(view, decision, place.name)


def _pool_writes_status(claim: ResourcePoolClaim, stored: Object, ctx: Context[ResourcePoolClaim]) -> bool:
    """Whether a pool writes the status of a claim: a live pool that wrote it before, or a pool whose finalizer reads it."""
    pools, status = ctx.cache(POOL), claim.status
    assigned, queued = ((place.name or "") if place is not None else "" for place in (status.pool, status.queue))
    pool = pools.metadata("", pool_named_in(stored) or assigned or queued)
    if pool is not None and not pool.deleting:
        return bool(claim.conditions)
    holder = pools.metadata("", assigned)
    return holder is not None and holder.deleting


def _reference(pool: tuple[str, str]) -> PoolReference | None:
    name, uid = pool
    return PoolReference(name=name, uid=uid) if name else None
