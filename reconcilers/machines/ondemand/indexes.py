"""The indexes of Pods and of their objects, and the Clusters that a change of them concerns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from konverge.objects import Metadata, Object
from konverge.reconcilers.machines.kinds import MACHINE, NSTANCE_CLUSTER, NSTANCE_MACHINE
from konverge.reconcilers.machines.ondemand.demand import demand_of
from konverge.reconcilers.machines.words import MachinesLabel

if TYPE_CHECKING:
    from konverge.keys import Key
    from konverge.runtime import Caches

__all__ = ["BY_DEMAND", "BY_POD", "by_demand", "by_pod", "clusters_of_object", "clusters_of_pod"]

BY_DEMAND: Final = "on-demand"
BY_POD: Final = "pod"


def by_demand(metadata: Metadata) -> tuple[str, ...]:
    """Return the values of the index BY_DEMAND of Pods."""
    return (BY_DEMAND,) if demand_of(metadata) is not None else ()


def by_pod(created: Object) -> tuple[str, ...]:
    """Return the values of the index BY_POD of Machines and NstanceMachines."""
    uid = created.metadata.label(MachinesLabel.POD_UID)
    return (uid,) if uid else ()


def clusters_of_pod(pod: Metadata, caches: Caches) -> Iterable[Key]:
    """Map a Pod that requests or has an instance to the Clusters."""
    concerned = demand_of(pod) is not None or any(
        caches(kind).metadata_by_index(BY_POD, pod.uid) for kind in (MACHINE, NSTANCE_MACHINE)
    )
    return caches(NSTANCE_CLUSTER).keys() if concerned else ()


def clusters_of_object(created: Object, caches: Caches) -> Iterable[Key]:
    """Map an object that was created for a Pod to the Cluster in its namespace."""
    return caches(NSTANCE_CLUSTER).keys(namespace=created.namespace) if by_pod(created) else ()
