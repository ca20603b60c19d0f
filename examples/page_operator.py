"""Pages: what page_kopf.py does by five handlers, by one reconcile (docs/guide/moving-from-kopf.md)."""

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")

SEARCH: set[str] = set()
"""The search engine that lists the published pages; a service outside Kubernetes."""


class PageSpec(kv.Model):
    text: str


class PageStatus(kv.Status):
    characters: int | None = None


@kv.resource("example.com/v1", conditions=("Ready",))
class Page(kv.CustomResource[PageSpec, PageStatus]):
    """A page that is published."""


class PageReconciler:
    async def reconcile(self, page: Page, ctx: kv.Context[Page]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new(page.name, page.namespace, data={"index.html": page.spec.text}))
        SEARCH.add(page.name)
        ctx.status.draft.characters = len(page.spec.text)
        ctx.status.set_condition("Ready", True, "Published")
        return kv.RequeueAfter(60)

    async def finalize(self, page: Page, _: kv.Context[Page]) -> kv.Outcome:
        SEARCH.discard(page.name)
        return kv.Done()


def build(manager: kv.Manager) -> None:
    controller = kv.Controller.of(Page).owns(CONFIG_MAP).finalizer("example.com/search")
    manager.add(controller.reconciled_by(PageReconciler()))


if __name__ == "__main__":
    kv.run(build, name="pages")
