"""Teams, each with a namespace and a quota: an operator of a cluster-scoped kind (testkit/docs/testing.md)."""

from typing import Annotated

from pydantic import Field

import konverge as kv

NAMESPACE = kv.kind("v1", "Namespace", namespaced=False)
QUOTA = kv.kind("v1", "ResourceQuota")


class TeamSpec(kv.Model):
    members: Annotated[int, Field(ge=1)] = 1


@kv.resource("example.com/v1", scope="Cluster", conditions=("Ready",))
class Team(kv.CustomResource[TeamSpec, kv.Status]):
    """A team of people, with a namespace of its own."""


class TeamReconciler:
    async def reconcile(self, team: Team, ctx: kv.Context[Team]) -> kv.Outcome:
        namespace = await ctx.own(NAMESPACE.new(f"team-{team.name}"))
        if namespace.metadata.deleting:
            ctx.status.set_condition("Ready", False, "Terminating", f"namespace {namespace.name} is being deleted")
            return kv.Done()  # the event of its deletion enqueues the team
        await ctx.own(QUOTA.new("pods", namespace.name, spec={"hard": {"pods": str(10 * team.spec.members)}}))
        ctx.status.set_condition("Ready", True, "Created", f"the team works in namespace {namespace.name}")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Team).owns(NAMESPACE).owns(QUOTA).reconciled_by(TeamReconciler()))
