"""Onboardings that get a workspace each, by as many replicas as are started: each works on its own Onboardings, and on the Onboardings of a
replica that died.

export KCP_KUBECONFIG=kcp.kubeconfig        # its server is the root workspace of a kcp
python examples/shared_workspaces.py        # in each of several terminals, or as the pods of a Deployment
"""

import os

import konverge as kv
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim, WorkspaceClaimSpec
from konverge.reconcilers import workspaces


class OnboardingSpec(kv.Model):
    id: str


class OnboardingStatus(kv.Status):
    cluster_url: str | None = None


@kv.resource("example.com/v1", scope="Cluster", conditions=("Ready",))
class Onboarding(kv.CustomResource[OnboardingSpec, OnboardingStatus]):
    """A customer who needs a workspace."""


class OnboardingReconciler:
    async def reconcile(self, onboarding: Onboarding, ctx: kv.Context[Onboarding]) -> kv.Outcome:
        wanted = WorkspaceClaim.new(onboarding.name, spec=WorkspaceClaimSpec(id=onboarding.spec.id))
        claim = await ctx.own(wanted)  # a key of its owner: the replica that has the Onboarding has its claim
        ctx.status.draft.cluster_url = claim.status.cluster_url
        ready = claim.status.phase == "Ready"
        message = f"the workspace is {claim.status.phase or 'asked for'}"
        ctx.status.set_condition("Ready", ready, "WorkspaceReady" if ready else "WorkspacePending", message)
        return kv.Done()  # the watch on claims enqueues it


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Onboarding).owns(WorkspaceClaim).sharded().reconciled_by(OnboardingReconciler()))
    settings = workspaces.WorkspaceSettings(kubeconfig=os.environ.get("KCP_KUBECONFIG", ""), namespace="default")
    workspaces.install(manager, settings)


if __name__ == "__main__":
    os.environ.setdefault("KONVERGE_SHARDING__MODE", "hash")  # off, leader, hash, ordinal or coordinator
    kv.run(build, name="workspace-operator")
