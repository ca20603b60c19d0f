"""The kinds that the family reads and writes, as thin views: an object that does not fit its model is still seen."""

from __future__ import annotations

from typing import Final

from konverge.crds.machines_v1beta1 import GROUP
from konverge.kinds import kind

__all__ = [
    "CAPI_GROUP",
    "CLUSTER",
    "CONFIG_MAP",
    "MACHINE",
    "MACHINE_POOL",
    "NAMESPACE",
    "NODE",
    "NSTANCE_CLUSTER",
    "NSTANCE_MACHINE",
    "POD",
    "POOL",
    "SECRET",
    "SHARD_GROUP",
]

CAPI_GROUP: Final = "cluster.x-k8s.io"

CLUSTER: Final = kind(f"{CAPI_GROUP}/v1beta2", "Cluster", namespaced=True, plural="clusters")
MACHINE: Final = kind(f"{CAPI_GROUP}/v1beta2", "Machine", namespaced=True, plural="machines")
NSTANCE_CLUSTER: Final = kind(f"{GROUP}/v1beta1", "NstanceCluster", namespaced=True, plural="nstanceclusters")
NSTANCE_MACHINE: Final = kind(f"{GROUP}/v1beta1", "NstanceMachine", namespaced=True, plural="nstancemachines")
MACHINE_POOL: Final = kind(f"{CAPI_GROUP}/v1beta2", "MachinePool", namespaced=True, plural="machinepools")
POOL: Final = kind(f"{GROUP}/v1beta1", "NstanceMachinePool", namespaced=True, plural="nstancemachinepools")
SHARD_GROUP: Final = kind(f"{GROUP}/v1beta1", "NstanceShardGroup", namespaced=True, plural="nstanceshardgroups")
NAMESPACE: Final = kind("v1", "Namespace", namespaced=False, plural="namespaces")
NODE: Final = kind("v1", "Node", namespaced=False, plural="nodes")
POD: Final = kind("v1", "Pod", namespaced=True, plural="pods")
CONFIG_MAP: Final = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
SECRET: Final = kind("v1", "Secret", namespaced=True, plural="secrets")
