"""The vocabulary of the family: labels, annotations, finalizers, condition types and reasons, events, phases.

Guarantees: labels, annotations and the reasons ProfileNotFound, PoolExhausted and BareFreshCreation are the same as in the bnerd Nextcloud
operator; a comment marks ours.

Source: docs/reference/pools.md#words.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "PoolsController",
    "DriftReason",
    "PoolsEvent",
    "Finalizer",
    "InstanceReason",
    "InstancePhase",
    "PoolReason",
    "PoolsAnnotation",
    "PoolsCondition",
    "PoolsLabel",
    "StepReason",
    "UnrecordedReason",
]


class PoolsController:
    """Names of the controllers in metrics, logs and debug."""

    POOL: Final = "nextcloudpool"
    NEXTCLOUD: Final = "nextcloud"
    INSTANCE: Final = "nextcloudinstance"
    ORPHANS: Final = "nextcloud-orphans"


class Finalizer:
    """Finalizers of the family."""

    NEXTCLOUD: Final = "k8s.bnerd.com/nextcloud"
    """Holds a deleted Nextcloud until its instance is deleted or released."""
    INSTANCE: Final = "k8s.bnerd.com/instance"
    """Holds a deleted instance until its objects are deleted, in order."""
    POOL: Final = "k8s.bnerd.com/pool"
    """Holds a deleted pool until its unassigned instances are deleted."""


class PoolsLabel:
    """Labels that the family writes and reads. Except for `instance` they are on a NextcloudInstance, `tenant` also on a Secret."""

    ASSIGNED: Final = "k8s.bnerd.com/assigned"
    """ "false": a member of a pool that can be taken; "true": taken."""
    POOL: Final = "k8s.bnerd.com/pool"
    TENANT: Final = "k8s.bnerd.com/tenant"
    """The namespace of the Nextcloud. On a Secret beside instances: the Nextclouds of that namespace may name it."""
    NEXTCLOUD: Final = "k8s.bnerd.com/nextcloud"
    """The name of the Nextcloud; a name that no label can hold is cut, and spec.claimRef has the whole name."""
    INSTANCE: Final = "k8s.bnerd.com/instance"
    """On a namespace: the instance that owns it, so that it may be deleted with the instance."""
    FORCE_DELETE: Final = "k8s.bnerd.com/force-delete"
    """On an assigned instance: it may be deleted although its Nextcloud exists."""
    # ours
    CLAIM_UID: Final = "k8s.bnerd.com/claim-uid"
    """The UID of the Nextcloud: after a crash, a claim finds its instance by it."""

    TRUE: Final = "true"
    FALSE: Final = "false"


class PoolsAnnotation:
    """Annotations."""

    RECONCILE: Final = "k8s.bnerd.com/reconcile"
    """On a Nextcloud or an instance: each new value causes a reconcile."""
    RUN_MAINTENANCE: Final = "k8s.bnerd.com/run-maintenance"
    """On an instance: the original runs the maintenance of Nextcloud. Here the condition MaintenanceRun reports that nothing runs it."""
    # ours
    RELEASED: Final = "k8s.bnerd.com/released-by"
    """On an instance: the UID of the Nextcloud that released it. Such an instance may be deleted; with Retain it stays, as Released."""
    PROFILE_DIGEST: Final = "k8s.bnerd.com/profile-digest"
    """On an instance: the digest of the profile that it was created with."""
    SPEC_BEFORE: Final = "k8s.bnerd.com/spec-before-claim"
    """On a taken instance: the spec that it had before."""
    REPLACED: Final = "k8s.bnerd.com/replaced-fields"
    """On a taken instance: the part of that spec that the tenant ever replaced; a part returns if the tenant removes its field."""
    PROFILE_DEFAULTS: Final = "k8s.bnerd.com/profile-defaults"
    """On an instance that a Nextcloud with a profile created: the defaults of that profile, as JSON."""
    ORPHANED_SINCE: Final = "k8s.bnerd.com/orphaned-since"
    """On an instance: since when its Nextcloud has been missing."""
    CREATION_NONCE: Final = "k8s.bnerd.com/creation-nonce"
    """On an instance that the operator created: the nonce whose SHA-256 a status had before the creation."""
    ADOPT_MEMBERS: Final = "k8s.bnerd.com/adopt-members"
    """On a pool: each new value records the instances of its namespace that have its label as members, once."""


class InstancePhase:
    """`status.phase` of an instance, which its Nextcloud shows."""

    PENDING: Final = "Pending"
    PROVISIONING: Final = "Provisioning"
    READY: Final = "Ready"
    DEGRADED: Final = "Degraded"
    FAILED: Final = "Failed"
    DELETING: Final = "Deleting"
    RELEASED: Final = "Released"


class PoolsCondition:
    """Condition types."""

    # of a Nextcloud
    INSTANCE_ASSIGNED: Final = "InstanceAssigned"
    DRIFT_FIGHT: Final = "DriftFight"
    # of an instance, shown by its Nextcloud
    READY: Final = "Ready"
    SECRETS_READY: Final = "SecretsReady"
    DATABASE_READY: Final = "DatabaseReady"
    BUCKET_READY: Final = "BucketReady"
    BACKUPS_READY: Final = "BackupsReady"
    RELEASE_READY: Final = "ReleaseReady"
    # of an instance with the annotation run-maintenance
    MAINTENANCE_RUN: Final = "MaintenanceRun"
    # of a pool, beside Ready
    PROFILE_RESOLVED: Final = "ProfileResolved"
    UNRECORDED: Final = "UnrecordedInstances"
    PROGRESSING: Final = "Progressing"


class InstanceReason:
    """Reasons of InstanceAssigned; the event about it has its reason. RELEASING is a reason of Ready."""

    PROFILE_NOT_FOUND: Final = "ProfileNotFound"
    POOL_EXHAUSTED: Final = "PoolExhausted"
    # ours
    ASSIGNED: Final = "Assigned"
    """An instance of a pool."""
    BOUND: Final = "Bound"
    """The instance that instanceRef names."""
    CREATED: Final = "Created"
    """A new instance."""
    INSTANCE_NOT_FOUND: Final = "InstanceNotFound"
    INSTANCE_TAKEN: Final = "InstanceTaken"
    INSTANCE_LOST: Final = "InstanceLost"
    """The assigned instance was deleted; no other instance is taken."""
    POOL_NOT_ALLOWED: Final = "PoolNotAllowed"
    """No pool with these labels serves the namespace."""
    CREATION_NOT_ALLOWED: Final = "CreationNotAllowed"
    """The settings do not let the namespace have instances without a pool."""
    RELEASING: Final = "Releasing"
    """The Nextcloud is being deleted, and waits for its instance, which does not report its step yet."""
    INVALID: Final = "InvalidSpec"
    """The API server refuses the instance."""
    FIELDS_REFUSED: Final = "FieldsRefused"
    """The Nextcloud sets fields that only the administrators may set."""


class DriftReason:
    """Reasons of DriftFight."""

    FIGHTING: Final = "AnotherManager"
    """Another manager sets fields of the tenant again and again."""


class PoolReason:
    """Reasons of the conditions of a pool."""

    FULL: Final = "Full"
    """Ready: as many ready instances as are wanted."""
    FILLING: Final = "Filling"
    """Ready=False: instances are missing or not ready yet."""
    EMPTY: Final = "Exhausted"
    """Ready=False: no instance can be taken."""
    RESOLVED: Final = "Resolved"
    NO_PROFILE: Final = "NoProfile"
    """The pool names no profile."""
    PROFILE_NOT_FOUND: Final = "ProfileNotFound"
    CREATING: Final = "CreatingInstances"
    TRIMMING: Final = "DeletingInstances"
    ROLLING: Final = "ReplacingInstances"
    WAITING: Final = "WaitingForInstances"
    SETTLED: Final = "Settled"
    DELETING: Final = "Deleting"
    CREATE_FAILED: Final = "CreateFailed"
    """Progressing=False: the API server refuses new instances."""
    NAMESPACE_NOT_LISTED: Final = "NamespaceNotListed"
    """Progressing=False: the namespace of new instances is not in the setting pools.namespaces."""


class UnrecordedReason:
    """Reasons of UnrecordedInstances."""

    LOOK_ALIKES: Final = "LookAlikes"
    """Instances have the label of the pool, and the pool's record does not list them."""


class StepReason:
    """Reasons of Ready and of the steps of an instance, where the step has no word of its own."""

    NOT_READY: Final = "NotReady"
    NOT_REPORTED: Final = "NotReported"
    """On a Nextcloud: its instance does not exist, or does not have this condition any more."""
    NOT_WANTED: Final = "NotWanted"
    """The spec does not request it."""
    NAMESPACE_NOT_LISTED: Final = "NamespaceNotListed"
    """The namespace of the instance is not in the setting pools.namespaces; the instance is not touched."""
    NOT_SUPPORTED: Final = "NotSupported"
    """MaintenanceRun=False: commands of Nextcloud are not run."""


class PoolsEvent:
    """Reasons of events that belong to no condition."""

    BARE_FRESH_CREATION: Final = "BareFreshCreation"
    # ours
    DRIFT_CORRECTED: Final = "DriftCorrected"
    INSTANCE_CREATED: Final = "InstanceCreated"
    INSTANCE_REPLACED: Final = "InstanceReplaced"
    INSTANCE_RELEASED: Final = "InstanceReleased"
    DATABASE_KEPT: Final = "DatabaseKept"
    """A deleted instance leaves its database."""
    ORPHANED: Final = "Orphaned"
    """The Nextcloud of an instance was deleted without having released it."""
    CLAIM_UNCONFIRMED: Final = "ClaimUnconfirmed"
    """The claim of a member of a pool is not the operator's: the status of the Nextcloud does not have the instance."""
    MARKS_CORRECTED: Final = "MarksCorrected"
    """Labels or annotations of the family were edited on an instance, and have been set back."""
    MEMBERS_ADOPTED: Final = "MembersAdopted"
    """The instances that the label of a pool selects were recorded as its members, on request of the pool's annotation."""
