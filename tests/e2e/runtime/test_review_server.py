"""Behaviour that only a real API server shows: exact rights, kinds of other projects, owners without a namespace."""

import asyncio
from typing import Any

import pytest
from widgets import CONFIG_MAP, SECRET, By, Widget, part, widget

import konverge as kv
from konverge.client import Client, ClientConfig
from konverge.crds import crd
from konverge.kinds import kind
from konverge.runtime import ManagerSettings, generation_changed
from konverge_testing import ControlPlane, ControlPlaneConfig, Lab, install_crds

pytestmark = pytest.mark.control_plane

FINALIZER = "tests.konverge.dev/widget"
NAMESPACE = kind("v1", "Namespace")
EVENT = kind("events.k8s.io/v1", "Event")
RBAC = "rbac.authorization.k8s.io"


async def nothing(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


async def parts(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    children = tuple(part(number) for number in range(w.spec.parts))
    return await ctx.execute(
        kv.Plan(children=children, set_conditions=(kv.ConditionUpdate("Ready", True, "Made", str(w.spec.parts)),))
    )


async def test_the_rules_of_a_controller_are_all_that_it_needs() -> None:
    """On a server that also requires the right to block the deletion of owners (as OpenShift does)."""
    flags = {"enable-admission-plugins": "OwnerReferencesPermissionEnforcement"}
    spec = kv.Controller.of(Widget).owns(CONFIG_MAP).finalizer(FINALIZER).reconciled_by(By(parts, nothing))
    async with ControlPlane(ControlPlaneConfig(apiserver_flags=flags)) as plane:
        await plane.create_namespace("web")
        rights = await plane.service_account_kubeconfig("web", "operator")
        config = await ClientConfig.from_kubeconfig(rights)
        manager = kv.Manager("operator", config, settings=ManagerSettings(namespace="web", strict=True))
        manager.add(spec)
        admin_config = await ClientConfig.from_kubeconfig(plane.admin_kubeconfig)
        async with Client(admin_config, name="admin") as admin:
            await install_crds(admin, [crd(Widget)])
            role, binding = (kind(f"{RBAC}/v1", name) for name in ("Role", "RoleBinding"))
            await admin.create(role.new("operator", "web", rules=[rule.to_dict() for rule in manager.rules()]))
            subject = {"kind": "ServiceAccount", "name": "operator", "namespace": "web"}
            reference = {"apiGroup": RBAC, "kind": "Role", "name": "operator"}
            await admin.create(binding.new("operator", "web", subjects=[subject], roleRef=reference))
            async with manager, asyncio.timeout(60):
                assert (await manager.ready(timeout=90)).ready
                made = {**widget(parts=2).to_dict(), "metadata": {"name": "one", "namespace": "web"}}
                await admin.create(Widget.decode(made))
                await _said(admin, "2")
                await admin.patch(Widget, "one", "web", patch={"spec": {"parts": 1}}, style="merge")
                await _said(admin, "1")
                while await _parts(admin) != ["part-0"]:
                    await asyncio.sleep(0.05)
                await admin.delete(Widget, "one", "web")
                while (await admin.list(Widget, "web")).items:
                    await asyncio.sleep(0.05)
                errors = [record.error for record in manager.runner("widget").history.recent() if record.error]
            events = [event.get("reason") for event in (await admin.list(EVENT, "web")).items]
    assert errors == []
    assert events == ["Made"]


async def _parts(admin: Client) -> list[str]:
    return sorted(one.name for one in (await admin.list(CONFIG_MAP, "web")).items if one.name.startswith("part-"))


async def _said(admin: Client, message: str) -> None:
    while True:
        ready = (await admin.get(Widget, "one", "web")).find_condition("Ready")
        if ready is not None and ready.message == message:
            return
        await asyncio.sleep(0.05)


async def test_cluster_scoped_owner_restores_its_child_under_a_single_namespace_manager(lab: Lab) -> None:
    async def makes(namespace: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        if namespace.name == lab.namespace:
            await ctx.own(SECRET.new("of-the-namespace", lab.namespace))
        return kv.Done()

    await lab.start(lambda manager: manager.add(kv.Controller.of(NAMESPACE).owns(SECRET).reconciled_by(By(makes))))
    first = await lab.until(SECRET, "of-the-namespace", lambda _: True)
    await lab.settled()
    await lab.delete(SECRET, "of-the-namespace")
    await lab.until(SECRET, "of-the-namespace", lambda secret: secret.metadata.uid != first.metadata.uid, timeout=60)


async def test_the_status_of_a_kind_that_is_not_ours_stays_its_controllers(lab: Lab) -> None:
    """A kind without a model belongs to another project: of its status we write the given fields and no others."""
    theirs = kind("tests.konverge.dev/v1", "Widget")

    async def marks(w: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        if w.name == "audited":
            ctx.status.set_condition("Ready", True, "Seen")
        return kv.Done()

    await install_crds(lab.client, [crd(Widget)])
    for name in ("plain", "audited"):
        await lab.create(widget(name))
        await lab.patch(Widget, name, {"status": {"parts": 5, "observedGeneration": 1}}, subresource="status")
    await lab.start(lambda manager: manager.add(kv.Controller.of(theirs).reconciled_by(By(marks))))
    audited = await lab.until(theirs, "audited", lambda one: one.find_condition("Ready") is not None)
    await lab.settled()
    assert _fields(audited, "lab") == ["f:conditions"]
    assert _fields(await lab.get(theirs, "plain"), "lab") == []
    await lab.patch(Widget, "audited", {"status": {"parts": 6, "observedGeneration": 7}}, subresource="status")
    await lab.settled()
    after = await lab.get(theirs, "audited")
    assert (after.get("status", "parts"), after.get("status", "observedGeneration")) == (6, 7)
    runner = lab.manager.runner("widget")
    assert [bool(record.writes) for record in runner.history.of(kv.Key("", theirs, lab.namespace, "audited"))] == [
        True,
        False,
    ]


def _fields(object_: kv.Object, manager: str) -> list[str]:
    entries = object_.get("metadata", "managedFields", default=[])
    return [name for one in entries if one["manager"] == manager for name in one["fieldsV1"].get("f:status", {})]


async def test_a_controller_of_generations_alone_reconciles_and_finalizes(lab: Lab) -> None:
    calls: list[str] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        calls.append("reconcile")
        return kv.Done()

    async def finalize(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        calls.append("finalize")
        return kv.Done()

    spec = kv.Controller.of(Widget).finalizer(FINALIZER).when(generation_changed)
    await lab.start(lambda manager: manager.add(spec.reconciled_by(By(reconcile, finalize))))
    await lab.create(widget())
    async with asyncio.timeout(60):
        while not calls:
            await asyncio.sleep(0.02)
    await lab.delete(Widget, "one")
    await lab.until_gone(Widget, "one", timeout=60)
    assert calls == ["reconcile", "finalize"]


async def test_a_failing_pass_whose_words_change_each_time_backs_off(lab: Lab) -> None:
    lab.expects(RuntimeError, "attempt")
    """The event of its status write often comes before the answer; taken for a change, it would run the key again at once."""
    passes = 0

    async def fails(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        nonlocal passes
        passes += 1
        ctx.status.set_condition("Ready", False, "Failed", f"attempt {passes}")
        raise RuntimeError(f"attempt {passes}")

    spec = kv.Controller.of(Widget).with_(base_delay=0.5).reconciled_by(By(fails))
    await lab.start(lambda manager: manager.add(spec))
    await lab.create(widget())
    await asyncio.sleep(4)
    assert 2 <= passes <= 4
