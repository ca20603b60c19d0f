"""The reconciler of Pods on demand.

One key, the NstanceCluster of the operator, for all Pods. The labels of Machines show which objects to delete, so a Pod that finished or
was deleted while the operator was down is handled like any other, and needs no finalizer.

Guarantees: before an object is created for a Pod, the Pod and all objects of Pods are read live, so no stale cache gives a Pod two
Machines. An object is deleted only if a live read shows that the Pod finished, that no Pod has its uid, or that the NstanceMachine of its
Machine does not exist any more. A Pod whose namespace has no allowance causes one Event and no read. Nothing is created while the Cluster
is being deleted: Cluster API would delete it again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from konverge.errors import AlreadyExists, BadRequest, Forbidden, Invalid
from konverge.objects import Metadata, Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.kinds import POD
from konverge.reconcilers.machines.ondemand.act import create_objects, delete_object
from konverge.reconcilers.machines.ondemand.allowances import over_limit
from konverge.reconcilers.machines.ondemand.decide import OnDemandAction, OnDemandStep, next_steps
from konverge.reconcilers.machines.ondemand.demand import PodRef
from konverge.reconcilers.machines.ondemand.observe import (
    ObservedPods,
    PodStates,
    cluster_ends,
    observe_cached,
    observe_stored,
)
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.words import MachinesEvent
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["OnDemandReconciler"]


class OnDemandReconciler:
    """Keeps one Machine for each Pod that requests an instance and waits for a Node."""

    def __init__(self, service: NstanceService) -> None:
        self._service = service
        self._states = PodStates()
        self._refused: set[str] = set()
        """The uids of the Pods with an Event about the refusal."""

    async def reconcile(self, cluster: Object, ctx: Context[Object]) -> Outcome:
        """Create and delete the objects of Pods."""
        ctx.status.skip_write()  # another controller has it
        settings, metadata = self._service.settings, cluster.metadata
        if (metadata.namespace, metadata.name) != (self._service.namespace, settings.cluster_name):
            return Done()
        observed = observe_cached(metadata.namespace, ctx, self._service)
        self._forget({pod.uid for pod in (*observed.pods, *observed.refused)})
        for pod, problem in observed.refused.items():
            self._report(pod, problem, ctx)
        steps = await self._steps(observed, ctx)
        if any(step.rests_on_absence for step in steps):
            observed = await observe_stored(observed, metadata.namespace, ctx)
            for step in steps:
                if step.creates:
                    self._states.forget(step.pod)
            steps = await self._steps(observed, ctx)
        if any(step.creates for step in steps) and await cluster_ends(metadata.namespace, ctx, self._service):
            steps = tuple(step for step in steps if not step.creates)  # the next Cluster enqueues this key
        outcome = await self._carry_out(steps, metadata.namespace, ctx)
        # No event reports that a shard has another group.
        return RequeueAfter(settings.poll) if observed.unknown_groups and isinstance(outcome, Done) else outcome

    async def _steps(self, observed: ObservedPods, ctx: Context[Object]) -> tuple[OnDemandStep, ...]:
        allowances, home = self._service.settings.on_demand_allowances, self._service.namespace
        limit = partial(over_limit, allowances=allowances, home=home)
        states = await self._states.read(observed.pods, ctx)
        return next_steps(observed, states, lambda demand, used: limit(demand, used=used))

    async def _carry_out(self, steps: tuple[OnDemandStep, ...], namespace: str, ctx: Context[Object]) -> Outcome:
        """Carry out all steps; a step that the API server refuses holds up no other, and is raised at the end."""
        again, refused = False, None
        for step in steps:
            try:
                await self._carry_out_step(step, namespace, ctx)
            except AlreadyExists:
                again = True
            except (BadRequest, Forbidden, Invalid) as error:
                refused = refused or error
                self._report(step.pod, str(error), ctx)
        if refused is not None:
            raise refused
        return RequeueAfter(self._service.settings.unreachable_retry) if again else Done()

    async def _carry_out_step(self, step: OnDemandStep, namespace: str, ctx: Context[Object]) -> None:
        if step.action is OnDemandAction.REFUSE:
            self._report(step.pod, step.message, ctx)
        elif step.creates:
            message = await create_objects(step, namespace, ctx, self._service.settings)
            self._refused.discard(step.pod.uid)
            _record(step.pod, MachinesEvent.ON_DEMAND_CREATED, message, ctx)
        else:
            _record(step.pod, MachinesEvent.ON_DEMAND_DELETED, await delete_object(step, namespace, ctx), ctx)

    def _forget(self, present: set[str]) -> None:
        self._states.keep(present)
        self._refused &= present

    def _report(self, pod: PodRef, problem: str, ctx: Context[Object]) -> None:
        """Report once why a Pod gets no instance."""
        if pod.uid not in self._refused:
            self._refused.add(pod.uid)
            _record(pod, MachinesEvent.ON_DEMAND_REFUSED, problem, ctx, type_=EventType.WARNING)


def _record(pod: PodRef, reason: str, message: str, ctx: Context[Object], type_: str = EventType.NORMAL) -> None:
    about = Metadata(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    ctx.event_about(POD, about, reason, message, type_=type_)
