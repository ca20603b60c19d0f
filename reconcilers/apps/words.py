"""The vocabulary of the apps family: every word of its API is declared here once.

Condition types and reasons are the original operator's (docs/reference/apps.md#conditions), so that its users' dashboards and scripts keep
working; the reasons below "ours" have no counterpart there. The words of a release are in reconcilers/shared/helm_release.
"""

from __future__ import annotations

from typing import Final

from konverge.reconcilers.shared.helm_release.words import (
    Degraded,
    Flux,
    Ready,
    Reconciling,
    ReleaseAnnotation,
    Stalled,
    Suspended,
)
from konverge.reconcilers.shared.words import ControlPlaneLabel

__all__ = [
    "Annotation",
    "Blocked",
    "Degraded",
    "Deleting",
    "Flux",
    "Label",
    "Ready",
    "Reconciling",
    "Stalled",
    "Suspended",
    "Type",
]

FINALIZER: Final = "apps.vworkspace.io/finalizer"
"""Holds an ApplicationInstance until its release is uninstalled."""

CONTROLLER: Final = "applicationinstance"
"""The controller's name in metrics, logs and debug."""


class Type:
    """Condition types of an ApplicationInstance."""

    READY: Final = "Ready"
    RECONCILING: Final = "Reconciling"
    DEGRADED: Final = "Degraded"
    SUSPENDED: Final = "Suspended"
    BLOCKED: Final = "Blocked"
    DELETING: Final = "Deleting"
    STALLED: Final = "Stalled"


class Blocked:
    """Reasons of Blocked; each is also the reason of the accompanying Ready=False."""

    MISSING_DEPENDENCIES: Final = "MissingDependencies"
    POLICY_DENIED: Final = "PolicyDenied"
    VALIDATION_FAILED: Final = "ValidationFailed"
    UNBLOCKED: Final = "Unblocked"


class Deleting:
    """Reasons of Deleting."""

    UNINSTALLING: Final = "Uninstalling"
    WAITING_FOR_CHILD_RESOURCES: Final = "WaitingForChildResources"


class Label(ControlPlaneLabel):
    """Labels that the family reads or writes."""

    APPLICATION_INSTANCE: Final = "app.vworkspace.io/application-instance"
    NAMESPACE_GATE: Final = "managed-by"

    VWORKSPACE: Final = "vworkspace"
    """The value of NAMESPACE_GATE."""


class Annotation(ReleaseAnnotation):
    """Annotations that the family reads or writes."""

    INSTANCE_NAME: Final = "app.vworkspace.io/application-instance"
    """On a child: the full name of the instance; the label of the same name may hold a shortened one."""
    INSTANCE_UID: Final = "app.vworkspace.io/application-instance-uid"
    CHART_DIGEST: Final = "vworkspace.io/applied-chart-digest"
    """On the HelmRelease: `kind/digest of the URL/digest of the chart/number of the Helm release/index` of the last rollout."""
    OVERRIDE_FORBIDDEN: Final = "apps.vworkspace.io/override-forbidden"
    """On an instance: `true`, or the single forbidden version that may run."""
