"""The NstanceMachine and the Machine of a Pod on demand. Pure.

No ownerReference leads to the Pod, which may be in another namespace; and Cluster API adopts no infrastructure that has another controller.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from konverge.crds.machines_v1beta1 import GROUP, NstanceMachine, NstanceMachineSpec
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import MACHINE
from konverge.reconcilers.machines.ondemand.demand import LONGEST_LABEL, Demand, PodRef
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel

__all__ = ["infrastructure", "machine", "machine_name", "pod_labels"]


def machine_name(pod: PodRef, *, with_namespace: bool = False) -> str:
    """Return the name of the Machine of a Pod: `on-demand-{pod}`; a name of more than 63 characters is cut and gets a hash.

    `with_namespace` adds the hash to any name: Pods of several namespaces may have one name, and their Machines are in one namespace.

    >>> machine_name(PodRef("web", "job", "1")), machine_name(PodRef("web", "job", "1"), with_namespace=True)
    ('on-demand-job', 'on-demand-job-624b226a37')
    """
    name = f"on-demand-{pod.name}"
    return _cut(name, pod.path) if with_namespace or len(name) > LONGEST_LABEL else name


def _cut(text: str, hashed: str) -> str:
    return f"{text[: LONGEST_LABEL - 11].rstrip('.-')}-{hashlib.sha256(hashed.encode()).hexdigest()[:10]}"


def pod_labels(pod: PodRef) -> dict[str, str]:
    """Return the labels that link an object to a Pod; the whole name is in an annotation."""
    return {
        MachinesLabel.POD_NAMESPACE: pod.namespace,
        MachinesLabel.POD_NAME: pod.name if len(pod.name) < LONGEST_LABEL else _cut(pod.name, pod.name),
        MachinesLabel.POD_UID: pod.uid,
    }


def infrastructure(
    demand: Demand, *, name: str, namespace: str, cluster: str, labels: Mapping[str, str] | None = None
) -> NstanceMachine:
    """Return the NstanceMachine of a Pod; `labels` are added to its own."""
    spec = NstanceMachineSpec(group_ref=demand.group, instance_type=demand.instance_type or None)
    return NstanceMachine.new(
        name,
        namespace,
        spec=spec,
        labels={MachinesLabel.CLUSTER: cluster, **(labels or {}), **pod_labels(demand.pod)},
        annotations={MachinesAnnotation.POD: demand.pod.path},
    )


def machine(
    demand: Demand, *, name: str, namespace: str, cluster: str, labels: Mapping[str, str] | None = None
) -> Object:
    """Return the Machine of a Pod. With an empty Secret name, it needs no bootstrap data from Cluster API."""
    reference = {"apiGroup": GROUP, "kind": "NstanceMachine", "name": name}
    return MACHINE.new(
        name,
        namespace,
        labels={MachinesLabel.CLUSTER: cluster, **(labels or {}), **pod_labels(demand.pod)},
        annotations={MachinesAnnotation.POD: demand.pod.path},
        spec={"clusterName": cluster, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference},
    )
