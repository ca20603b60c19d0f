"""The reconciler of ResourcePoolClaims without a responsible pool: their pool is missing or being deleted, or they have none.

`reconcile` removes the owner references that Capsule set, observes, decides, and sets the status. The status is set on `ctx.status` and not
by a plan, because `report_failure` sets it too, and a report of a failure has no effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.quota_v1beta2 import PoolReference, ResourcePoolClaim
from konverge.outcome import Outcome
from konverge.reconcilers.quota.claims.conditions import CONDITION_TYPES, condition_fields
from konverge.reconcilers.quota.claims.decide import decide, owners_without_pools
from konverge.reconcilers.quota.claims.decision import ClaimDecision, failed
from konverge.reconcilers.quota.claims.observe import observe, observe_after_failure
from konverge.reconcilers.quota.claims.status import claim_condition, claim_event
from konverge.reconcilers.quota.kinds import CLAIM
from konverge.reconcilers.quota.metrics import QuotaMetrics
from konverge.reconcilers.quota.parse import PoolFacts
from konverge.reconcilers.quota.view_cache import ViewCache
from konverge.reconcilers.quota.views import NOWHERE, ClaimPlace, ClaimView
from konverge.reconcilers.quota.wake_index import WakeIndex
from konverge.reconcilers.quota.words import Semantics

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
        patch = owners_without_pools(claim.metadata)
        if patch is not None:
            await ctx.patch(CLAIM, expect=claim.metadata, patch=patch)
        observed = observe(claim, ctx, self._pool_cache)
        step = decide(observed, ctx.now())
        self._wake_index.set_waiting((claim.namespace, claim.name), step.waits_for)
        if observed.claim is None or step.decided is None:
            ctx.status.skip_write()
        else:
            self._set_status(observed.claim, *step.decided, ctx)
        return step.outcome

    def report_failure(self, claim: ResourcePoolClaim, ctx: Context[ResourcePoolClaim], message: str) -> None:
        """Report in the status that the reconcile failed, unless a pool writes it."""
        view = observe_after_failure(claim, ctx)
        if view is None:
            ctx.status.skip_write()
            return
        self._wake_index.set_waiting((claim.namespace, claim.name), view.pool)
        self._set_status(view, failed(message), NOWHERE, ctx)

    def _set_status(
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


def _reference(pool: tuple[str, str]) -> PoolReference | None:
    name, uid = pool
    return PoolReference(name=name, uid=uid) if name else None
