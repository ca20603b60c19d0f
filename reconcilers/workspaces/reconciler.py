"""The reconciler of WorkspaceClaims: the async shell around `decide.py`.

`reconcile`: call `ensure`, read the Secret, write a credential if one is due, report. `finalize`: delete the Secret first, so that nothing
reads its credential any more; then delete the workspace, and wait for its end.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import AlreadyExists, Conflict, NotFound, RetryAfter
from konverge.outcome import Done, Outcome
from konverge.reconcilers.shared.delays import READ_AGAIN
from konverge.reconcilers.workspaces.decide import (
    ObservedWorkspace,
    WorkspaceProblem,
    credential_due,
    id_problem,
    plan_deleting,
    plan_status,
)
from konverge.reconcilers.workspaces.provider import (
    ClaimOfWorkspace,
    ProviderUnavailable,
    WorkspacePhase,
    WorkspaceProvider,
    WorkspaceRefused,
    WorkspaceState,
    WorkspaceTaken,
)
from konverge.reconcilers.workspaces.secrets import SECRET, content, kubeconfig_secret, new_secret, secret_name
from konverge.reconcilers.workspaces.settings import WorkspaceSettings
from konverge.reconcilers.workspaces.words import WorkspaceEvent, WorkspaceReason

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["WorkspaceClaimReconciler"]

_PROBLEMS = (ProviderUnavailable, WorkspaceRefused, WorkspaceTaken)
"""Errors of a provider that the status reports."""


class WorkspaceClaimReconciler:
    """Reconciles a WorkspaceClaim into a workspace and a Secret with its kubeconfig."""

    def __init__(self, settings: WorkspaceSettings, provider: WorkspaceProvider) -> None:
        self.settings = settings
        self._provider = provider

    async def reconcile(self, claim: WorkspaceClaim, ctx: Context[WorkspaceClaim]) -> Outcome:
        """Create the workspace, keep its credential fresh, and report."""
        observed = ObservedWorkspace(claim, self._namespace(ctx), problem=id_problem(claim))
        if observed.problem is None:
            observed = await self._observe(observed, ctx)
        if credential_due(observed, ctx.now()):
            observed = await self._issue(observed, ctx)
        return await ctx.execute(plan_status(observed, self.settings, ctx.now()))

    async def _observe(self, observed: ObservedWorkspace, ctx: Context[WorkspaceClaim]) -> ObservedWorkspace:
        claim = observed.claim
        found = await ctx.live(SECRET).find(observed.namespace, secret_name(claim.workspace))
        secret = kubeconfig_secret(claim, found)
        try:
            state = await self._provider.ensure(_on_behalf_of(claim, ctx))
        except _PROBLEMS as error:
            return replace(observed, secret=secret, problem=_problem_of(error))
        if secret is not None and not secret.ours:
            text = f"the Secret {observed.namespace}/{secret_name(claim.workspace)} belongs to another owner: delete or rename it"
            return replace(observed, problem=WorkspaceProblem(WorkspaceReason.SECRET_TAKEN, text))
        return replace(observed, state=state, secret=secret)

    async def _issue(self, observed: ObservedWorkspace, ctx: Context[WorkspaceClaim]) -> ObservedWorkspace:
        """Write a new credential into the Secret; the Secret is created first, so that no credential is issued without a place."""
        claim, state, namespace = observed.claim, observed.state, observed.namespace
        assert state is not None, "a credential is due for a workspace that is ready"
        lifetime = timedelta(seconds=self.settings.credential_seconds)
        try:
            if observed.secret is None:
                made = await ctx.client.create(new_secret(claim, namespace))
                observed = replace(observed, secret=kubeconfig_secret(claim, made))
            credential = await self._provider.credential(_on_behalf_of(claim, ctx), lifetime)
            assert observed.secret is not None, "it was there, or was made"
            written = content(state, credential, ctx.now(), uid=observed.secret.uid)
            stored = await ctx.patch(SECRET, secret_name(claim.workspace), namespace, patch=written)
        except _PROBLEMS as error:
            return replace(observed, problem=_problem_of(error))
        except (AlreadyExists, Conflict, NotFound) as error:
            if observed.secret is None and isinstance(error, NotFound):
                text = f"there is no namespace {namespace} for the Secret: make it, or set workspaces.namespace"
                return replace(observed, problem=WorkspaceProblem(WorkspaceReason.NAMESPACE_MISSING, text))
            # Another writer created, replaced or deleted it since the read.
            raise RetryAfter(READ_AGAIN, "the Secret with the kubeconfig changed since it was read") from error
        ctx.event(
            WorkspaceEvent.CREDENTIAL_ISSUED, f"a kubeconfig was written into the Secret {namespace}/{stored.name}"
        )
        return replace(observed, secret=kubeconfig_secret(claim, stored))

    async def finalize(self, claim: WorkspaceClaim, ctx: Context[WorkspaceClaim]) -> Outcome:
        """Delete the Secret, then the workspace; Done when neither exists."""
        namespace, name = self._namespace(ctx), secret_name(claim.workspace)
        if id_problem(claim) is not None:
            return Done()
        found = await ctx.live(SECRET).find(namespace, name)
        secret = kubeconfig_secret(claim, found)
        if secret is not None and secret.ours:
            await ctx.delete(SECRET, name, namespace, uid=secret.uid)
        try:
            state = await self._provider.delete(_on_behalf_of(claim, ctx))
        except (ProviderUnavailable, WorkspaceRefused) as error:
            state = WorkspaceState(WorkspacePhase.DELETING, message=f"the provider is away: {error}")
        if state.phase is WorkspacePhase.GONE:
            return Done()
        return await ctx.execute(plan_deleting(state, self.settings))

    def _namespace(self, ctx: Context[WorkspaceClaim]) -> str:
        return self.settings.namespace or ctx.client.config.namespace or "default"


def _on_behalf_of(claim: WorkspaceClaim, ctx: Context[WorkspaceClaim]) -> ClaimOfWorkspace:
    return ClaimOfWorkspace(claim.workspace, claim.metadata.uid, ctx.epoch)


def _problem_of(error: ProviderUnavailable | WorkspaceRefused | WorkspaceTaken) -> WorkspaceProblem:
    if isinstance(error, WorkspaceRefused):
        return WorkspaceProblem(WorkspaceReason.WORKSPACE_REFUSED, str(error))
    if isinstance(error, WorkspaceTaken):
        return WorkspaceProblem(WorkspaceReason.WORKSPACE_TAKEN, f"{error}: use another id, or delete that workspace")
    return WorkspaceProblem(WorkspaceReason.PROVIDER_UNAVAILABLE, str(error))
