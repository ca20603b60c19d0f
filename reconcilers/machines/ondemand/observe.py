"""The Pods that request an instance, their objects, and their states.

Only the metadata of Pods is cached: a cluster has many, and few request an instance. The phase and Node of these few are read live.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE, NSTANCE_MACHINE, POD
from konverge.reconcilers.machines.ondemand.allowances import demand_problem, unknown_group
from konverge.reconcilers.machines.ondemand.demand import (
    Demand,
    MadeObject,
    PodRef,
    PodState,
    demand_of,
    made_object,
    pod_state,
)
from konverge.reconcilers.machines.ondemand.indexes import BY_DEMAND
from konverge.reconcilers.machines.words import MachinesLabel

if TYPE_CHECKING:
    from konverge.reconcilers.machines.service import NstanceService
    from konverge.runtime import Context

__all__ = ["ObservedPods", "PodStates", "cluster_ends", "observe_cached", "observe_stored"]


@dataclass(frozen=True, slots=True)
class ObservedPods:
    """All Pods that request an instance, and all objects in the namespace of the Cluster."""

    demands: tuple[Demand, ...]
    infrastructure: tuple[MadeObject, ...]
    machines: tuple[MadeObject, ...]
    refused: Mapping[PodRef, str] = field(default_factory=dict)
    """The reasons of the refused demands; nothing is read or created for them."""
    unknown_groups: bool = False
    """Whether a refused demand names a group that no shard has."""

    @property
    def pods(self) -> set[PodRef]:
        """The Pods whose state the decision needs."""
        known = {demand.pod.uid: demand.pod for demand in self.demands}
        pods = (created.pod for created in (*self.infrastructure, *self.machines) if created.pod is not None)
        return {*known.values(), *(known.get(pod.uid, pod) for pod in pods)}


class PodStates:
    """The states of Pods, read live if the cached version of a Pod is new."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[str, PodState]] = {}
        """The state of a Pod by uid, and the cached version of the Pod at that read."""

    async def read(self, pods: Collection[PodRef], ctx: Context[Object]) -> dict[PodRef, PodState]:
        """Return the state of each Pod."""
        return {pod: await self._read(pod, ctx) for pod in pods}

    def keep(self, uids: Collection[str]) -> None:
        """Forget the other Pods."""
        self._states = {uid: state for uid, state in self._states.items() if uid in uids}

    def forget(self, pod: PodRef) -> None:
        """Read a Pod live at its next read."""
        self._states.pop(pod.uid, None)

    async def _read(self, pod: PodRef, ctx: Context[Object]) -> PodState:
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


def observe_cached(namespace: str, ctx: Context[Object], service: NstanceService) -> ObservedPods:
    """Return the Pods and their objects by the caches. A Pod that already has objects keeps them."""
    settings, home = service.settings, service.namespace
    infrastructure, machines = (
        tuple(made_object(metadata) for metadata in ctx.cache(kind).all_metadata(namespace))
        for kind in (NSTANCE_MACHINE, MACHINE)
    )
    served = {created.pod.uid for created in (*infrastructure, *machines) if created.pod is not None}
    demands, refused, unknown = [], {}, False
    for metadata in ctx.cache(POD).metadata_by_index(BY_DEMAND, BY_DEMAND):
        demand = demand_of(metadata)
        if demand is None:
            continue
        if problem := demand_problem(demand, settings.on_demand_allowances, home=home):
            if demand.pod.uid not in served:
                refused[demand.pod] = problem
        elif demand.pod.uid not in served and service.states.lacks(demand.group):
            refused[demand.pod] = unknown_group(demand)
            unknown = True
        else:
            demands.append(demand)
    return ObservedPods(tuple(demands), infrastructure, machines, refused, unknown)


async def observe_stored(cached: ObservedPods, namespace: str, ctx: Context[Object]) -> ObservedPods:
    """Return the same Pods with their objects as the API server has them now; the cached objects of no Pod stay."""
    infrastructure = await _stored(NSTANCE_MACHINE, cached.infrastructure, namespace, ctx)
    machines = await _stored(MACHINE, cached.machines, namespace, ctx)
    return replace(cached, infrastructure=infrastructure, machines=machines)


async def _stored(
    kind: Kind[Object], cached: tuple[MadeObject, ...], namespace: str, ctx: Context[Object]
) -> tuple[MadeObject, ...]:
    stored = await ctx.live(kind).list(namespace, labels=MachinesLabel.POD_UID)
    return (
        *(made_object(object_.metadata) for object_ in stored),
        *(created for created in cached if created.pod is None),
    )


async def cluster_ends(namespace: str, ctx: Context[Object], service: NstanceService) -> bool:
    """Tell whether the Cluster is being deleted or does not exist; the operator creates the next Cluster."""
    cluster = await ctx.live(CLUSTER).find(namespace, service.settings.cluster_name)
    return cluster is None or cluster.metadata.deleting
