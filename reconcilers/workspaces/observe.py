"""The state of a claim: its workspace, as the provider has it, and its Secret, read live."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.reconcilers.workspaces.provider import (
    ClaimOfWorkspace,
    ProviderUnavailable,
    WorkspaceProvider,
    WorkspaceRefused,
    WorkspaceState,
    WorkspaceTaken,
)
from konverge.reconcilers.workspaces.secrets import SECRET, KubeconfigSecret, kubeconfig_secret, secret_name
from konverge.reconcilers.workspaces.words import WorkspaceReason

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = [
    "PROVIDER_ERRORS",
    "ObservedWorkspace",
    "WorkspaceProblem",
    "id_problem",
    "observe",
    "on_behalf_of",
    "provider_problem",
]

PROVIDER_ERRORS: Final = (ProviderUnavailable, WorkspaceRefused, WorkspaceTaken)
"""Errors of a provider that the status reports."""
_ID: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class WorkspaceProblem:
    """The reason why the state of a workspace is unknown, or no workspace can exist."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ObservedWorkspace:
    """A claim, its workspace and its Secret."""

    claim: WorkspaceClaim
    namespace: str
    state: WorkspaceState | None = None
    secret: KubeconfigSecret | None = None
    problem: WorkspaceProblem | None = None


def id_problem(claim: WorkspaceClaim) -> WorkspaceProblem | None:
    """Return why no workspace can have the id of the claim: without spec.id it is the claim's name, which may be longer or have dots."""
    if _ID.fullmatch(claim.workspace):
        return None
    message = (
        f"{claim.workspace!r} cannot name a workspace, which takes up to 63 lower case letters, digits and dashes: "
        "make the claim anew with such a name, or with spec.id"
    )
    return WorkspaceProblem(WorkspaceReason.INVALID_ID, message)


async def observe(
    claim: WorkspaceClaim, namespace: str, provider: WorkspaceProvider, ctx: Context[WorkspaceClaim]
) -> ObservedWorkspace:
    """Read the Secret of a claim and the state of its workspace; the provider creates a missing workspace."""
    problem = id_problem(claim)
    if problem is not None:
        return ObservedWorkspace(claim, namespace, problem=problem)
    name = secret_name(claim.workspace)
    secret = kubeconfig_secret(claim, await ctx.live(SECRET).find(namespace, name))
    try:
        state = await provider.ensure(on_behalf_of(claim, ctx))
    except PROVIDER_ERRORS as error:
        return ObservedWorkspace(claim, namespace, secret=secret, problem=provider_problem(error))
    if secret is not None and not secret.ours:
        text = f"the Secret {namespace}/{name} belongs to another owner: delete or rename it"
        return ObservedWorkspace(claim, namespace, problem=WorkspaceProblem(WorkspaceReason.SECRET_TAKEN, text))
    return ObservedWorkspace(claim, namespace, state=state, secret=secret)


def on_behalf_of(claim: WorkspaceClaim, ctx: Context[WorkspaceClaim]) -> ClaimOfWorkspace:
    """Return the claim as the provider identifies it, with the epoch of this replica."""
    return ClaimOfWorkspace(claim.workspace, claim.metadata.uid, ctx.epoch)


def provider_problem(error: ProviderUnavailable | WorkspaceRefused | WorkspaceTaken) -> WorkspaceProblem:
    """Return the problem that the status reports for an error of the provider."""
    if isinstance(error, WorkspaceRefused):
        return WorkspaceProblem(WorkspaceReason.WORKSPACE_REFUSED, str(error))
    if isinstance(error, WorkspaceTaken):
        return WorkspaceProblem(WorkspaceReason.WORKSPACE_TAKEN, f"{error}: use another id, or delete that workspace")
    return WorkspaceProblem(WorkspaceReason.PROVIDER_UNAVAILABLE, str(error))
