"""Sites that take over ConfigMaps which people created (docs/how-to/adopt.md)."""

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")


class SiteSpec(kv.Model):
    title: str


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Site(kv.CustomResource[SiteSpec, kv.Status]):
    """A site with its configuration."""


class SiteReconciler:
    async def reconcile(self, site: Site, ctx: kv.Context[Site]) -> kv.Outcome:
        config = CONFIG_MAP.new(site.name, site.namespace, data={"title": site.spec.title})
        await ctx.own(config, adopt=True)
        ctx.status.set_condition("Ready", True, "Configured")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Site).owns(CONFIG_MAP).reconciled_by(SiteReconciler()))
