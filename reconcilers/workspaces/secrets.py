"""The Secret with the kubeconfig of a workspace. Pure.

Guarantees: only `WorkspaceCredential` has its content, and its repr hides it. Its times are in annotations, so they are known without it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from konverge.clock import from_rfc3339, rfc3339
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.kinds import Kind, kind, kind_of
from konverge.objects import Object
from konverge.reconcilers.workspaces.provider import WorkspaceCredential, WorkspaceState
from konverge.reconcilers.workspaces.words import WorkspaceAnnotation, WorkspaceLabel

__all__ = ["KEY", "SECRET", "KubeconfigSecret", "content", "kubeconfig_secret", "new_secret", "secret_name"]

SECRET: Final[Kind[Object]] = kind("v1", "Secret", namespaced=True, plural="secrets")
KEY: Final = "kubeconfig"


@dataclass(frozen=True, slots=True)
class KubeconfigSecret:
    """The properties of the Secret that the decision needs."""

    uid: str
    ours: bool
    url: str = ""
    identity: str = ""
    """The workspace that the credential is for."""
    times: tuple[datetime, datetime] | None = None
    """When the credential was issued, and when it expires; None if there is none, or the times cannot be read."""


def secret_name(workspace: str) -> str:
    """Return the name of the Secret of a workspace.

    >>> secret_name("acme")
    'ws-acme-kubeconfig'
    """
    return f"ws-{workspace}-kubeconfig"


def kubeconfig_secret(claim: WorkspaceClaim, secret: Object | None) -> KubeconfigSecret | None:
    """Return the properties of an existing Secret."""
    if secret is None:
        return None
    controller = secret.metadata.controller
    ours = controller is not None and controller.uid == claim.metadata.uid
    read = secret.metadata.annotation
    times = None
    if (secret.data.get("data") or {}).get(KEY):
        try:
            times = from_rfc3339(read(WorkspaceAnnotation.ISSUED)), from_rfc3339(read(WorkspaceAnnotation.EXPIRES))
        except (ValueError, OverflowError):
            times = None
    return KubeconfigSecret(
        secret.metadata.uid, ours, read(WorkspaceAnnotation.URL), read(WorkspaceAnnotation.IDENTITY), times
    )


def content(state: WorkspaceState, credential: WorkspaceCredential, now: datetime, *, uid: str) -> dict[str, Any]:
    """Return the merge patch of the Secret for a credential."""
    annotations = {
        WorkspaceAnnotation.ISSUED: rfc3339(now),
        WorkspaceAnnotation.EXPIRES: rfc3339(credential.expires),
        WorkspaceAnnotation.URL: state.url,
        WorkspaceAnnotation.IDENTITY: state.identity,
    }
    return {
        "metadata": {"uid": uid, "annotations": annotations},
        "data": {KEY: base64.b64encode(credential.kubeconfig.encode()).decode()},
    }


def new_secret(claim: WorkspaceClaim, namespace: str) -> Object:
    """Return the Secret of a claim, without a credential."""
    kind_ = kind_of(WorkspaceClaim)
    reference = {
        "apiVersion": kind_.api_version,
        "kind": kind_.kind,
        "name": claim.name,
        "uid": claim.metadata.uid,
        "controller": True,
    }
    metadata = {
        "name": secret_name(claim.workspace),
        "namespace": namespace,
        "labels": {WorkspaceLabel.WORKSPACE: claim.workspace},
        "ownerReferences": [reference],
    }
    return Object({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata})
