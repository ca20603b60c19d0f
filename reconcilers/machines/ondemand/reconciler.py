"""The reconciler of Pods on demand: the async shell around `decide`.

One key, the NstanceCluster of the operator, for all Pods. The labels of Machines show which objects to delete, so a Pod that finished or
was deleted while the operator was down is handled like any other, and needs no finalizer.

Guarantees: before an object is created for a Pod, the Pod and all objects of Pods are read live, so no stale cache gives a Pod two
Machines. An object is deleted only if a live read shows that the Pod finished, that no Pod has its uid, or that the NstanceMachine of its
Machine does not exist any more. A Pod whose namespace has no allowance causes one Event and no read. Nothing is created while the Cluster
is being deleted: Cluster API would delete it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from konverge.errors import AlreadyExists, BadRequest, Forbidden, Invalid
from konverge.kinds import Kind
from konverge.objects import Metadata, Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.gates import pause_of
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE, NSTANCE_MACHINE, POD
from konverge.reconcilers.machines.ondemand.allowances import demand_problem, over_limit, unknown_group
from konverge.reconcilers.machines.ondemand.decide import OnDemandAction, OnDemandStep, Seen, next_steps
from konverge.reconcilers.machines.ondemand.observe import (
    BY_DEMAND,
    Demand,
    MadeObject,
    PodRef,
    PodState,
    demand_of,
    made_object,
    pod_state,
)
from konverge.reconcilers.machines.ondemand.render import infrastructure, machine
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.words import MachinesEvent, MachinesLabel
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["OnDemandReconciler"]


class OnDemandReconciler:
    """Keeps one Machine for each Pod that requests an instance and waits for a Node."""

    def __init__(self, service: NstanceService) -> None:
        self._service = service
        self._states: dict[str, tuple[str, PodState]] = {}
        """The state of a Pod by uid, and the cached version of the Pod at that read."""
        self._refused: set[str] = set()

    async def reconcile(self, cluster: Object, ctx: Context[Object]) -> Outcome:
        """Create and delete the objects of Pods."""
        ctx.status.skip_write()  # another controller has it
        settings, metadata = self._service.settings, cluster.metadata
        if (metadata.namespace, metadata.name) != (self._service.namespace, settings.cluster_name):
            return Done()
        if metadata.deleting or pause_of(metadata, ctx.cache, cluster=settings.cluster_name):
            return Done()
        cached = {
            kind: [made_object(one) for one in ctx.cache(kind).all_metadata(metadata.namespace)]
            for kind in (NSTANCE_MACHINE, MACHINE)
        }
        demands, refused, unknown = self._demands(cached, ctx)
        seen = Seen(demands, tuple(cached[NSTANCE_MACHINE]), tuple(cached[MACHINE]))
        self._forget({pod.uid for pod in (*seen.pods, *refused)})
        for pod, why in refused.items():
            self._report(pod, why, ctx)
        steps = await self._steps(seen, ctx)
        if any(step.rests_on_absence for step in steps):
            stored = {kind: await _stored(kind, cached[kind], metadata.namespace, ctx) for kind in cached}
            seen = Seen(demands, stored[NSTANCE_MACHINE], stored[MACHINE])
            for step in steps:
                if step.creates:
                    self._states.pop(step.pod.uid, None)
            steps = await self._steps(seen, ctx)
        if any(step.creates for step in steps) and await self._cluster_goes(metadata.namespace, ctx):
            steps = tuple(step for step in steps if not step.creates)  # the next Cluster enqueues this key
        outcome = await self._carry_out(steps, metadata.namespace, ctx)
        # No event reports that a shard has another group.
        return RequeueAfter(settings.poll) if unknown and isinstance(outcome, Done) else outcome

    def _demands(
        self, made: Mapping[Kind[Object], list[MadeObject]], ctx: Context[Object]
    ) -> tuple[tuple[Demand, ...], dict[PodRef, str], bool]:
        """Return the demands that may be met, the refused demands with their reasons, and whether a refused demand names an unknown group.

        Nothing is read or created for a refused demand. A Pod that already has objects keeps them.
        """
        settings, home = self._service.settings, self._service.namespace
        served = {one.pod.uid for found in made.values() for one in found if one.pod is not None}
        demands, refused, unknown = [], {}, False
        for metadata in ctx.cache(POD).metadata_by_index(BY_DEMAND, BY_DEMAND):
            demand = demand_of(metadata)
            if demand is None:
                continue
            if why := demand_problem(demand, settings.on_demand_allowances, home=home):
                if demand.pod.uid not in served:
                    refused[demand.pod] = why
            elif demand.pod.uid not in served and self._service.states.lacks(demand.group):
                refused[demand.pod] = unknown_group(demand)
                unknown = True
            else:
                demands.append(demand)
        return tuple(demands), refused, unknown

    async def _steps(self, seen: Seen, ctx: Context[Object]) -> tuple[OnDemandStep, ...]:
        limit = partial(
            over_limit, allowances=self._service.settings.on_demand_allowances, home=self._service.namespace
        )
        states = {pod: await self._state(pod, ctx) for pod in seen.pods}
        return next_steps(seen, states, lambda demand, used: limit(demand, used=used))

    def _forget(self, present: set[str]) -> None:
        self._states = {uid: known for uid, known in self._states.items() if uid in present}
        self._refused &= present

    async def _state(self, pod: PodRef, ctx: Context[Object]) -> PodState:
        """Return the state of a Pod, read live if its cached version is new."""
        if not pod.namespace or not pod.name:  # its labels were changed by hand
            return PodState.SCHEDULED
        cached = ctx.cache(POD).metadata(pod.namespace, pod.name)
        version = cached.resource_version if cached is not None and cached.uid == pod.uid else ""
        known = self._states.get(pod.uid)
        if known is not None and (known[1] is PodState.ENDED or (version and known[0] == version)):
            return known[1]
        state = pod_state(await ctx.live(POD).find(pod.namespace, pod.name), pod.uid)
        self._states[pod.uid] = (version, state)
        return state

    async def _cluster_goes(self, namespace: str, ctx: Context[Object]) -> bool:
        """Tell whether the Cluster is being deleted or does not exist; the operator creates the next Cluster."""
        found = await ctx.live(CLUSTER).find(namespace, self._service.settings.cluster_name)
        return found is None or found.metadata.deleting

    async def _carry_out(self, steps: tuple[OnDemandStep, ...], namespace: str, ctx: Context[Object]) -> Outcome:
        """Carry out all steps; a step that the API server refuses holds up no other, and is raised at the end."""
        again, refused = False, None
        for step in steps:
            try:
                if step.creates:
                    await self._create(step, namespace, ctx)
                elif step.action is OnDemandAction.REFUSE:
                    self._report(step.pod, step.message, ctx)
                else:
                    kind = NSTANCE_MACHINE if step.action is OnDemandAction.DELETE_INFRASTRUCTURE else MACHINE
                    await ctx.delete(kind, step.name, namespace, uid=step.uid)
                    self._say(
                        step.pod, MachinesEvent.ON_DEMAND_DELETED, f"{kind.kind} {step.name}: {step.message}", ctx
                    )
            except AlreadyExists:
                again = True
            except (BadRequest, Forbidden, Invalid) as error:
                refused = refused or error
                self._report(step.pod, str(error), ctx)
        if refused is not None:
            raise refused
        return RequeueAfter(self._service.settings.unreachable_retry) if again else Done()

    async def _create(self, step: OnDemandStep, namespace: str, ctx: Context[Object]) -> None:
        assert step.demand is not None
        settings = self._service.settings
        place: dict[str, Any] = {"name": step.name, "namespace": namespace, "cluster": settings.cluster_name}
        place["labels"] = settings.filter_labels
        if step.action is OnDemandAction.CREATE_BOTH:
            await ctx.client.create(infrastructure(step.demand, **place))
        await ctx.client.create(machine(step.demand, **place))
        self._refused.discard(step.pod.uid)
        message = f"Machine {namespace}/{step.name} of group {step.demand.group} was made for it"
        self._say(step.pod, MachinesEvent.ON_DEMAND_CREATED, message, ctx)

    def _report(self, pod: PodRef, why: str, ctx: Context[Object]) -> None:
        """Report once why a Pod gets no instance."""
        if pod.uid not in self._refused:
            self._refused.add(pod.uid)
            self._say(pod, MachinesEvent.ON_DEMAND_REFUSED, why, ctx, type_=EventType.WARNING)

    def _say(self, pod: PodRef, reason: str, message: str, ctx: Context[Object], type_: str = EventType.NORMAL) -> None:
        about = Metadata(name=pod.name, namespace=pod.namespace, uid=pod.uid)
        ctx.event_about(POD, about, reason, message, type_=type_)


async def _stored(
    kind: Kind[Object], cached: list[MadeObject], namespace: str, ctx: Context[Object]
) -> tuple[MadeObject, ...]:
    """Return the stored objects of Pods as they are now, and the cached objects that are no longer stored."""
    found = await ctx.live(kind).list(namespace, labels=MachinesLabel.POD_UID)
    return (*(made_object(one.metadata) for one in found), *(one for one in cached if one.pod is None))
