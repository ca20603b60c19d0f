"""The writes of a pool's reconcile to its claims: spent release annotations, statuses, and their Events.

A plan does not hold them, because each fails for itself: a claim that changed since it was read is left to the next reconcile, and any
other error is recorded and raised at the end, after the statuses of the other claims.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.errors import KonvergeError, ObjectChanged
from konverge.objects import Metadata
from konverge.reconcilers.quota.claims.decision import ClaimDecision
from konverge.reconcilers.quota.claims.queue import place_after
from konverge.reconcilers.quota.claims.status import claim_event, claim_status
from konverge.reconcilers.quota.kinds import CLAIM
from konverge.reconcilers.quota.pools.concurrency import for_each
from konverge.reconcilers.quota.pools.decide import PoolWrites
from konverge.reconcilers.quota.pools.observe import PoolObservation
from konverge.reconcilers.quota.pools.outcomes import WriteOutcomes
from konverge.reconcilers.quota.views import ClaimView
from konverge.reconcilers.quota.words import QuotaAnnotation

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["write_claims"]


async def write_claims(
    observed: PoolObservation,
    writes: PoolWrites,
    outcomes: WriteOutcomes,
    ctx: Context[ResourcePool],
    parallel: int,
) -> None:
    """Remove the release annotations that have taken effect, then write the statuses, with an Event for each transition."""
    stripped = await _remove_release_annotations(writes.spent_releases, outcomes, ctx, parallel)

    async def write(item: tuple[ClaimView, ClaimDecision]) -> None:
        claim, decision = item
        if claim.uid in outcomes.unsure:
            return
        place = place_after(claim, decision, observed.pool)
        try:
            sent = await ctx.write_status(
                CLAIM,
                expect=stripped.get(claim.uid, claim.metadata),
                status=claim_status(claim, decision, place, ctx.now(), observed.semantics),
            )
        except ObjectChanged:
            outcomes.again = True
            return
        except KonvergeError as error:
            outcomes.error = error
            return
        event = claim_event(claim, decision) if sent else None
        if event is not None:
            ctx.event_about(CLAIM, claim.metadata, event[0], decision.message, type_=event[1], action=event[2])

    await for_each(writes.claim_statuses, write, parallel)


async def _remove_release_annotations(
    claims: Iterable[ClaimView], outcomes: WriteOutcomes, ctx: Context[ResourcePool], parallel: int
) -> dict[str, Metadata]:
    """Return the stored metadata by uid; the status of a claim that changed since it was read is not written."""
    stripped: dict[str, Metadata] = {}

    async def write(claim: ClaimView) -> None:
        patch = {"metadata": {"annotations": {QuotaAnnotation.RELEASE: None}}}
        try:
            stored = await ctx.patch(CLAIM, expect=claim.metadata, patch=patch)
        except ObjectChanged:
            outcomes.unsure.add(claim.uid)
            outcomes.again = True
        except KonvergeError as error:
            outcomes.unsure.add(claim.uid)
            outcomes.error = error
        else:
            stripped[claim.uid] = stored.metadata

    await for_each(claims, write, parallel)
    return stripped
