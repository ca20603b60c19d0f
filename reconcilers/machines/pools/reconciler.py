"""The reconciler of NstanceMachinePools.

Guarantees: a MachinePool is created only if the pool has none and never had one, with the servers' number of replicas at that time, so that
its creation scales nothing. After that its replicas are read and never written. A pool that is being deleted waits for its shard groups,
which delete the group on the servers; the pool itself calls no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceMachinePool
from konverge.outcome import Outcome
from konverge.reconcilers.machines.gates import finalize_gate, reconcile_gate
from konverge.reconcilers.machines.pools.act import create_machine_pool
from konverge.reconcilers.machines.pools.decide import plan_deletion, plan_writes
from konverge.reconcilers.machines.pools.observe import machine_pool_of, observe, owned_groups
from konverge.reconcilers.machines.pools.unlisted import UnlistedIds
from konverge.reconcilers.machines.service import NstanceService

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["MachinePoolReconciler"]


class MachinePoolReconciler:
    """Distributes the replicas of a MachinePool over the shards of its pool."""

    def __init__(self, service: NstanceService) -> None:
        self._service = service
        self._unlisted = UnlistedIds()

    async def reconcile(self, pool: NstanceMachinePool, ctx: Context[NstanceMachinePool]) -> Outcome:
        """Write the shard groups, the provider ids and the status."""
        if (closed := reconcile_gate(ctx, self._service)) is not None:
            return closed
        owner = machine_pool_of(pool.metadata, ctx)
        observed = observe(pool, owner, self._unlisted, ctx, self._service)
        if owner is None and not observed.duplicate_of:
            problem = await create_machine_pool(pool, ctx, self._service)
            observed = observe(pool, owner, self._unlisted, ctx, self._service, problem)
        plan = plan_writes(pool, observed, self._service.settings)
        outcome = await ctx.execute(plan)
        if plan.children is None:
            self._service.states.wait_for_all(ctx.key)
        return outcome

    async def finalize(self, pool: NstanceMachinePool, ctx: Context[NstanceMachinePool]) -> Outcome:
        """Delete the shard groups; Done once none exists. A pool of another namespace has none."""
        if (closed := finalize_gate(ctx, self._service)) is not None:
            return closed
        self._unlisted.forget(pool.uid)
        return await ctx.execute(plan_deletion(owned_groups(pool.metadata, ctx), self._service.settings))
