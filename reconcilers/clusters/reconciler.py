"""The reconciler of Clusters: observe, decide, let the agent run, execute.

`reconcile`: the agent registers, polls and stores credentials (`agent.py`); the service returns its state, which the status reports.
`finalize`: stop the agent, delete its Secrets.

Guarantees: of a token, only the first part of its SHA-256 is reported. A token, a request for rotation and an annotation are removed only
once their effect is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import TYPE_CHECKING

from konverge.crds.ops_v1alpha1 import Cluster, ClusterStatus
from konverge.errors import BadRequest, Invalid, RetryAfter
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.clusters.decide import AgentDecision, decide_agent
from konverge.reconcilers.clusters.kinds import SECRET
from konverge.reconcilers.clusters.observe import ObservedCluster, observe, owned_secrets, present_objects
from konverge.reconcilers.clusters.service import AgentService
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.status import ClusterView, plan_status
from konverge.reconcilers.clusters.words import Annotation, ClusterCondition, ControllersHealthy, Event, PhaseName
from konverge.reconcilers.shared.delays import NEXT_STEP
from konverge.runtime import Delete, Plan

if TYPE_CHECKING:
    from konverge.runtime import Context, Report

__all__ = ["ClusterReconciler", "report_failure"]


class ClusterReconciler:
    """Reconciles a Cluster into a running agent. `report` returns the readiness of the controllers of the manager."""

    def __init__(self, settings: Settings, service: AgentService, report: Callable[[], Report]) -> None:
        self.settings = settings
        self._service = service
        self._report = report

    async def reconcile(self, cluster: Cluster, ctx: Context[Cluster]) -> Outcome:
        """Let the agent run, and set the status from its state."""
        self._service.statuses = present_objects(ctx)
        observed = await observe(cluster, self.settings, self._report(), ctx)
        decision = decide_agent(observed, self.settings)
        await self._run(observed, decision)
        if decision.patch:
            await self._remove_used(cluster, decision, ctx)
            return Done()  # the change is an event, and the next reconcile writes the status
        if decision.forgets_rotation and observed.secret is not None:
            about = {"uid": observed.secret.uid, "annotations": {Annotation.ROTATED_FOR: None}}
            await ctx.patch(SECRET, observed.secret.name, observed.secret.namespace, patch={"metadata": about})
        issued = None if observed.credentials is None else observed.credentials.issued()
        if issued is not None:
            age = (ctx.now() - issued.astimezone(UTC)).total_seconds()
            self._service.metrics.credential_age.set(max(age, 0.0))
        view = ClusterView(
            observed=observed,
            problem=decision.problem,
            state=self._service.state(cluster.name),
            overflowed=self._service.overflowed(cluster.name),
        )
        return await ctx.execute(plan_status(view, self.settings, ctx.now()))

    async def _run(self, observed: ObservedCluster, decision: AgentDecision) -> None:
        if decision.config is None:
            await self._service.forget(observed.cluster.name)
        else:
            version = "" if observed.secret is None else observed.secret.resource_version
            self._service.want(observed.cluster.name, decision.config, version)

    async def _remove_used(self, cluster: Cluster, decision: AgentDecision, ctx: Context[Cluster]) -> None:
        try:
            await ctx.patch(Cluster, expect=cluster, patch=decision.patch)
        except (Invalid, BadRequest) as error:  # as a rule a webhook's refusal; heartbeats continue
            raise RetryAfter(
                self.settings.heartbeat, f"a used token or request cannot be removed ({type(error).__name__})"
            ) from None
        if decision.rotated:
            ctx.event(Event.CREDENTIAL_ROTATED, "the credential was replaced by a new one")

    async def finalize(self, cluster: Cluster, ctx: Context[Cluster]) -> Outcome:
        """Stop the agent, then delete its Secrets."""
        if cluster.status.phase != PhaseName.TERMINATING:
            return await ctx.execute(
                Plan(draft=ClusterStatus(phase=PhaseName.TERMINATING), outcome=RequeueAfter(NEXT_STEP))
            )
        await self._service.forget(cluster.name)
        owned = await owned_secrets(cluster, self.settings, ctx)
        return await ctx.execute(
            Plan(deletes=tuple(Delete(SECRET, each.name, each.namespace, uid=each.uid) for each in owned))
        )


def report_failure(_cluster: Cluster, ctx: Context[Cluster], message: str) -> None:
    """Report a reconcile that failed, and a Cluster that does not decode: a Cluster has no condition Ready."""
    ctx.status.set_condition(
        ClusterCondition.CONTROLLERS_HEALTHY, False, ControllersHealthy.CONTROLLER_DEGRADED, message
    )
