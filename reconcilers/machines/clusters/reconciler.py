"""The reconciler of NstanceClusters: it reads the document of shards, fulfils the contract of a Cluster, and imports groups.

Guarantees: an invalid or missing document changes nothing about the shards in use. A group is imported once, after every shard has listed
its groups in this term of leadership; the API server is read before, so a stale cache creates no second pool. No existing object is
changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceCluster
from konverge.outcome import Outcome
from konverge.reconcilers.machines.clusters.act import import_pool
from konverge.reconcilers.machines.clusters.decide import next_check, plan_provisioning, shards_condition
from konverge.reconcilers.machines.clusters.observe import authority_version, observe_document, observe_imports
from konverge.reconcilers.machines.gates import reconcile_gate
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.words import MachinesEvent
from konverge.runtime import Plan
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NstanceClusterReconciler"]


class NstanceClusterReconciler:
    """Reconciles NstanceClusters; the operator's own NstanceCluster also has the document of shards and the imports."""

    def __init__(self, service: NstanceService) -> None:
        self._service = service
        self._reported: set[str] = set()

    async def reconcile(self, cluster: NstanceCluster, ctx: Context[NstanceCluster]) -> Outcome:
        """Read the document, report, and import."""
        service, settings, states = self._service, self._service.settings, self._service.states
        if (closed := reconcile_gate(ctx, service)) is not None:
            return closed
        ours, refused = (cluster.namespace, cluster.name) == (service.namespace, settings.cluster_name), False
        problem = await self._use_document(cluster, ctx) if ours else ""
        if not ctx.paused:
            await ctx.execute(plan_provisioning(cluster, ctx.client.config.server, states.expected, settings))
            refused = ours and await self._import(cluster, ctx)
        return next_check(settings, lasts=refused or (ours and bool(problem or service.problem)))

    async def _use_document(self, cluster: NstanceCluster, ctx: Context[NstanceCluster]) -> str:
        """Connect by the document of shards and the authority, and report; returns the problem of the document, "" if there is none."""
        service, states = self._service, self._service.states
        document = await observe_document(cluster, ctx, service.settings)
        if document.shards is not None:
            service.use(document.shards)
        service.use_authority(authority_version(cluster, ctx, service.settings))
        condition = shards_condition(
            document=document.problem, certificate=service.problem, problems=states.problems, shards=states.expected
        )
        await ctx.execute(Plan(set_conditions=(condition,)))
        return document.problem

    async def _import(self, cluster: NstanceCluster, ctx: Context[NstanceCluster]) -> bool:
        """Create the missing pools; returns whether the API server refused a pool."""
        plan, refused = await observe_imports(cluster, ctx, self._service), False
        for imported in plan.pools:
            problem = await import_pool(imported, cluster, ctx, self._service.settings)
            if problem is not None:
                refused = refused or problem.refused
                self._report(imported.group, problem.message, ctx)
            else:
                message = f"group {imported.group} of {', '.join(imported.shards)} is now a pool"
                ctx.event(MachinesEvent.IMPORTED, message)
        for name in plan.refused:
            self._report(name, "it is not an identifier, so no object can have its name", ctx)
        return refused

    def _report(self, group: str, problem: str, ctx: Context[NstanceCluster]) -> None:
        """Record once why a group is not imported."""
        if group not in self._reported:
            self._reported.add(group)
            message = f"group {group[:64]!r} is not imported: {problem}"
            ctx.event(MachinesEvent.NOT_IMPORTED, message, type_=EventType.WARNING)
