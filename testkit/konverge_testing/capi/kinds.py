"""The kinds that the core of Cluster API reads and writes, and its labels, annotations and finalizers."""

from __future__ import annotations

from typing import Final

from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing.capi.definitions import GROUP

__all__ = [
    "CLUSTER",
    "CLUSTER_LABEL",
    "FINALIZERS",
    "INITIALIZED",
    "MACHINE",
    "MACHINE_POOL",
    "MANAGED_REPLICAS",
    "NODE",
    "OWNERS",
    "PAUSED",
    "SECRET",
]

CLUSTER: Final = kind(f"{GROUP}/v1beta2", "Cluster", namespaced=True, plural="clusters")
MACHINE_POOL: Final = kind(f"{GROUP}/v1beta2", "MachinePool", namespaced=True, plural="machinepools")
MACHINE: Final = kind(f"{GROUP}/v1beta2", "Machine", namespaced=True, plural="machines")
NODE: Final = kind("v1", "Node", namespaced=False, plural="nodes")
SECRET: Final = kind("v1", "Secret", namespaced=True, plural="secrets")

OWNERS: Final[dict[str, Kind[Object]]] = {"Cluster": CLUSTER, "MachinePool": MACHINE_POOL, "Machine": MACHINE}
FINALIZERS: Final = {
    "Cluster": "cluster.cluster.x-k8s.io",
    "MachinePool": "machinepool.cluster.x-k8s.io",
    "Machine": "machine.cluster.x-k8s.io",
}
CLUSTER_LABEL: Final = "cluster.x-k8s.io/cluster-name"
PAUSED: Final = "cluster.x-k8s.io/paused"
MANAGED_REPLICAS: Final = "cluster.x-k8s.io/replicas-managed-by"
"""The annotation of a MachinePool whose replicas the provider writes."""
INITIALIZED: Final = "ControlPlaneInitialized"
"""The condition of a Cluster that enables the watch of its Nodes."""
