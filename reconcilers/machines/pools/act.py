"""Creates the MachinePool of a pool that never had one; whether the API server accepts it decides the pool's next status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceMachinePool
from konverge.errors import AlreadyExists
from konverge.reconcilers.machines.clusters.render import machine_pool
from konverge.reconcilers.machines.kinds import MACHINE_POOL
from konverge.reconcilers.machines.pools.decide import creation_problem
from konverge.reconcilers.machines.words import MachinesLabel

if TYPE_CHECKING:
    from konverge.reconcilers.machines.service import NstanceService
    from konverge.runtime import Context

__all__ = ["create_machine_pool"]


async def create_machine_pool(
    pool: NstanceMachinePool, ctx: Context[NstanceMachinePool], service: NstanceService
) -> str:
    """Create the MachinePool with the servers' number of replicas, so that its creation scales nothing.

    Returns why the pool has no MachinePool yet.
    """
    settings, replicas = service.settings, service.states.size_of(pool.spec.group)
    name_taken = ctx.cache(MACHINE_POOL).metadata(pool.namespace, pool.name) is not None
    problem = creation_problem(pool, replicas, name_taken=name_taken)
    if problem or replicas is None:
        return problem
    created = machine_pool(
        pool.name,
        pool.namespace,
        cluster=pool.metadata.label(MachinesLabel.CLUSTER) or settings.cluster_name,
        replicas=replicas,
        labels=settings.filter_labels,
    )
    try:
        await ctx.client.create(created)
    except AlreadyExists:
        return "waits for the cache to show its MachinePool"
    return "its MachinePool was made"
