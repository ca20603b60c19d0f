"""The barrier and a cache of objects with a label: a write to an object that the cache never shows delays no reconcile."""

import asyncio
from collections.abc import Iterable

import pytest
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge_testing import Lab

pytestmark = pytest.mark.lab_on("memory")


def nothing(_: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return ()


@pytest.mark.parametrize("label", ["yes", "no"], ids=["inside of the selection", "outside of it"])
async def test_reconcile_follows_in_time_after_writes_inside_and_outside_the_selection(lab: Lab, label: str) -> None:
    moments = list[float]()

    async def make_one(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        moments.append(asyncio.get_running_loop().time())
        if len(moments) > 1:
            return kv.Done()
        await ctx.apply(CONFIG_MAP.new("one", owner.namespace, labels={"shown": label}))
        return kv.RequeueAfter(2)

    controller = kv.Controller.of(Widget).watches(CONFIG_MAP, to=nothing, labels="shown=yes", metadata_only=True)
    controller = controller.needs(kv.Rule("", ("configmaps",), ("create", "patch")))
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(make_one))))
    await lab.create(widget())
    await asyncio.sleep(30)
    first, second = moments
    assert second - first < 3
