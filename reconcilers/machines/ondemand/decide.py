"""The next step of each Pod on demand, and of each object that was created for a Pod. Pure.

An object belongs to the Pod whose uid its labels have, never to a name. A new Pod with the name of a deleted Pod waits until the deleted
Pod's objects do not exist any more; a Pod with the name of a Pod of another namespace gets a name with a hash.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from konverge.reconcilers.machines.ondemand.demand import Demand, MadeObject, PodRef, PodState
from konverge.reconcilers.machines.ondemand.observe import ObservedPods
from konverge.reconcilers.machines.ondemand.render import machine_name

__all__ = ["OnDemandAction", "OnDemandStep", "next_steps"]


class OnDemandAction(enum.Enum):
    """The action of a step."""

    CREATE_BOTH = "create both"
    """The NstanceMachine, then the Machine: Cluster API is slow to notice infrastructure that is created after its Machine."""
    CREATE_MACHINE = "create the Machine"
    DELETE_MACHINE = "delete the Machine"
    REPLACE_MACHINE = "delete the Machine whose NstanceMachine was deleted"
    DELETE_INFRASTRUCTURE = "delete the NstanceMachine"
    """Only without a Machine, whose deletion takes it along."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class OnDemandStep:
    """One step: `demand` is given to create or to refuse; `uid` names the object to delete."""

    action: OnDemandAction
    pod: PodRef
    name: str = ""
    demand: Demand | None = None
    uid: str = ""
    message: str = ""

    @property
    def creates(self) -> bool:
        """Whether the step creates an object."""
        return self.action in (OnDemandAction.CREATE_BOTH, OnDemandAction.CREATE_MACHINE)

    @property
    def rests_on_absence(self) -> bool:
        """Whether the step is due because an object is missing: possibly only in a cache that lags."""
        return self.creates or self.action in (OnDemandAction.REPLACE_MACHINE, OnDemandAction.DELETE_INFRASTRUCTURE)


@dataclass(slots=True)
class _Pair:
    """The objects of one name that were created for one Pod."""

    name: str
    infrastructure: MadeObject | None = None
    machine: MadeObject | None = None


def _no_limit(_: Demand, __: int) -> str:
    return ""


def next_steps(
    observed: ObservedPods, states: Mapping[PodRef, PodState], over_limit: Callable[[Demand, int], str] = _no_limit
) -> tuple[OnDemandStep, ...]:
    """Return the steps, in the order of the Pods; `states` has a state for each of `observed.pods`.

    `over_limit` returns why a demand has to wait if so many Pods of its namespace have objects, else "".
    """
    taken = {created.name: created.pod for created in (*observed.infrastructure, *observed.machines)}
    demands = {demand.pod.uid: demand for demand in observed.demands}
    steps: list[OnDemandStep] = []
    present = _pairs(observed)
    for pod, pairs in present.items():
        steps += _of_pairs(pod, pairs, states[pod], demands.get(pod.uid))
    served = {pod.uid for pod in present}
    used = Counter(pod.namespace for pod in present)
    for demand in sorted(observed.demands, key=lambda demand: demand.pod):
        pod = demand.pod
        if pod.uid in served or states[pod] is not PodState.WAITING:
            continue
        if why := over_limit(demand, used[pod.namespace]):
            steps.append(OnDemandStep(OnDemandAction.REFUSE, pod, demand=demand, message=why))
        elif name := _free_name(pod, taken):
            taken[name] = pod
            used[pod.namespace] += 1
            steps.append(OnDemandStep(OnDemandAction.CREATE_BOTH, pod, name, demand))
    return tuple(steps)


def _pairs(observed: ObservedPods) -> dict[PodRef, list[_Pair]]:
    """Return the objects of each Pod, sorted. An existing Pod is known by its uid: names in annotations may have been changed."""
    known = {demand.pod.uid: demand.pod for demand in observed.demands}
    pairs: defaultdict[PodRef, dict[str, _Pair]] = defaultdict(dict)

    def pair(created: MadeObject, pod: PodRef) -> _Pair:
        return pairs[known.get(pod.uid, pod)].setdefault(created.name, _Pair(created.name))

    for created in observed.infrastructure:
        if created.pod is not None:
            pair(created, created.pod).infrastructure = created
    for created in observed.machines:
        if created.pod is not None:
            pair(created, created.pod).machine = created
    return {pod: [pairs[pod][name] for name in sorted(pairs[pod])] for pod in sorted(pairs)}


def _of_pairs(pod: PodRef, pairs: Iterable[_Pair], state: PodState, demand: Demand | None) -> Iterator[OnDemandStep]:
    pairs = list(pairs)
    has_machine = any(pair.machine is not None for pair in pairs)
    for pair in pairs:
        infra, machine = pair.infrastructure, pair.machine
        if state is PodState.ENDED:
            if machine is not None:
                if not machine.deleting:
                    yield OnDemandStep(
                        OnDemandAction.DELETE_MACHINE, pod, pair.name, uid=machine.uid, message="its pod has ended"
                    )
            elif infra is not None and not infra.deleting:
                yield OnDemandStep(
                    OnDemandAction.DELETE_INFRASTRUCTURE, pod, pair.name, uid=infra.uid, message="its pod has ended"
                )
        elif state is PodState.WAITING and demand is not None:
            if machine is not None and infra is None and not machine.deleting:
                message = "its NstanceMachine was deleted"
                yield OnDemandStep(OnDemandAction.REPLACE_MACHINE, pod, pair.name, uid=machine.uid, message=message)
            elif infra is not None and not infra.deleting and not has_machine:
                has_machine = True
                yield OnDemandStep(OnDemandAction.CREATE_MACHINE, pod, pair.name, demand)


def _free_name(pod: PodRef, taken: Mapping[str, PodRef | None]) -> str:
    """Return the name of the new objects of a Pod; "" while objects of another Pod of its name exist."""
    for name in (machine_name(pod), machine_name(pod, with_namespace=True)):
        if name not in taken:
            return name
        holder = taken[name]
        if holder is not None and holder.path == pod.path:
            return ""
    return ""
