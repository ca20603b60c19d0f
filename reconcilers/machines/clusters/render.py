"""The objects that are created once: the Cluster with its NstanceCluster, and the pools of groups of the servers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from konverge.crds.machines_v1beta1 import (
    GROUP,
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachinePool,
    NstanceMachinePoolSpec,
)
from konverge.kinds import Resource
from konverge.objects import Object
from konverge.reconcilers.machines.clusters.imports import ImportedPool
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE_POOL
from konverge.reconcilers.machines.words import ControlPlaneReason, MachinesAnnotation, MachinesCondition, MachinesLabel

__all__ = ["cluster_objects", "control_plane_status", "imported_pool", "machine_pool"]

_OURS = {MachinesAnnotation.MANAGED_BY: MachinesAnnotation.OPERATOR}


def cluster_objects(
    name: str, namespace: str, labels: Mapping[str, str], *, control_plane: bool
) -> tuple[Resource, ...]:
    """Return the NstanceControlPlane, the NstanceCluster and the Cluster, in the order of their creation: a referenced object is first."""
    spec: dict[str, Any] = {"infrastructureRef": {"apiGroup": GROUP, "kind": "NstanceCluster", "name": name}}
    stub: tuple[Resource, ...] = ()
    if control_plane:
        spec["controlPlaneRef"] = {"apiGroup": GROUP, "kind": "NstanceControlPlane", "name": name}
        stub = (NstanceControlPlane.new(name, namespace, labels=dict(labels), annotations=_OURS),)
    return (
        *stub,
        NstanceCluster.new(name, namespace, labels={MachinesLabel.CLUSTER: name, **labels}, annotations=_OURS),
        CLUSTER.new(name, namespace, labels=dict(labels), annotations=_OURS, spec=spec),
    )


def control_plane_status(now: str, generation: int) -> dict[str, Any]:
    """Return the patch of the status that initializes a control plane that is managed elsewhere."""
    available = {
        "type": MachinesCondition.AVAILABLE,
        "status": "True",
        "reason": ControlPlaneReason.MANAGED_ELSEWHERE,
        "message": "the API server runs already",
        "observedGeneration": generation,
        "lastTransitionTime": now,
    }
    initialized = {"controlPlaneInitialized": True}
    return {
        "status": {
            "initialization": initialized,
            "externalManagedControlPlane": True,
            "conditions": [available],
        }
    }


def imported_pool(
    imported: ImportedPool, *, namespace: str, cluster: str, labels: Mapping[str, str]
) -> NstanceMachinePool:
    """Return the pool of a group."""
    spec: dict[str, Any] = {"group": imported.group, "shards": list(imported.shards)}
    if imported.template:
        spec["template"] = imported.template
    if imported.instance_type:
        spec["instance_type"] = imported.instance_type
    if imported.vars:
        spec["vars"] = dict(imported.vars)
    return NstanceMachinePool.new(
        imported.group,
        namespace,
        spec=NstanceMachinePoolSpec(**spec),
        labels={MachinesLabel.CLUSTER: cluster, MachinesLabel.GROUP: imported.group, **labels},
        annotations=_OURS,
    )


def machine_pool(name: str, namespace: str, *, cluster: str, replicas: int, labels: Mapping[str, str]) -> Object:
    """Return the MachinePool of a pool. With an empty Secret name, machines need no bootstrap data from Cluster API."""
    reference = {"apiGroup": GROUP, "kind": "NstanceMachinePool", "name": name}
    machine = {"clusterName": cluster, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}
    return MACHINE_POOL.new(
        name,
        namespace,
        labels={MachinesLabel.CLUSTER: cluster, **labels},
        annotations=_OURS,
        spec={"clusterName": cluster, "replicas": replicas, "template": {"spec": machine}},
    )
