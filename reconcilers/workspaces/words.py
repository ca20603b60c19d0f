"""The vocabulary of the family: finalizer, labels, condition types and reasons, phases, events.

Guarantees: condition types, the reason Reconciled and the phases are the same as in cloudapi-operator; the others are ours.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CONTROLLER",
    "FINALIZER",
    "WorkspaceAnnotation",
    "WorkspaceCondition",
    "WorkspaceEvent",
    "WorkspaceLabel",
    "WorkspacePhaseWord",
    "WorkspaceReason",
]

CONTROLLER: Final = "workspaceclaim"
FINALIZER: Final = "cloudapi.team-orca.dev/workspace"
"""Holds a deleted claim until its Secret and its workspace are deleted."""


class WorkspaceLabel:
    """Labels that the family writes."""

    WORKSPACE: Final = "cloudapi.team-orca.dev/workspace"
    """On the Secret: the name of the workspace."""


class WorkspaceAnnotation:
    """Annotations that the family writes."""

    EXPIRES: Final = "cloudapi.team-orca.dev/expires-at"
    """On the Secret: when the credential expires."""
    ISSUED: Final = "cloudapi.team-orca.dev/issued-at"
    """On the Secret: when it was issued."""
    IDENTITY: Final = "cloudapi.team-orca.dev/workspace-uid"
    """On the Secret: the workspace that it was issued for; a recreated workspace does not accept the credential."""
    URL: Final = "cloudapi.team-orca.dev/cluster-url"
    """On the Secret: the server of the kubeconfig."""
    CLAIM: Final = "cloudapi.team-orca.dev/workspace-claim-uid"
    """On a workspace of kcp: the uid of the claim that it was created for."""
    EPOCH: Final = "cloudapi.team-orca.dev/workspace-claim-epoch"
    """On a workspace of kcp: the epoch of the replica that wrote to it last."""


class WorkspaceCondition:
    """Condition types of a WorkspaceClaim."""

    AVAILABLE: Final = "Available"
    PROGRESSING: Final = "Progressing"
    DEGRADED: Final = "Degraded"


class WorkspaceReason:
    """Reasons of these conditions."""

    RECONCILED: Final = "Reconciled"
    PREPARING: Final = "WorkspacePreparing"
    UNAVAILABLE: Final = "WorkspaceUnavailable"
    DELETING: Final = "Deleting"
    PROVIDER_UNAVAILABLE: Final = "ProviderUnavailable"
    WORKSPACE_REFUSED: Final = "WorkspaceRefused"
    """The provider describes the workspace in a way that is not trusted."""
    WORKSPACE_TAKEN: Final = "WorkspaceTaken"
    SECRET_TAKEN: Final = "SecretTaken"  # noqa: S105  # a reason
    NAMESPACE_MISSING: Final = "NamespaceMissing"
    INVALID_ID: Final = "InvalidId"


class WorkspacePhaseWord:
    """Phases of a WorkspaceClaim."""

    INITIALIZING: Final = "Initializing"
    READY: Final = "Ready"
    DELETING: Final = "Deleting"


class WorkspaceEvent:
    """Reasons of Events."""

    CREDENTIAL_ISSUED: Final = "CredentialIssued"
