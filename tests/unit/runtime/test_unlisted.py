"""A controller that also runs without the right to watch an optional kind."""

import asyncio
from collections.abc import Callable, Iterable

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge.crds import crd
from konverge.keys import Key
from konverge.objects import Object
from konverge.runtime import Caches
from konverge_testing import Lab, install_crds
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule

CONFIG_MAP = kv.kind("v1", "ConfigMap", namespaced=True)
AGENT = "operator *"


def the_widgets(_: Object, caches: Caches) -> Iterable[Key]:
    return caches(Widget).keys()


async def say_what_is_seen(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    problem = ctx.cache(CONFIG_MAP).problem
    seen = "Nothing" if problem is None else problem.cause
    ctx.status.set_condition("Ready", ctx.serves(CONFIG_MAP), seen, f"a widget named {w.name}")
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Widget)
        .watches(CONFIG_MAP, to=the_widgets, optional=True, unlisted=True)
        .reconciled_by(By(say_what_is_seen))
    )


def deny(lab: Lab) -> Rule:
    text = 'configmaps is forbidden: User "u" cannot list resource "configmaps" in API group "" at the cluster scope'
    match = Match(verbs=("list", "watch"), resources=("configmaps",), user_agent=AGENT)
    rule = Rule(match, Refuse(status=403, reason="Forbidden", message=text))
    lab.server.faults.add(rule)
    return rule


def ready(status: str, reason: str) -> Callable[[Widget], bool]:
    def test(found: Widget) -> bool:
        condition = found.find_condition("Ready")
        return condition is not None and (condition.status, condition.reason) == (status, reason)

    return test


async def test_reconciles_run_without_the_right_and_again_after_each_rights_change(lab: Lab) -> None:
    await install_crds(lab.client, [crd(Widget)])
    denied = deny(lab)
    await lab.start(build, name="operator", wait=False)
    await lab.create(widget())
    await lab.until(Widget, "one", ready("False", "Forbidden"))
    report = lab.manager.report().of("widget")
    assert not report.ready
    assert "configmaps" in report.why
    lab.server.faults.remove(denied)
    await lab.until(Widget, "one", ready("True", "Nothing"), timeout=90)
    assert lab.manager.report().ready
    deny(lab)
    await lab.until(Widget, "one", ready("True", "Forbidden"), timeout=900)
    await asyncio.sleep(60)
    assert not lab.manager.report().ready


@pytest.mark.parametrize("optional", [False, True], ids=["needed", "optional"])
async def test_without_the_right_to_watch_any_other_kind_nothing_is_reconciled(lab: Lab, optional: bool) -> None:
    def of_the_kind(manager: kv.Manager) -> None:
        controller = kv.Controller.of(Widget).watches(CONFIG_MAP, to=the_widgets, optional=optional)
        manager.add(controller.reconciled_by(By(say_what_is_seen)))

    await install_crds(lab.client, [crd(Widget)])
    denied = deny(lab)
    await lab.start(of_the_kind, name="operator", wait=False)
    await lab.create(widget())
    await asyncio.sleep(600)
    assert (await lab.get(Widget, "one")).find_condition("Ready") is None
    assert "configmaps" in lab.manager.report().of("widget").why
    lab.server.faults.remove(denied)
    await lab.until(Widget, "one", ready("True", "Nothing"), timeout=90)
