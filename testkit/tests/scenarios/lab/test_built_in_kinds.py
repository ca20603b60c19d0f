"""A correct owner of each built-in kind passes the plans: the fields that the server allocates are not compared."""

from typing import Any

import pytest
from built_in_owners import BODIES, owner_of
from widgets import By, Widget, widget

import konverge as kv
from konverge.kinds import kind
from konverge_testing import Lab
from konverge_testing.lab import explore
from konverge_testing.lab.plans import Plan
from konverge_testing.lab.runs import run

SERVICE = kind("v1", "Service")
POD = kind("v1", "Pod")
SECRET = kind("v1", "Secret")
ACTING = ("limits", "quota")
"""Kinds whose objects change or refuse later objects of their namespace: the end depends on the order."""


@pytest.mark.scenario
async def test_an_owner_of_each_built_in_kind_converges(lab: Lab) -> None:
    await owner_of(*(name for name in BODIES if name not in ACTING))(lab)


@pytest.mark.parametrize("name", ["svc", "po", *ACTING])
def test_an_owner_of_a_kind_with_allocated_fields_passes_plans(name: str) -> None:
    report = explore(owner_of(name), quick=8)
    assert report.passed, report.text()


async def publishes_the_address(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ports = [{"name": "web", "port": 80}]
    service: Any = SERVICE.decode(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": w.name, "namespace": w.namespace},
            "spec": {"type": "NodePort", "selector": {"app": w.name}, "ports": ports},
        }
    )
    await ctx.own(service)
    there = ctx.cache(SERVICE).find(w.namespace, w.name)
    if there is None:
        return kv.Done()
    address, port = there.get("spec", "clusterIP"), there.get("spec", "ports")[0]["nodePort"]
    await ctx.own(SECRET.new(w.name, w.namespace, stringData={"url": f"http://{address}:80"}))
    ctx.status.draft.parts, ctx.status.draft.note = port, f"http://{address}:{port}"
    ctx.status.set_condition("Ready", True, "Published", f"at {address}.")
    return kv.Done()


async def published(lab: Lab) -> None:
    controller = kv.Controller.of(Widget).owns(SERVICE).owns(SECRET).reconciled_by(By(publishes_the_address))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))


def test_an_operator_that_publishes_allocated_values_passes_plans() -> None:
    report = explore(published, quick=8)
    assert report.passed, report.text()


async def generates_a_name(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    if w.status.note is None:
        pod: Any = {"metadata": {"generateName": "run-", "namespace": w.namespace}, "spec": {"containers": []}}
        pod["spec"]["containers"].append({"name": "main", "image": "example.com/app:1"})
        created = await ctx.client.create(POD.decode({"apiVersion": "v1", "kind": "Pod", **pod}))
        ctx.status.draft.note = created.name
    ctx.status.set_condition("Ready", True, "Started")
    return kv.Done()


async def generated(lab: Lab) -> None:
    controller = kv.Controller.of(Widget).needs(kv.Rule("", ("pods",), ("create", "get", "list")))
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(generates_a_name))))
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))


@pytest.mark.parametrize(
    ("moment", "problems"),
    [
        ("before", []),
        (
            "after",
            [
                "the end state differs: pods lab/<name run-(drawn)> (2) is there and should not be",
                "pods lab/<name run-(drawn)> was created 2 times, in the reference run 1",
            ],
        ),
    ],
)
def test_a_generated_name_is_masked_and_a_second_object_is_not(moment: Any, problems: list[str]) -> None:
    from konverge_testing.lab import comparison

    reference = run(generated, Plan(name="reference", seed=1))
    crash = Plan.from_json(f'{{"name": "x", "seed": 2, "crashes": [{{"write": 1, "moment": "{moment}"}}]}}')
    assert comparison.problems_of(reference, run(generated, crash)) == problems
