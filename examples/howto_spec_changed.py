"""A controller that ignores changes beside the spec (docs/how-to/spec-changed.md)."""

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")


class PageSpec(kv.Model):
    text: str


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Page(kv.CustomResource[PageSpec, kv.Status]):
    """A page of text."""


class PageReconciler:
    async def reconcile(self, page: Page, ctx: kv.Context[Page]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new(page.name, page.namespace, data={"text": page.spec.text}))
        ctx.status.set_condition("Ready", True, "Published")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    controller = kv.Controller.of(Page).when(kv.generation_changed).owns(CONFIG_MAP)
    manager.add(controller.reconciled_by(PageReconciler()))
