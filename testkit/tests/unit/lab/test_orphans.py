"""An object that stays when its owner is deleted is a finding."""

import asyncio
from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.kinds import kind
from konverge.runtime import back_reference
from konverge_testing import Lab
from konverge_testing.lab import Plan
from konverge_testing.lab.runs import run

ROLE = kind("scheduling.k8s.io/v1", "PriorityClass", namespaced=False, plural="priorityclasses")


async def makes_a_cluster_scoped_child(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    labels, annotations = back_reference(w)
    child: Any = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    metadata = {"name": f"of-{w.name}", "labels": labels, "annotations": annotations}
    await ctx.apply(ROLE.decode({**child, "metadata": metadata}))
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


async def cleans_up(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.delete(ROLE, f"of-{w.name}", "")
    return kv.Done()


def scenario(*, finalizer: bool, allow: Any = None) -> Any:
    async def play(lab: Lab) -> None:
        if allow is not None:
            lab.may_outlive_owner(allow, why="it keeps the data of its former owner")
        by = By(makes_a_cluster_scoped_child, cleans_up if finalizer else None)
        rule = kv.Rule("scheduling.k8s.io", ("priorityclasses",), ("create", "delete", "patch"))
        controller = kv.Controller.of(Widget).needs(rule)
        controller = controller.finalizer("tests.konverge.dev/w") if finalizer else controller
        await lab.start(lambda manager: manager.add(controller.reconciled_by(by)))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
        await lab.delete(Widget, "one")
        await lab.until_gone(Widget, "one")

    return play


FOUND = "priorityclasses of-one has outlived its owner tests.konverge.dev/v1/Widget/lab/one (lab.may_outlive_owner allows it)"


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({"finalizer": False}, [FOUND]),
        ({"finalizer": True}, []),
        ({"finalizer": False, "allow": ROLE}, []),
        ({"finalizer": False, "allow": CONFIG_MAP}, [FOUND]),
    ],
)
def test_an_object_that_outlives_its_owner_is_a_finding(options: dict[str, Any], problems: list[str]) -> None:
    assert run(scenario(**options), Plan(name="reference")).problems == problems


def test_an_object_that_was_orphaned_on_purpose_passes() -> None:
    async def play(lab: Lab) -> None:
        await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(fine))))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
        metadata = {
            "name": "child",
            "namespace": lab.namespace,
            "ownerReferences": [_reference(await lab.get(Widget, "one"))],
        }
        await lab.create(CONFIG_MAP.decode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        await lab.client.delete(Widget, "one", lab.namespace, propagation="Orphan")
        await asyncio.sleep(5)

    assert run(play, Plan(name="reference")).problems == []


async def fine(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Fine")
    return kv.Done()


def _reference(owner: Widget) -> dict[str, str]:
    return {"apiVersion": "tests.konverge.dev/v1", "kind": "Widget", "name": owner.name, "uid": owner.metadata.uid}
