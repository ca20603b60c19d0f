"""The sweeper: instances whose Nextcloud was deleted without having released them, for instance because its finalizer was removed by hand.

Guarantees: an instance is an orphan only if the API server itself has no Nextcloud of its claim's UID, or if a pool has it in its record
and the Nextcloud does not: then the claim is not the operator's. It is marked first, with an event, and reclaimed by its policy after a
grace time. It never returns to a pool. An orphan whose deletion was refused is marked and released like any other orphan.

Caveats: every writer of spec.claimRef of an instance can have that instance reclaimed, and only that instance.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from konverge.objects import Object
from konverge.outcome import Done, Outcome
from konverge.reconcilers.pools.orphans.decide import is_due, plan_claim
from konverge.reconcilers.pools.orphans.observe import observe, stored_instance
from konverge.reconcilers.pools.release import release_step
from konverge.reconcilers.pools.settings import PoolSettings

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["OrphanReconciler"]


class OrphanReconciler:
    """Reclaims instances whose Nextcloud was deleted."""

    def __init__(self, settings: PoolSettings) -> None:
        self._grace = timedelta(seconds=settings.orphan_grace)

    async def reconcile(self, instance: Object, ctx: Context[Object]) -> Outcome:
        """Mark an orphan, and release it after the grace time."""
        ctx.status.skip_write()
        observed = await observe(instance, ctx)
        if not is_due(observed, ctx.now(), self._grace):
            return await ctx.execute(plan_claim(observed, ctx.now(), self._grace))
        stored = await stored_instance(observed.instance, ctx)
        if stored is not None:
            await release_step(stored, observed.uid, ctx)
        return Done()
