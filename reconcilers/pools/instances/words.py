"""The vocabulary of the steps of an instance, beside the family's vocabulary."""

from __future__ import annotations

from typing import Final

__all__ = ["BackupReason", "BucketState", "Cnpg", "DatabaseReason", "ReleaseReason", "SecretReason", "TeardownReason"]


class DatabaseReason:
    """Reasons of DatabaseReady."""

    READY: Final = "DatabaseReady"
    PROVISIONING: Final = "DatabaseProvisioning"
    STALLED: Final = "DatabaseStalled"
    """Not ready for longer than the deadline; it may still become ready."""
    FAILED: Final = "DatabaseFailed"
    """CloudNativePG reports a state that does not heal by itself."""
    TAKEN: Final = "DatabaseTaken"
    """A Cluster of the name exists that was not created for the instance."""
    DELETING: Final = "DatabaseDeleting"
    PAUSED: Final = "DatabasePaused"
    """An annotation or hibernation stops CloudNativePG."""
    NO_SECRET: Final = "DatabaseSecretMissing"  # noqa: S105  # a reason
    NOT_SERVED: Final = "CloudNativePGMissing"
    EXTERNAL: Final = "DatabaseExternal"
    LOST: Final = "DatabaseLost"
    """The Cluster does not exist although the instance was ready: a new, empty Cluster would hide the loss."""
    UNSUPPORTED: Final = "DatabaseUnsupported"
    REFUSED: Final = "DatabaseRefused"
    """The API server or the webhook of CloudNativePG refuses the Cluster."""


class Cnpg:
    """Words of CloudNativePG that we read."""

    READY: Final = "Ready"
    ARCHIVING: Final = "ContinuousArchiving"
    LAST_BACKUP: Final = "LastBackupSucceeded"
    HIBERNATION: Final = "cnpg.io/hibernation"
    """An annotation (on), and the condition about it."""
    LOOP: Final = "cnpg.io/reconciliationLoop"
    """An annotation: disabled stops the reconciliation of a Cluster."""

    LASTING: Final = (
        "Cluster is unrecoverable",
        "Invalid cluster definition",
        "Unable to create required cluster objects",
        "Cluster has incomplete or invalid image catalog",
        "Cluster cannot proceed to reconciliation due to an unknown plugin being required",
        "Cluster cannot proceed to reconciliation due to an error while interacting with plugins",
        "Cluster cannot execute instance online upgrade due to missing architecture binary",
        "Waiting for user action",
    )
    """Beginnings of phases that do not heal by themselves."""


class SecretReason:
    """Reasons of SecretsReady."""

    READY: Final = "SecretsReady"  # a reason
    MISSING: Final = "SecretMissing"  # a reason
    """A Secret that the spec names does not exist."""
    NOT_GRANTED: Final = "SecretNotGranted"  # a reason
    """A Secret that the Nextcloud names does not exist, or its label does not name the tenant."""
    TAKEN: Final = "SecretTaken"  # a reason
    """A Secret of the name exists that was not created for the instance."""
    LOST: Final = "SecretLost"  # a reason
    """A generated Secret is missing, and the release knows its content: no new Secret is generated."""


class BucketState:
    """Reasons of BucketReady, beside the reasons of failures (reconcilers/pools/buckets/words.py)."""

    READY: Final = "BucketReady"
    GIVEN: Final = "BucketGiven"
    """The spec names the bucket: it is neither created nor ever deleted."""
    RECORDED: Final = "BucketRecorded"
    """The status has the name of the bucket that will be created next."""


class BackupReason:
    """Reasons of BackupsReady, which never keeps an instance from being ready."""

    SCHEDULED: Final = "BackupsScheduled"
    FAILING: Final = "BackupsFailing"
    """CloudNativePG reports that an archive or a backup could not be written, or a copy of the files has failed."""
    INCOMPLETE: Final = "BackupsIncomplete"
    REFUSED: Final = "BackupsRefused"
    """The API server refuses the CronJob, for its schedule."""
    TAKEN: Final = "BackupsTaken"
    """A CronJob of the name exists that was not created for the instance."""
    NOT_SERVED: Final = "ScheduledBackupNotServed"


class ReleaseReason:
    """Reasons of ReleaseReady, beside the reasons of the translation of a HelmRelease."""

    VERSION_UNKNOWN: Final = "VersionUnknown"
    TAKEN: Final = "ReleaseTaken"
    ACCOUNT_NOT_ALLOWED: Final = "ServiceAccountNotAllowed"
    HOST_INVALID: Final = "HostInvalid"
    FLUX_MISSING: Final = "FluxMissing"
    STALLED: Final = "ReleaseStalled"
    STARTING: Final = "ReleaseStarting"


class TeardownReason:
    """Reasons of Ready while an instance is deleted or released."""

    PROTECTED: Final = "DeletionRefused"
    """The instance is assigned."""
    RELEASE: Final = "UninstallingRelease"
    BACKUPS: Final = "DeletingBackups"
    DATABASE: Final = "DeletingDatabase"
    SECRETS: Final = "DeletingSecrets"  # a reason
    VOLUMES: Final = "DeletingVolumes"
    RELEASED: Final = "Released"
    """The Nextcloud released the instance; its data stay."""
