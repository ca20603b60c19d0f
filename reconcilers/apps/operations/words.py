"""The vocabulary of Operations: every word of their API is declared here once.

Condition types and reasons are the original operator's (docs/reference/operations.md#conditions), so that its users' dashboards and scripts
keep working; the reasons below "ours" have no counterpart there.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "AcceptedReason",
    "BlockedReason",
    "CancelledReason",
    "FailedReason",
    "MetricName",
    "OpAnnotation",
    "OpCondition",
    "OpEvent",
    "OpLabel",
    "RunningReason",
    "SucceededReason",
]

FINALIZER: Final = "ops.vworkspace.io/finalizer"
"""Holds an Operation until its engine has stopped."""

CONTROLLER: Final = "operation"
"""The controller's name in metrics, logs and debug."""

LEASE_SUFFIX: Final = "operations.ops.vworkspace.io"
"""The Lease of a namespace is `<namespace>.<suffix>`; a namespace has no dot, so no other Lease has such a name."""


class OpCondition:
    """Condition types of an Operation."""

    ACCEPTED: Final = "Accepted"
    RUNNING: Final = "Running"
    SUCCEEDED: Final = "Succeeded"
    FAILED: Final = "Failed"
    CANCELLED: Final = "Cancelled"
    BLOCKED: Final = "Blocked"


class AcceptedReason:
    """Reasons of Accepted."""

    ADMISSION_PASSED: Final = "AdmissionPassed"
    VALIDATION_FAILED: Final = "ValidationFailed"
    TARGET_NOT_FOUND: Final = "TargetNotFound"
    CAPABILITY_MISSING: Final = "CapabilityMissing"


class RunningReason:
    """Reasons of Running."""

    ENGINE_STARTED: Final = "EngineStarted"
    ENGINE_NOT_STARTED: Final = "EngineNotStarted"
    # ours
    FINISHED: Final = "Finished"
    """Running=False of an Operation that has ended."""
    COMPLETING: Final = "Completing"
    """The engine has succeeded and still stops its workload."""
    FAILING: Final = "Failing"
    """The engine has failed and still stops its workload."""
    RUNNING_WITH_ERRORS: Final = "RunningWithErrors"
    SUSPENDED: Final = "Suspended"
    """Another controller or a person suspended the object of the engine."""
    STOPPING: Final = "Stopping"
    """A stop was requested, and the engine has not stopped yet."""
    ENGINE_OBJECT_MISSING: Final = "EngineObjectMissing"
    """The object of the engine is missing, for less than the grace time."""
    MOVER_RETRYING: Final = "MoverRetrying"
    ENGINE_ERROR: Final = "EngineError"
    PODS_NOT_RUNNING: Final = "PodsNotRunning"
    """No pod of the Job runs; the message has the cause."""
    ENGINE_SILENT: Final = "EngineSilent"
    """The controller of the engine has given no sign for longer than it does while it works."""


class SucceededReason:
    """Reasons of Succeeded."""

    ENGINE_COMPLETED: Final = "EngineCompleted"
    NOT_YET_SUCCEEDED: Final = "NotYetSucceeded"


class FailedReason:
    """Reasons of Failed. The reasons of engines (a Job's `BackoffLimitExceeded`) are used as they are, under the engine's name."""

    ENGINE_FAILED: Final = "EngineFailed"
    TIMEOUT: Final = "Timeout"
    PRECONDITION_FAILED: Final = "PreconditionFailed"
    # ours
    VALIDATION_FAILED: Final = "ValidationFailed"
    """The engine refused its object."""
    PARTIALLY_FAILED: Final = "PartiallyFailed"
    ENGINE_OBJECT_LOST: Final = "EngineObjectLost"
    """The object of the engine vanished before it reported an end."""
    BACKUP_DELETED: Final = "BackupDeleted"
    HOOK_NOT_FOUND: Final = "HookNotFound"
    HOOK_UNSUPPORTED_KIND: Final = "HookUnsupportedKind"
    SPEC_CHANGED: Final = "SpecChanged"
    """The spec of the target was changed again before the release reached the edit of the Operation."""


class CancelledReason:
    """Reasons of Cancelled."""

    USER_CANCELLED: Final = "UserCancelled"


class BlockedReason:
    """Reasons of Blocked."""

    CONFLICTING_OPERATION: Final = "ConflictingOperation"
    AWAITING_APPROVAL: Final = "AwaitingApproval"
    TARGET_NOT_READY: Final = "TargetNotReady"
    DEPENDENCY_MISSING: Final = "DependencyMissing"
    MISSING_SECRET: Final = "MissingSecret"  # noqa: S105  # a reason
    OUTSIDE_MAINTENANCE_WINDOW: Final = "OutsideMaintenanceWindow"
    MISSING_VOLUME_SNAPSHOT_CLASS: Final = "MissingVolumeSnapshotClass"
    AWAITING_RESUME: Final = "AwaitingResume"
    RBAC_PROFILE_MISSING: Final = "RbacProfileMissing"
    """The operator lacks a right that the Operation needs; the message names it."""
    VALIDATION_FAILED: Final = "ValidationFailed"
    # ours
    UNBLOCKED: Final = "Unblocked"
    HOOK_REQUIRES_RELEASE: Final = "HookRequiresRelease"
    """The hook is read from the record of a release, and none is deployed."""
    TYPE_NOT_ALLOWED: Final = "TypeNotAllowed"
    """The namespace allows other types of Operations."""


class OpEvent:
    """Reasons of Events besides the transitions of conditions."""

    ENGINE_REF_CORRECTED: Final = "EngineRefCorrected"
    """Another writer changed status.engineRef; the object that it named was not touched."""


class OpLabel:
    """Labels that the family reads or writes."""

    OPERATION: Final = "ops.vworkspace.io/operation"
    """On the object of an engine: the UID of the Operation."""
    HOOK_NAME: Final = "ops.vworkspace.io/hook-name"
    """On a Job that runs a hook of a chart: the name of the hook."""


class OpAnnotation:
    """Annotations that the family reads or writes."""

    CAPABILITY: Final = "ops.vworkspace.io/"
    """The prefix of an annotation of a target, `ops.vworkspace.io/<verb>: <engine>`: the engines that may act on it."""
    ALLOWED_TYPES: Final = "ops.vworkspace.io/allowed-types"
    """On a namespace: the types of Operations that may start in it, separated by commas."""
    MAINTENANCE_WINDOW: Final = "ops.vworkspace.io/maintenance-window"
    """On a target, and on a namespace for its targets: when disruptive Operations may start (`windows.py`); both have to be open."""
    ALLOWED_NAMESPACES: Final = "ops.vworkspace.io/allowed-namespaces"
    """On a BackupStorageLocation: the namespaces whose Operations may use it, separated by commas; absent: all namespaces."""
    OPERATION_NAME: Final = "ops.vworkspace.io/operation-name"
    """On the object of an engine: `namespace/name` of the Operation."""
    NAMESPACE_UID: Final = "ops.vworkspace.io/namespace-uid"
    """On a Velero Backup: the UID of the namespace that it holds. A later namespace of the same name has another UID."""
    SPEC_DIGEST: Final = "ops.vworkspace.io/spec-digest"
    """On the object of an engine: the digest of the Operation's spec, as far as it cannot be changed."""
    HOLDERS: Final = "ops.vworkspace.io/holders"
    """On the Lease of a namespace: the Operations that hold their targets, as JSON."""
    LAST_OPERATION: Final = "ops.vworkspace.io/last-operation"
    """On an ApplicationInstance: the UID of the Operation that edited its spec last."""


class MetricName:
    """Metrics of Operations. Their labels have words of fixed sets, and never the name of an object."""

    OPERATIONS: Final = "konverge_operations"
    BLOCKED: Final = "konverge_operations_blocked"
    ENDED: Final = "konverge_operations_ended_total"
    WAIT: Final = "konverge_operation_wait_seconds"
    DURATION: Final = "konverge_operation_duration_seconds"
