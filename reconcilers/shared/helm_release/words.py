"""The vocabulary of a HelmRelease: condition types and reasons of the owner of a release, annotations on it, and words of Flux.

Reasons are the vworkspace operator's (docs/reference/apps.md#conditions); the reasons below "ours" have no counterpart there. Flux's
reasons are passed on under Flux's names, which `Flux` lists.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Degraded", "Flux", "Ready", "Reconciling", "ReleaseAnnotation", "Stalled", "Suspended"]


class Ready:
    """Reasons of Ready."""

    PLACEHOLDER: Final = "Placeholder"
    HELM_RELEASE_READY: Final = "HelmReleaseReady"
    HELM_RELEASE_READY_WITH_WARNINGS: Final = "HelmReleaseReadyWithWarnings"
    HELM_RELEASE_FAILED: Final = "HelmReleaseFailed"
    CHART_UNREACHABLE: Final = "ChartUnreachable"
    WAITING_FOR_SECRET: Final = "WaitingForSecret"  # noqa: S105  # a reason
    INSTALLING: Final = "Installing"
    UPGRADING: Final = "Upgrading"
    RECONCILING: Final = "Reconciling"
    # ours
    DELETING: Final = "Deleting"
    HELM_RELEASE_MISSING: Final = "HelmReleaseMissing"
    WAITING_FOR_DEPENDENCY: Final = "WaitingForDependency"
    ROLLED_BACK: Final = "RolledBack"
    REMEDIATION_FAILED: Final = "RemediationFailed"


class Reconciling:
    """Reasons of Reconciling."""

    HELM_RELEASE_UPGRADING: Final = "HelmReleaseUpgrading"
    HELM_RELEASE_INSTALLING: Final = "HelmReleaseInstalling"
    CHART_SOURCE_SYNCING: Final = "ChartSourceSyncing"
    STABLE: Final = "Stable"
    # ours
    UNINSTALLING: Final = "Uninstalling"
    RETRYING: Final = "Retrying"


class Degraded:
    """Reasons of Degraded."""

    HELM_RELEASE_DEGRADED: Final = "HelmReleaseDegraded"
    HELM_RELEASE_FAILED: Final = "HelmReleaseFailed"
    CHART_UNREACHABLE: Final = "ChartUnreachable"
    DRIFTED: Final = "Drifted"
    RECOVERED: Final = "Recovered"


class Suspended:
    """Reasons of Suspended."""

    MANUALLY_SUSPENDED: Final = "ManuallySuspended"
    ACTIVE: Final = "Active"


class Stalled:
    """Reasons of Stalled that this family sets; others are passed on from Flux."""

    UNINSTALL_TIMEOUT: Final = "UninstallTimeout"
    PROGRESS_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"


class ReleaseAnnotation:
    """Annotations on a HelmRelease."""

    INTENT_HASH: Final = "vworkspace.io/applied-intent-hash"
    """On the HelmRelease: digest of the intent that was rolled out last, values included."""
    APPLIED_GENERATION: Final = "vworkspace.io/last-applied-generation"
    """On the HelmRelease: the generation of the instance that was rolled out last."""
    APPLIED_SOURCE: Final = "vworkspace.io/applied-source"
    """On the HelmRelease: `digest@uid/generation` of the rolled-out source, as it was fetched."""
    VALUES_TOKEN: Final = "apps.vworkspace.io/values-token"  # noqa: S105  # an annotation
    """On the HelmRelease: the state of the Secret or ConfigMap that Flux was last requested to read, or read at the install."""


class Flux:
    """Words of helm-controller and source-controller that we read or write."""

    READY: Final = "Ready"
    RECONCILING: Final = "Reconciling"
    STALLED: Final = "Stalled"
    RELEASED: Final = "Released"
    REMEDIATED: Final = "Remediated"
    TEST_SUCCESS: Final = "TestSuccess"
    DRIFTED: Final = "Drifted"

    FETCH_FAILED: Final = "FetchFailed"
    BUILD_FAILED: Final = "BuildFailed"
    STORAGE_FAILED: Final = "StorageOperationFailed"

    DEPENDENCY_NOT_READY: Final = "DependencyNotReady"
    SOURCE_NOT_READY: Final = "SourceNotReady"
    ARTIFACT_FAILED: Final = "ArtifactFailed"
    VALUES_ERROR: Final = "ValuesError"
    HEALTH_CHECK_CANCELED: Final = "HealthCheckCanceled"
    INSTALL_FAILED: Final = "InstallFailed"
    UPGRADE_FAILED: Final = "UpgradeFailed"
    TEST_FAILED: Final = "TestFailed"
    UNINSTALL_FAILED: Final = "UninstallFailed"

    PREREQUISITE_ERRORS: Final = frozenset(
        {
            "ValuesError",
            "ChartMutateError",
            "RESTClientError",
            "ResourceManagerError",
            "FactoryError",
            "ConfigFactoryErr",
            "StateError",
            "ReconcileError",
            "AccessDenied",
            "InvalidCELExpression",
        }
    )
    """Reasons of Ready=False before any release action; none of them is about the chart."""

    DEPLOYED: Final = "deployed"
    """Status of a release in `status.history`."""

    REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"
    """Annotation that requests a reconcile; `flux reconcile` writes it too."""
    FINALIZER: Final = "finalizers.fluxcd.io"
    CHART_OF_RELEASE: Final = "helm.toolkit.fluxcd.io/name"
    """Label of a HelmChart: the HelmRelease that it was created for."""
    CHART_OF_NAMESPACE: Final = "helm.toolkit.fluxcd.io/namespace"
