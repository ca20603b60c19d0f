"""The rights of the lab's managers in memory: exactly the rules that they declare."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from plain_runs import played
from widgets import CONFIG_MAP, SECRET, By, Widget, widget

import konverge as kv
from konverge.runtime import ManagerSettings
from konverge_testing import Lab
from konverge_testing.lab import Plan
from konverge_testing.lab.findings import Mistakes
from konverge_testing.lab.runs import Scenario, run

DEPLOYMENT = kv.kind("apps/v1", "Deployment", plural="deployments")
NAMESPACE = kv.kind("v1", "Namespace", namespaced=False, plural="namespaces")
ROLE = kv.kind("rbac.authorization.k8s.io/v1", "Role", plural="roles")

Send = Callable[[Widget, kv.Context[Widget]], Awaitable[Any]]


def controller(send: Send) -> kv.Controller[Any]:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await send(w, ctx)
        ctx.status.set_condition("Ready", True, "Sent")
        return kv.Done()

    return kv.Controller.of(Widget).reconciled_by(By(reconcile))


def scenario(spec: kv.Controller[Any], **start: Any) -> Scenario:
    async def played_once(lab: Lab) -> None:
        await lab.client.create(SECRET.new("password", lab.namespace))
        await lab.client.create(deployment(lab.namespace))
        await lab.start(lambda manager: manager.add(spec), **start)
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))

    return played_once


def deployment(namespace: str) -> kv.Object:
    labels = {"app": "web"}
    containers = [{"name": "web", "image": "example.com/web"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return DEPLOYMENT.new("web", namespace, spec={"selector": {"matchLabels": labels}, "template": template})


async def gets(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.live(SECRET).get(w.namespace, "password")


async def lists(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.live(SECRET).list(w.namespace)


async def creates(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.client.create(CONFIG_MAP.new("new", w.namespace))


async def replaces(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.client.replace(SECRET.new("password", w.namespace))


async def applies(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.apply(CONFIG_MAP.new("new", w.namespace))


async def scales(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.patch(DEPLOYMENT, "web", w.namespace, patch={"spec": {"replicas": 2}}, subresource="scale")


async def deletes(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.delete(SECRET, "password", w.namespace)


async def deletes_all(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.client.raw("DELETE", f"/api/v1/namespaces/{w.namespace}/secrets")


async def annotates_itself(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.patch(Widget, w.name, w.namespace, patch={"metadata": {"annotations": {"a": "b"}}})


async def reads_the_namespace(w: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.live(NAMESPACE).get("", w.namespace)


async def swallows(w: Widget, ctx: kv.Context[Widget]) -> None:
    try:
        await gets(w, ctx)
    except kv.ApiError:
        return


UNDECLARED: list[tuple[Send, kv.Rule]] = [
    (gets, kv.Rule("", ("secrets",), ("get",))),
    (lists, kv.Rule("", ("secrets",), ("list",))),
    (creates, kv.Rule("", ("configmaps",), ("create",))),
    (replaces, kv.Rule("", ("secrets",), ("update",))),
    (applies, kv.Rule("", ("configmaps",), ("create", "patch"))),
    (scales, kv.Rule("apps", ("deployments/scale",), ("patch",))),
    (deletes, kv.Rule("", ("secrets",), ("delete",))),
    (deletes_all, kv.Rule("", ("secrets",), ("deletecollection",))),
    (annotates_itself, kv.Rule("tests.konverge.dev", ("widgets",), ("patch",))),
    (reads_the_namespace, kv.Rule("", ("namespaces",), ("get",))),
    (swallows, kv.Rule("", ("secrets",), ("get",))),
]


@pytest.mark.parametrize(("send", "rule"), UNDECLARED, ids=lambda what: getattr(what, "__name__", ""))
def test_a_request_without_a_declared_rule_fails_a_plain_test(send: Send, rule: kv.Rule) -> None:
    with pytest.raises(AssertionError) as caught:
        played(scenario(controller(send)))
    assert f'kv.Rule("{rule.group}", ("{rule.resources[0]}",), ("' in str(caught.value)
    played(scenario(controller(send).needs(rule)))


def test_an_apply_that_creates_needs_the_right_to_create() -> None:
    with pytest.raises(AssertionError, match="no rule for create of configmaps"):
        played(scenario(controller(applies).needs(kv.Rule("", ("configmaps",), ("patch",)))))


def test_a_request_without_a_declared_rule_fails_a_run_of_a_plan() -> None:
    (problem,) = run(scenario(controller(swallows)), Plan(name="reference")).problems
    assert problem.startswith("manager 'lab' declares no rule for get of secrets")
    assert run(scenario(controller(swallows).needs(UNDECLARED[0][1])), Plan(name="reference")).problems == []


def test_a_test_switches_the_rights_off_or_expects_the_refusal() -> None:
    played(scenario(controller(gets), rbac=False))

    async def expects(lab: Lab) -> None:
        lab.expects(kv.Forbidden, "cannot get resource")
        await scenario(controller(swallows))(lab)

    played(expects)


async def test_a_manager_with_a_configuration_of_its_own_keeps_its_user(lab: Lab) -> None:
    await scenario(controller(gets), config=lab.config)(lab)


@pytest.mark.parametrize(("namespace", "refused"), [("", False), ("lab", True)])
def test_rules_hold_elsewhere_unless_the_settings_name_a_namespace(namespace: str, refused: bool) -> None:
    async def elsewhere(_: Widget, ctx: kv.Context[Widget]) -> None:
        await ctx.apply(CONFIG_MAP.new("new", "other"))

    spec = controller(elsewhere).needs(kv.Rule("", ("configmaps",), ("create", "patch")))
    settings = ManagerSettings(namespace=namespace, strict=True) if namespace else None

    async def two_namespaces(lab: Lab) -> None:
        await lab.namespace_also("other")
        await scenario(spec, settings=settings)(lab)

    if not refused:
        played(two_namespaces)
        return
    with pytest.raises(AssertionError, match=r"patch of configmaps .* in namespace other"):
        played(two_namespaces)


def test_a_role_gives_no_more_rights_than_its_writer_has() -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]

    async def grants(w: Widget, ctx: kv.Context[Widget]) -> None:
        await ctx.apply(ROLE.new("runner", w.namespace, rules=rules))

    writes = kv.Rule("rbac.authorization.k8s.io", ("roles",), ("create", "get", "patch"))
    with pytest.raises(AssertionError):
        played(scenario(controller(grants).needs(writes)))
    played(scenario(controller(grants).needs(writes, kv.Rule("", ("pods",), ("delete",)))))


async def test_each_manager_has_only_its_own_rules(lab: Lab) -> None:
    await scenario(controller(gets).needs(UNDECLARED[0][1]))(lab)
    await lab.stop()
    await lab.delete(Widget, "one")
    await lab.start(lambda manager: manager.add(controller(gets)))
    await lab.create(widget("two"))
    await lab.settled()
    with pytest.raises(Mistakes, match="declares no rule for get of secrets"):
        await lab.verify()
