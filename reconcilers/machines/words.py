"""The vocabulary of the family: names of controllers, labels, annotations, finalizers, condition types and reasons, events.

Guarantees: labels, annotations, finalizers and reasons are the same as in the original operator and in Cluster API; a comment marks ours.

Source: docs/reference/machines.md.
"""

from __future__ import annotations

import enum
from typing import Final

__all__ = [
    "ClusterReason",
    "ControlPlaneReason",
    "DrainResult",
    "GroupReason",
    "MachineReason",
    "MachinesAnnotation",
    "MachinesCondition",
    "MachinesController",
    "MachinesEvent",
    "MachinesFinalizer",
    "MachinesLabel",
    "NamespaceReason",
    "MachinePoolReason",
]


class MachinesController:
    """Names of the controllers in metrics, logs and debug."""

    CLUSTER: Final = "nstancecluster"
    POOL: Final = "nstancemachinepool"
    GROUP: Final = "nstanceshardgroup"
    MACHINE: Final = "nstancemachine"
    ON_DEMAND: Final = "ondemandpod"


class MachinesFinalizer:
    """Finalizers of the family."""

    POOL: Final = "nstancemachinepool.infrastructure.cluster.x-k8s.io/finalizer"
    """Holds a deleted pool until its shard groups are deleted."""
    GROUP: Final = "nstanceshardgroup.infrastructure.cluster.x-k8s.io/finalizer"
    """Holds a deleted shard group until the group is deleted on its shard."""
    MACHINE: Final = "nstancemachine.infrastructure.cluster.x-k8s.io/finalizer"
    """Holds a deleted NstanceMachine until its instance is deleted."""


class MachinesLabel:
    """Labels that the family writes and reads."""

    GROUP: Final = "nstance.dev/group"
    SHARD: Final = "nstance.dev/shard"
    CLUSTER: Final = "cluster.x-k8s.io/cluster-name"
    """The Cluster of an object of Cluster API."""
    WATCH_FILTER: Final = "cluster.x-k8s.io/watch-filter"
    """Selects which of several instances of a provider reconciles an object."""
    # ours
    DRAINED_BY: Final = "nstance.dev/drained-by"
    """On a Node: the Cluster of the operator that drains it."""
    # ours, on the objects of a Pod on demand
    POD_NAMESPACE: Final = "nstance.dev/pod-namespace"
    POD_NAME: Final = "nstance.dev/pod-name"
    """Cut, with a hash, if it is too long for a label."""
    POD_UID: Final = "nstance.dev/pod-uid"


class MachinesAnnotation:
    """Annotations that the family writes and reads."""

    MANAGED_BY: Final = "nstance.dev/managed-by"
    """On objects that were created from a group of the servers."""
    OPERATOR: Final = "nstance-operator"
    """The value of MANAGED_BY."""
    PAUSED: Final = "cluster.x-k8s.io/paused"
    """On an object, with any value: it is not reconciled."""
    EXTERNALLY_MANAGED: Final = "cluster.x-k8s.io/managed-by"
    """On an NstanceCluster: another program provisions it."""
    TOKEN_EXPIRY: Final = "nstance.dev/token-expiry"  # noqa: S105  # the name of an annotation
    """On the Secret with the kubeconfig of Cluster API: the end of its token. A Secret without it is an administrator's."""
    ALLOW_DELETION: Final = "nstance.dev/allow-deletion"
    """Ours, on a static pool, with any value: it may be deleted."""
    INSTANCE: Final = "nstance.dev/instance"
    """Ours, on an NstanceMachine: shard and id of its instance, `shard/id`, stored before it is created. The id counts only if it is
    derived from the object (`instances/ownership.py`). On a Node: the drained instance."""
    ON_DEMAND_GROUPS: Final = ("on-demand.nstance.dev/group", "nstance.dev/on-demand-group")
    """On a Pod: the group of the requested instance. The first name is in the original's documents, the second in its code."""
    ON_DEMAND_TYPES: Final = ("on-demand.nstance.dev/instance-type", "nstance.dev/on-demand-instance-type")
    """On a Pod: the type of the requested instance."""
    POD: Final = "nstance.dev/pod"
    """Ours, on the objects of a Pod on demand: its namespace and whole name, `namespace/name`."""


class MachinesCondition:
    """Condition types."""

    READY: Final = "Ready"
    PAUSED: Final = "Paused"
    # of a shard group
    SHARD_REACHABLE: Final = "ShardReachable"
    CONFIG_VALID: Final = "ConfigValid"
    # of an NstanceMachine
    SERVER_DELETED: Final = "ServerDeleted"
    """The instance was deleted although nothing in Kubernetes requested it."""
    # of a control plane
    AVAILABLE: Final = "Available"
    # of a cluster; ours
    SHARDS_REACHABLE: Final = "ShardsReachable"
    """Whether the document of shards is good, the operator has a certificate, and every shard has listed its groups."""


class NamespaceReason:
    """Reasons of Ready of every kind, ours."""

    OTHER_NAMESPACE: Final = "OtherNamespace"
    """The object is outside the namespace of the operator, so nothing is done for it."""


class ClusterReason:
    """Reasons of the conditions of an NstanceCluster."""

    PROVISIONED: Final = "Provisioned"
    # ours, of ShardsReachable
    CONNECTED: Final = "Connected"
    SHARD_UNREACHABLE: Final = "ShardUnreachable"
    INVALID_DOCUMENT: Final = "InvalidShardMap"
    NO_CERTIFICATE: Final = "NoCertificate"
    CONNECTING: Final = "Connecting"
    """No document was used yet, or not every shard has listed its groups yet."""


class ControlPlaneReason:
    """Reasons of the conditions of an NstanceControlPlane."""

    MANAGED_ELSEWHERE: Final = "ManagedElsewhere"


class MachinePoolReason:
    """Reasons of Ready of an NstanceMachinePool."""

    RECONCILED: Final = "Reconciled"
    RECONCILING: Final = "Reconciling"
    """The pool waits for its MachinePool or its shard groups."""
    INVALID: Final = "Invalid"
    """A shard that the document does not name, or a name that no group can have."""
    DUPLICATE_GROUP: Final = "DuplicateGroup"
    """Another pool has the group."""
    # ours
    DELETING: Final = "Deleting"


class GroupReason:
    """Reasons of the conditions of an NstanceShardGroup."""

    SYNC_SUCCEEDED: Final = "SyncSucceeded"
    PROVIDER_ERROR: Final = "ProviderError"
    CONNECTED: Final = "Connected"
    SHARD_UNREACHABLE: Final = "ShardUnreachable"
    VALID: Final = "Valid"
    VALIDATION_FAILED: Final = "ConfigValidationFailed"
    DELETE_FAILED: Final = "DeleteFailed"
    # ours
    NOT_OF_POOL: Final = "NotOfPool"
    """No pool controls the shard group, or its settings differ from the pool's settings: nothing is sent."""
    VARS_NOT_REMOVABLE: Final = "VarsNotRemovable"
    """The server has variables that the spec does not name any more."""
    STATIC_SETTINGS: Final = "StaticSettings"
    """The group is static, and its settings on the server differ from the spec."""
    SYNCING: Final = "Syncing"
    """The server does not have the present settings yet."""


class MachineReason:
    """Reasons of the conditions of an NstanceMachine."""

    SERVER_DELETED: Final = "ServerDeleted"
    PROVIDER_ERROR: Final = "ProviderError"
    SHARD_UNREACHABLE: Final = "ShardUnreachable"
    INVALID: Final = "Invalid"
    DELETE_FAILED: Final = "DeleteFailed"
    # ours
    RUNNING: Final = "InstanceRunning"
    STARTING: Final = "InstanceStarting"
    STOPPED: Final = "InstanceStopped"
    WAITING_FOR_MACHINE: Final = "WaitingForMachine"
    WAITING_FOR_SHARD: Final = "WaitingForShard"
    FOREIGN_INSTANCE: Final = "ForeignInstance"
    """The instance that the object names was not created for the object: nothing is done with the instance."""


class DrainResult(enum.StrEnum):
    """The ends of a drain, in a metric."""

    DRAINED = "drained"
    NO_NODE = "no_node"
    TIMED_OUT = "timed_out"
    UNACKNOWLEDGED = "unacknowledged"


class MachinesEvent:
    """Reasons of events that belong to no condition."""

    PROVIDER_ERROR: Final = "ProviderError"
    DELETE_SUCCEEDED: Final = "DeleteSucceeded"
    DELETE_FAILED: Final = "DeleteFailed"
    VALIDATION_FAILED: Final = "ConfigValidationFailed"
    # ours
    IMPORTED: Final = "Imported"
    """A pool was created for a group of the servers."""
    NOT_IMPORTED: Final = "NotImported"
    # ours, about a Pod
    ON_DEMAND_CREATED: Final = "OnDemandMachineCreated"
    ON_DEMAND_DELETED: Final = "OnDemandMachineDeleted"
    ON_DEMAND_REFUSED: Final = "OnDemandRefused"
    """Its annotation names no group, or the API server refused its objects."""
    # ours, about a Node
    DRAINING: Final = "Draining"
    DRAINED: Final = "Drained"
    DRAIN_BLOCKED: Final = "DrainBlocked"
    """A budget, or several at once, let a pod not be evicted yet."""
    DRAIN_TIMED_OUT: Final = "DrainTimedOut"
    """Pods were left shortly before the server deletes the instance; the drain was acknowledged anyway."""
    DRAIN_NOT_ACKNOWLEDGED: Final = "DrainNotAcknowledged"
    NODE_DELETED: Final = "NodeDeleted"
    """Its instance was deleted, and the Node still existed."""
