"""A field with a new name: both names are read (docs/how-to/rename-field.md)."""

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")


class ClusterSpec(kv.Model):
    replicas: int | None = None
    """The number of nodes."""
    size: int | None = None
    """Deprecated: the former name of `replicas`, which takes precedence."""

    @property
    def nodes(self) -> int:
        """The number of nodes, by either name."""
        return next((number for number in (self.replicas, self.size) if number is not None), 1)


@kv.resource("howto.example.com/v1", conditions=("Ready", "Deprecated"))
class Cluster(kv.CustomResource[ClusterSpec, kv.Status]):
    """A cluster of nodes."""


class ClusterReconciler:
    async def reconcile(self, cluster: Cluster, ctx: kv.Context[Cluster]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new(cluster.name, cluster.namespace, data={"nodes": str(cluster.spec.nodes)}))
        ctx.status.set_condition("Ready", True, "Configured")
        if cluster.spec.size is None:
            ctx.status.set_condition("Deprecated", False, "PresentFields")
        else:
            ctx.status.set_condition("Deprecated", True, "FormerField", "replace spec.size by spec.replicas")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    controller = kv.Controller.of(Cluster).owns(CONFIG_MAP).counts_conditions("Deprecated")
    manager.add(controller.reconciled_by(ClusterReconciler()))
