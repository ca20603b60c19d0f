"""Managers on a real API server: start and stop, missing kinds, several managers, controllers added and removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_leadership import ScriptedLeadership
from widgets import CONFIG_MAP, SECRET, By, Widget, part, widget

import konverge as kv
from konverge.crds import crd
from konverge.errors import NotServed, UsageError
from konverge.kinds import kind
from konverge.runtime import ManagerSettings
from konverge_testing import ControlPlane, Lab, install_crds
from konverge_testing.lab import CRD

pytestmark = pytest.mark.control_plane


async def make_part(w: Any, ctx: kv.Context[Any]) -> kv.Outcome:
    await ctx.own(part(0))
    return kv.Done()


def widgets(name: str = "widget") -> kv.Controller[Widget]:
    return kv.Controller.of(Widget).named(name).owns(CONFIG_MAP).reconciled_by(By(make_part))


class GadgetSpec(kv.Model):
    size: int = 1


@kv.resource("tests.konverge.dev/v1", conditions=("Ready",))
class Gadget(kv.CustomResource[GadgetSpec, kv.Status]):
    """A kind whose CRD is installed late."""


async def uninstall_gadgets(lab: Lab) -> None:
    """Remove the CRD and wait until the server no longer serves it: other tests may have left the CRD."""
    await lab.client.delete(CRD, "gadgets.tests.konverge.dev")
    async with asyncio.timeout(90):
        while True:
            lab.client.forget_discovery()
            try:
                await lab.client.resource(Gadget)
            except NotServed:
                return
            await asyncio.sleep(0.05)


async def mark_ready(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Seen")
    return kv.Done()


async def test_a_missing_crd_keeps_one_controller_waiting_and_it_starts_by_itself(lab: Lab) -> None:
    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Gadget).reconciled_by(By(mark_ready)))
        manager.add(widgets())

    await install_crds(lab.client, [crd(Widget)])
    await uninstall_gadgets(lab)
    manager = await lab.start(build, wait=False, crds=False)
    await lab.create(widget())
    await lab.until(CONFIG_MAP, "part-0", lambda _: True)
    report = manager.report().of("gadget")
    assert not report.ready
    assert "konverge crds --apply" in report.why
    assert manager.report().of("widget").ready
    await install_crds(lab.client, [crd(Gadget)])
    await lab.create(Gadget.new("late"))
    await lab.until(Gadget, "late", kv.is_true("Ready"), timeout=30)
    assert manager.report().ready


async def test_a_kind_that_goes_and_comes_back_is_reconciled_again(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(kv.Controller.of(Gadget).reconciled_by(By(mark_ready))))
    await lab.create(Gadget.new("first"))
    await lab.until(Gadget, "first", kv.is_true("Ready"))
    await uninstall_gadgets(lab)
    async with asyncio.timeout(90):
        while lab.manager.report().ready:
            await asyncio.sleep(0.05)
    await install_crds(lab.client, [crd(Gadget)])
    await lab.create(Gadget.new("second"))
    await lab.until(Gadget, "second", kv.is_true("Ready"), timeout=30)


async def test_a_missing_right_keeps_one_controller_waiting_and_says_the_rule(
    lab: Lab, control_plane: ControlPlane
) -> None:
    await install_crds(lab.client, [crd(Widget), crd(Gadget)])
    path = await control_plane.service_account_kubeconfig(lab.namespace, "operator")
    role = kind("rbac.authorization.k8s.io/v1", "Role")
    binding = kind("rbac.authorization.k8s.io/v1", "RoleBinding")
    full = [rule.to_dict() for rule in _rules(widgets())]
    await lab.client.create(role.new("widgets", lab.namespace, rules=full))
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": lab.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "widgets"}
    await lab.client.create(binding.new("widgets", lab.namespace, subjects=[subject], roleRef=reference))

    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Gadget).reconciled_by(By(mark_ready)))
        manager.add(widgets())

    config = await kv.ClientConfig.load(kubeconfig=path)
    manager = await lab.start(build, config=config, wait=False)
    await lab.create(widget())
    await lab.until(CONFIG_MAP, "part-0", lambda _: True)
    async with asyncio.timeout(60):
        while not any(problem.rule for problem in manager.report().of("gadget").problems):
            await asyncio.sleep(0.02)
    why = manager.report().of("gadget").why
    for word in ("gadgets", "tests.konverge.dev", "watch", "verbs:"):
        assert word in why, why
    assert manager.report().of("widget").ready
    both = [*full, *(rule.to_dict() for rule in _rules(kv.Controller.of(Gadget).reconciled_by(By(mark_ready))))]
    await lab.client.patch(role, "widgets", lab.namespace, patch={"rules": both}, style="merge")
    await lab.create(Gadget.new("allowed"))
    await lab.until(Gadget, "allowed", kv.is_true("Ready"), timeout=40)


def _rules(controller: kv.Controller[Any]) -> tuple[kv.Rule, ...]:
    manager = kv.Manager("rules")
    manager.add(controller)
    return manager.rules()


async def test_an_optional_kind_may_be_absent_and_its_coming_wakes_everything(lab: Lab) -> None:
    seen: list[bool] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.append(ctx.serves(Gadget))
        return kv.Done()

    await install_crds(lab.client, [crd(Widget)])
    await uninstall_gadgets(lab)
    sentence = kv.Controller.of(Widget).owns(Gadget, optional=True).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(sentence))
    await lab.create(widget())
    async with asyncio.timeout(90):
        while not seen:
            await asyncio.sleep(0.02)
        assert seen[-1] is False
        await install_crds(lab.client, [crd(Gadget)])
        while seen[-1] is False:
            await asyncio.sleep(0.02)


async def test_two_managers_run_side_by_side_in_one_process(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(widgets()), name="first")
    await lab.start(lambda manager: manager.add(kv.Controller.of(Gadget).reconciled_by(By(mark_ready))), name="second")
    await lab.create(widget())
    await lab.create(Gadget.new("g"))
    await lab.until(CONFIG_MAP, "part-0", lambda _: True)
    await lab.until(Gadget, "g", kv.is_true("Ready"))


async def test_two_managers_may_share_one_set_of_metrics(lab: Lab) -> None:
    shared = kv.Metrics()
    settings = ManagerSettings(namespace=lab.namespace)
    first, second = (kv.Manager(name, lab.config, metrics=shared, settings=settings) for name in ("first", "second"))
    first.add(kv.Controller.of(CONFIG_MAP).named("one").reconciled_by(By(make_nothing)))
    second.add(kv.Controller.of(CONFIG_MAP).named("two").reconciled_by(By(make_nothing)))
    async with first, second:
        assert (await first.ready(timeout=60)).ready
        assert (await second.ready(timeout=60)).ready
    for name in ("one", "two"):
        assert (
            shared.registry.get_sample_value("controller_runtime_max_concurrent_reconciles", {"controller": name}) == 1
        )


async def test_starting_and_stopping_may_happen_in_different_tasks(lab: Lab) -> None:
    manager = kv.Manager("lab", lab.config, settings=ManagerSettings(namespace=lab.namespace))
    manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(make_nothing)))
    await asyncio.create_task(manager.start())
    assert (await manager.ready(timeout=60)).ready
    await asyncio.create_task(manager.stop())
    await manager.wait()
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if name.startswith("konverge")], names
    await manager.stop()


async def make_nothing(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


async def test_a_manager_starts_once(lab: Lab) -> None:
    manager = kv.Manager("lab", lab.config)
    async with manager:
        with pytest.raises(UsageError, match="started already"):
            await manager.start()
    with pytest.raises(UsageError, match="started already"):
        await manager.start()


async def test_a_controller_may_be_added_and_removed_while_running(lab: Lab) -> None:
    manager = await lab.start(lambda manager: manager.add(widgets()))
    await install_crds(lab.client, [crd(Gadget)])
    manager.add(kv.Controller.of(Gadget).reconciled_by(By(mark_ready)))
    await lab.create(Gadget.new("one"))
    await lab.until(Gadget, "one", kv.is_true("Ready"))
    await manager.remove("gadget")
    await lab.create(Gadget.new("two"))
    await lab.create(widget())
    await lab.until(CONFIG_MAP, "part-0", lambda _: True)
    assert (await lab.get(Gadget, "two")).find_condition("Ready") is None
    with pytest.raises(LookupError):
        await manager.remove("gadget")


async def test_a_fatal_error_cancels_the_block_and_is_raised(lab: Lab) -> None:
    class Broken(Exception):
        pass

    class Leadership(ScriptedLeadership):
        async def acquire(self) -> None:
            raise Broken("the lease is lost for good")

    manager = kv.Manager("lab", lab.config, settings=ManagerSettings(namespace=lab.namespace), leadership=Leadership())
    manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(make_nothing)))
    with pytest.raises(Broken):
        async with manager:
            await asyncio.sleep(30)
    with pytest.raises(Broken):
        await manager.wait()


async def test_missing_configuration_is_a_start_error_that_lists_the_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    manager = kv.Manager("lab")
    with pytest.raises(kv.KonvergeError, match="kubeconfig"):
        await manager.start()


async def test_stopping_lets_a_running_reconcile_end(lab: Lab) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def slow(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        if object_.name == "subject":
            began.set()
            await asyncio.sleep(0.3)
            await ctx.own(SECRET.new("made-while-stopping"))
            ended.set()
        return kv.Done()

    await lab.start(lambda manager: manager.add(kv.Controller.of(CONFIG_MAP).owns(SECRET).reconciled_by(By(slow))))
    await lab.create(CONFIG_MAP.new("subject"))
    await began.wait()
    await lab.stop()
    assert ended.is_set()
    await lab.get(SECRET, "made-while-stopping")
