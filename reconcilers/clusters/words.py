"""The vocabulary of Clusters and pull mode: condition types and reasons, phases, annotations, outcomes' reasons, metrics.

Condition types, reasons, phases and metric names are the original operator's (docs/guide/pull-mode.md#conditions).
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "Annotation",
    "Authenticated",
    "BufferOverflow",
    "Connected",
    "ControllersHealthy",
    "Disconnected",
    "JobReason",
]

CONTROLLER: Final = "cluster"
"""The controller's name in metrics, logs and debug."""
FINALIZER: Final = "ops.vworkspace.io/cluster-cleanup"
"""Holds a Cluster until its agent has stopped and its Secrets are deleted."""
FIELD_MANAGER: Final = "agent"
"""The suffix of the field manager of objects that jobs apply."""


class PhaseName:
    """`status.phase` of a Cluster."""

    PENDING: Final = "Pending"
    REGISTERING: Final = "Registering"
    CONNECTED: Final = "Connected"
    DISCONNECTED: Final = "Disconnected"
    ERROR: Final = "Error"
    TERMINATING: Final = "Terminating"


class ClusterCondition:
    """Condition types of a Cluster."""

    CONNECTED: Final = "Connected"
    DISCONNECTED: Final = "Disconnected"
    AUTHENTICATED: Final = "Authenticated"
    CONTROLLERS_HEALTHY: Final = "ControllersHealthy"
    BUFFER_OVERFLOW: Final = "BufferOverflow"


class Connected:
    """Reasons of Connected."""

    ROUND_TRIP_OK: Final = "RoundTripOK"
    CONTROL_PLANE_UNREACHABLE: Final = "ControlPlaneUnreachable"


class Disconnected:
    """Reasons of Disconnected."""

    NO_RECENT_ROUND_TRIP: Final = "NoRecentRoundTrip"
    CONNECTED: Final = "Connected"


class Authenticated:
    """Reasons of Authenticated."""

    CREDENTIAL_ACCEPTED: Final = "CredentialAccepted"
    CREDENTIAL_REJECTED: Final = "CredentialRejected"
    CREDENTIAL_EXPIRED: Final = "CredentialExpired"
    CONTROL_PLANE_AUTHENTICATION_FAILED: Final = "ControlPlaneAuthenticationFailed"
    TOKEN_SECRET_MISSING: Final = "TokenSecretMissing"  # noqa: S105  # a reason
    REGISTRATION_FAILED: Final = "RegistrationFailed"
    ROTATION_FAILED: Final = "RotationFailed"
    CREDENTIAL_MISSING: Final = "CredentialMissing"
    # ours
    VALIDATION_FAILED: Final = "ValidationFailed"


class ControllersHealthy:
    """Reasons of ControllersHealthy."""

    ALL_CONTROLLERS_READY: Final = "AllControllersReady"
    CONTROLLER_MISSING: Final = "ControllerMissing"
    CONTROLLER_DEGRADED: Final = "ControllerDegraded"


class BufferOverflow:
    """Reasons of BufferOverflow."""

    EVENT_BUFFER_FULL: Final = "EventBufferFull"
    BUFFER_DRAINED: Final = "BufferDrained"


class Event:
    """Reasons of Kubernetes Events about a Cluster."""

    CREDENTIAL_ROTATED: Final = "CredentialRotated"


class Annotation:
    """Annotations that are read on a Cluster, or written on its Secrets and on the objects of jobs."""

    ROTATE: Final = "ops.vworkspace.io/rotate-credentials"
    """On a Cluster, with any value: replace the credential now; removed once that is done."""
    JOB_GENERATION: Final = "ops.vworkspace.io/job-generation"
    """On an object of a job: the generation in the job's key."""
    REGISTERED_AT: Final = "ops.vworkspace.io/registered-at"
    ISSUED_AT: Final = "ops.vworkspace.io/issued-at"
    TOKEN_DIGEST: Final = "ops.vworkspace.io/registration-token-digest"  # noqa: S105  # an annotation
    """The first part of the SHA-256 of the token that registered the cluster."""
    CONTROL_PLANE: Final = "ops.vworkspace.io/control-plane"
    """Scheme, host and port of the control plane that issued the credential. The credential is sent to no other control plane."""
    ROTATED_FOR: Final = "ops.vworkspace.io/rotated-for"
    """The request of the last rotation."""


class Intent:
    """Intents of jobs."""

    ENSURE: Final = "ensure-application-instance"
    OPERATION: Final = "request-operation"
    DELETE: Final = "delete-application-instance"
    ROTATE: Final = "rotate-operator-credentials"


class JobReason:
    """Reasons of results."""

    APPLIED: Final = "Applied"
    UNCHANGED: Final = "Unchanged"
    DELETED: Final = "Deleted"
    ABSENT: Final = "Absent"
    ROTATED: Final = "Rotated"
    DUPLICATE: Final = "Duplicate"
    EXPIRED: Final = "Expired"
    GIVEN_UP: Final = "GivenUp"
    """The job waited for another attempt, and another job needed its place in the journal."""
    FIELD_CONFLICT: Final = "FieldConflict"
    MALFORMED: Final = "Malformed"
    TOO_LARGE: Final = "TooLarge"
    WRONG_CLUSTER: Final = "WrongCluster"
    KIND_REFUSED: Final = "KindRefused"
    NAMESPACE_REFUSED: Final = "NamespaceRefused"
    FIELD_REFUSED: Final = "FieldRefused"
    """Only people of this cluster write the field."""
    OLDER_GENERATION: Final = "OlderGeneration"
    """The object has the state of a younger job."""
    FOREIGN_OBJECT: Final = "ForeignObject"
    BEING_DELETED: Final = "BeingDeleted"
    NAMESPACE_MISSING: Final = "NamespaceMissing"
    INVALID: Final = "Invalid"
    FORBIDDEN: Final = "Forbidden"
    KIND_NOT_SERVED: Final = "KindNotServed"


class Mode:
    """Values of the label `mode` of `connectivity_state`."""

    PULL: Final = "pull"


UNKNOWN_KIND: Final = "unknown"
"""The value of the label `kind` of a job that cannot be read."""
