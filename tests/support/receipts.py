"""An operator that leaves a receipt when its object is deleted, for the lab's faults in `finalize`."""

from collections.abc import Callable
from typing import Any

from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.lab import Plan
from konverge_testing.lab.plans import Interruption
from konverge_testing.lab.runs import Scenario

FINALIZER = "tests.konverge.dev/receipt"
INTERRUPTIONS = tuple(
    Plan(name=f"{do} {moment} call {number}", interruptions=(Interruption(finalize=number, do=do, moment=moment),))
    for number in (1, 2, 9)
    for do in ("raise", "cancel")
    for moment in ("before", "after")
)


async def reconcile(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


def scenario_of(receipt: Callable[[Any, Any], str]) -> Scenario:
    """Return a scenario whose operator leaves a receipt of this name when its object is deleted, in two calls of finalize."""

    async def finalize(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if not owner.status.note:
            ctx.status.draft.note = "going"
            return kv.RequeueAfter(1)
        await ctx.apply(CONFIG_MAP.new(receipt(owner, ctx), owner.namespace, data={"of": owner.name}))
        return kv.Done()

    def build(manager: kv.Manager) -> None:
        writes = kv.Rule("", ("configmaps",), ("create", "patch"))
        spec = kv.Controller.of(Widget).watches(CONFIG_MAP, to=lambda _, __: ()).needs(writes).finalizer(FINALIZER)
        manager.add(spec.reconciled_by(By(reconcile, finalize)))

    async def scenario(lab: Lab) -> None:
        await lab.start(build)
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
        await lab.delete(Widget, "one")
        await lab.until_gone(Widget, "one")

    return scenario


repeatable = scenario_of(lambda owner, ctx: f"receipt-of-{owner.name}")
next_number = scenario_of(lambda owner, ctx: f"receipt-{len(ctx.cache(CONFIG_MAP).keys(owner.namespace))}")
