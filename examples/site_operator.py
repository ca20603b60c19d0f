"""Sites of static pages: the decision is a pure function, and its plan names the whole set of children (docs/guide/reconcilers.md)."""

from pydantic import Field

import konverge as kv

PAGE = kv.kind("v1", "ConfigMap")


class SiteSpec(kv.Model):
    pages: dict[str, str] = Field(default_factory=dict)
    paused: bool = False


class SiteStatus(kv.Status):
    pages: int = 0


@kv.resource("example.com/v1", conditions=("Ready",))
class Site(kv.CustomResource[SiteSpec, SiteStatus]):
    """A site of static pages."""


def decide(site: Site) -> kv.Plan[SiteStatus]:
    """Return what to write: no loop, no server and no fixture is needed to test it."""
    if site.spec.paused:  # without children in the plan, the published pages stay
        paused = kv.ConditionUpdate("Ready", False, "Paused", "set spec.paused to false to publish")
        return kv.Plan(set_conditions=(paused,))
    pages = tuple(
        PAGE.new(f"{site.name}-{name}", site.namespace, data={"index.html": text})
        for name, text in sorted(site.spec.pages.items())
    )
    return kv.Plan(
        children=pages,
        set_conditions=(kv.ConditionUpdate("Ready", True, "Published", f"{len(pages)} pages are published"),),
        draft=SiteStatus(pages=len(pages)),
    )


class SiteReconciler:
    async def reconcile(self, site: Site, ctx: kv.Context[Site]) -> kv.Outcome:
        return await ctx.execute(decide(site))


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Site).owns(PAGE).reconciled_by(SiteReconciler()))
