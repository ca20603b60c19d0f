"""A reconciler that runs a command in a pod, with the rights that it declares."""

import asyncio

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.apiserver import RunningCommand
from konverge_testing.lab.findings import Mistakes

pytestmark = pytest.mark.lab_on("memory")

POD = kv.kind("v1", "Pod")


async def asks_the_pod(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    result = await ctx.client.run("shop", w.namespace, ["version"])
    ctx.status.set_condition("Ready", True, "Asked", result.text)
    return kv.Done()


async def version(command: RunningCommand) -> int:
    await asyncio.sleep(5)
    await command.stdout(b"v1")
    return 0


@pytest.mark.parametrize(("verbs", "missing"), [(("create", "get"), ""), (("get",), "create"), ((), "get")])
async def test_a_reconcile_runs_a_command_with_its_declared_rights(
    lab: Lab, verbs: tuple[str, ...], missing: str
) -> None:
    assert lab.server is not None
    await lab.create(POD.new("shop", spec={"containers": [{"name": "app", "image": "x"}]}))
    lab.server.commands.serve(lab.namespace, "shop", version)
    rules = [kv.Rule("", ("pods/exec",), verbs)] if verbs else []
    await lab.start(lambda m: m.add(kv.Controller.of(Widget).needs(*rules).reconciled_by(By(asks_the_pod))))
    await lab.create(widget())
    if missing:
        await lab.until(Widget, "one", kv.is_false("Ready"))
        assert "- pods/exec\n  verbs:\n  - create\n  - get" in str(lab.manager.report())
        with pytest.raises(Mistakes, match=f"declares no rule for {missing} of pods/exec"):
            await lab.verify()
    else:
        ready = await lab.until(Widget, "one", kv.is_true("Ready"))
        assert ready.condition("Ready").message == "v1"
