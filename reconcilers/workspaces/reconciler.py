"""The reconciler of WorkspaceClaims: observe, decide, act, execute.

`reconcile`: create the workspace, write a credential into the Secret if one is due, report. `finalize`: delete the Secret, so that no
reader finds its credential, then delete the workspace and wait for its end.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.outcome import Done, Outcome
from konverge.reconcilers.workspaces.act import issue_credential
from konverge.reconcilers.workspaces.decide import credential_due, plan_deleting, plan_status
from konverge.reconcilers.workspaces.observe import id_problem, observe, on_behalf_of
from konverge.reconcilers.workspaces.provider import (
    ProviderUnavailable,
    WorkspacePhase,
    WorkspaceProvider,
    WorkspaceRefused,
    WorkspaceState,
)
from konverge.reconcilers.workspaces.secrets import SECRET, kubeconfig_secret, secret_name
from konverge.reconcilers.workspaces.settings import WorkspaceSettings

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["WorkspaceClaimReconciler"]


class WorkspaceClaimReconciler:
    """Reconciles a WorkspaceClaim into a workspace and a Secret with its kubeconfig."""

    def __init__(self, settings: WorkspaceSettings, provider: WorkspaceProvider) -> None:
        self.settings = settings
        self._provider = provider

    async def reconcile(self, claim: WorkspaceClaim, ctx: Context[WorkspaceClaim]) -> Outcome:
        """Have the provider create the workspace, keep its credential valid, and report."""
        observed = await observe(claim, self._namespace(ctx), self._provider, ctx)
        if credential_due(observed, ctx.now()):
            lifetime = timedelta(seconds=self.settings.credential_seconds)
            observed = await issue_credential(observed, self._provider, lifetime, ctx)
        return await ctx.execute(plan_status(observed, self.settings, ctx.now()))

    async def finalize(self, claim: WorkspaceClaim, ctx: Context[WorkspaceClaim]) -> Outcome:
        """Delete the Secret, then the workspace; Done if neither exists."""
        namespace, name = self._namespace(ctx), secret_name(claim.workspace)
        if id_problem(claim) is not None:
            return Done()
        secret = kubeconfig_secret(claim, await ctx.live(SECRET).find(namespace, name))
        if secret is not None and secret.ours:
            await ctx.delete(SECRET, name, namespace, uid=secret.uid)
        try:
            state = await self._provider.delete(on_behalf_of(claim, ctx))
        except (ProviderUnavailable, WorkspaceRefused) as error:
            state = WorkspaceState(WorkspacePhase.DELETING, message=f"the provider is away: {error}")
        if state.phase is WorkspacePhase.GONE:
            return Done()
        return await ctx.execute(plan_deleting(state, self.settings))

    def _namespace(self, ctx: Context[WorkspaceClaim]) -> str:
        return self.settings.namespace or ctx.client.config.namespace or "default"
