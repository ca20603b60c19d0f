"""The effects of a claim that no plan holds: a credential of the provider, written into the Secret of the claim."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import AlreadyExists, Conflict, NotFound, RetryAfter
from konverge.reconcilers.shared.delays import READ_AGAIN
from konverge.reconcilers.workspaces.observe import (
    PROVIDER_ERRORS,
    ObservedWorkspace,
    WorkspaceProblem,
    on_behalf_of,
    provider_problem,
)
from konverge.reconcilers.workspaces.provider import WorkspaceProvider
from konverge.reconcilers.workspaces.secrets import SECRET, content, kubeconfig_secret, new_secret, secret_name
from konverge.reconcilers.workspaces.words import WorkspaceEvent, WorkspaceReason

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["issue_credential"]


async def issue_credential(
    observed: ObservedWorkspace, provider: WorkspaceProvider, lifetime: timedelta, ctx: Context[WorkspaceClaim]
) -> ObservedWorkspace:
    """Write a new credential into the Secret, which is created before the provider issues the credential; returns the new state.

    Raises RetryAfter if another writer created, replaced or deleted the Secret since the read.
    """
    claim, state, secret, namespace = observed.claim, observed.state, observed.secret, observed.namespace
    assert state is not None, "a credential is due for a workspace that is ready"
    try:
        if secret is None:
            secret = kubeconfig_secret(claim, await ctx.client.create(new_secret(claim, namespace)))
        assert secret is not None, "the Secret was read or created"
        credential = await provider.credential(on_behalf_of(claim, ctx), lifetime)
        patch = content(state, credential, ctx.now(), uid=secret.uid)
        stored = await ctx.patch(SECRET, secret_name(claim.workspace), namespace, patch=patch)
    except PROVIDER_ERRORS as error:
        return replace(observed, secret=secret, problem=provider_problem(error))
    except (AlreadyExists, Conflict, NotFound) as error:
        if secret is None and isinstance(error, NotFound):
            text = f"there is no namespace {namespace} for the Secret: make it, or set workspaces.namespace"
            return replace(observed, problem=WorkspaceProblem(WorkspaceReason.NAMESPACE_MISSING, text))
        raise RetryAfter(READ_AGAIN, "the Secret with the kubeconfig changed since it was read") from error
    ctx.event(WorkspaceEvent.CREDENTIAL_ISSUED, f"a kubeconfig was written into the Secret {namespace}/{stored.name}")
    return replace(observed, secret=kubeconfig_secret(claim, stored))
