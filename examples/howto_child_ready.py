"""A shop whose web server starts after its database (docs/how-to/child-ready.md)."""

import konverge as kv

DEPLOYMENT = kv.kind("apps/v1", "Deployment")


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Shop(kv.CustomResource[kv.Model, kv.Status]):
    """A web server and its database."""


class ShopReconciler:
    async def reconcile(self, shop: Shop, ctx: kv.Context[Shop]) -> kv.Outcome:
        for part in ("database", "web"):
            deployment = await ctx.own(deployment_of(shop, part))
            if not rolled_out(deployment):
                ctx.status.set_condition("Ready", False, "Starting", f"{deployment.name} is not available")
                return kv.Done()  # each change of the Deployment enqueues the shop
        ctx.status.set_condition("Ready", True, "Started")
        return kv.Done()


def rolled_out(deployment: kv.Object) -> bool:
    present = deployment.get("status", "observedGeneration") == deployment.metadata.generation
    return present and kv.is_true("Available")(deployment)


def deployment_of(shop: Shop, part: str) -> kv.Object:
    name = f"{shop.name}-{part}"
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": part, "image": part}]}}
    return DEPLOYMENT.new(name, shop.namespace, spec={"selector": {"matchLabels": {"app": name}}, "template": pod})


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Shop).owns(DEPLOYMENT).reconciled_by(ShopReconciler()))
