"""Edits of objects by users and other programs: the controller reports or repairs them, and never loops."""

import asyncio
from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.errors import NotFound
from konverge.kinds import kind
from konverge_testing import ControlPlane, Lab

pytestmark = pytest.mark.control_plane

NAMESPACE = kind("v1", "Namespace", namespaced=False)
FINALIZER = "tests.konverge.dev/widget"


async def make_part(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(CONFIG_MAP.new(f"of-{w.name}", data={"mode": w.spec.mode}))
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).with_(max_delay=0.5).reconciled_by(By(make_part)))


async def eventually(test: Any, *, timeout: float = 90.0) -> None:
    async with asyncio.timeout(timeout):
        while not test():
            await asyncio.sleep(0.02)


def last_pass(lab: Lab) -> Any:
    return lab.manager.runner("widget").history.recent()[-1]


async def test_field_sets_that_another_writer_wiped_cost_one_apply_and_no_loop(lab: Lab) -> None:
    """Users run `kubectl patch --patch '{"metadata":{"managedFields":[{}]}}'` against unexpected conflicts."""
    await lab.start(build)
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.settled()
    for what, name in ((CONFIG_MAP, "of-one"), (Widget, "one")):
        await lab.patch(what, name, {"metadata": {"managedFields": [{}]}})
    lab.manager.runner("widget").resync_now()
    await lab.settled()
    managers = {entry["manager"] for entry in (await lab.get(CONFIG_MAP, "of-one")).data["metadata"]["managedFields"]}
    assert "lab" in managers
    versions = [(await lab.get(what, name)).metadata.resource_version for what, name in PAIR]
    for _ in range(3):
        lab.manager.runner("widget").resync_now()
        await lab.settled(quiet=0.1)
    assert [(await lab.get(what, name)).metadata.resource_version for what, name in PAIR] == versions
    assert last_pass(lab).writes == ()


PAIR: tuple[tuple[Any, str], ...] = ((CONFIG_MAP, "of-one"), (Widget, "one"))


async def test_child_without_its_owner_reference_is_reported_and_not_changed(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.patch(CONFIG_MAP, "of-one", {"metadata": {"ownerReferences": None}, "data": {"mode": "theirs"}})
    await lab.patch(Widget, "one", {"spec": {"mode": "fancy"}})
    await eventually(lambda: "hand it over" in last_pass(lab).error)
    await lab.create(widget("neighbour"))
    await lab.until(Widget, "neighbour", kv.is_true("Ready"))
    assert (await lab.get(CONFIG_MAP, "of-one")).get("data", "mode") == "theirs"
    await lab.delete(CONFIG_MAP, "of-one")
    await lab.until(CONFIG_MAP, "of-one", lambda found: found.get("data", "mode") == "fancy")


async def test_finalizer_removed_by_another_writer_ends_the_object_without_an_error(lab: Lab) -> None:
    """Other writers add and remove finalizers in the meantime, so the index of our finalizer changes."""
    calls, may_end = list[str](), asyncio.Event()

    async def finalize(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        calls.append(w.name)
        await may_end.wait()
        return kv.Done()

    def with_finalizer(manager: kv.Manager) -> None:
        sentence = kv.Controller.of(Widget).owns(CONFIG_MAP).finalizer(FINALIZER)
        manager.add(sentence.with_(concurrency=2).reconciled_by(By(make_part, finalize)))

    await lab.start(with_finalizer)
    for name in ("robbed", "crowded"):
        await lab.create(widget(name))
        await lab.until(Widget, name, kv.is_true("Ready"))
    hold = "others.example.com/hold"
    await lab.patch(Widget, "crowded", {"metadata": {"finalizers": [hold, FINALIZER]}})
    for name in ("robbed", "crowded"):
        await lab.delete(Widget, name)
    await eventually(lambda: set(calls) == {"robbed", "crowded"})
    await lab.patch(Widget, "robbed", {"metadata": {"finalizers": None}})
    await lab.patch(Widget, "crowded", {"metadata": {"finalizers": [FINALIZER]}})
    may_end.set()
    await lab.until_gone(Widget, "robbed")
    await lab.until_gone(Widget, "crowded")
    await lab.settled()
    assert lab.manager.report().ready
    assert lab.manager.runner("widget").queue.statistics().ready == 0


async def test_a_namespace_that_ends_takes_its_objects_along(lab: Lab, control_plane: ControlPlane) -> None:
    """Nothing can be created in the namespace any more; reconciles fail until their objects are deleted too, and no RBAC rule is blamed."""

    async def finalize(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return kv.Done()

    def with_finalizer(manager: kv.Manager) -> None:
        sentence = kv.Controller.of(Widget).owns(CONFIG_MAP).finalizer(FINALIZER).with_(max_delay=0.5)
        manager.add(sentence.reconciled_by(By(make_part, finalize)))

    await lab.start(with_finalizer)
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.client.delete(NAMESPACE, lab.namespace)
    async with asyncio.timeout(60):
        while await alive(lab):
            assert not lab.manager.report().of("widget").problems
            await asyncio.sleep(0.05)
    await lab.settled()
    assert lab.manager.report().ready
    assert not lab.manager.runner("widget").caches(Widget).list()


async def alive(lab: Lab) -> bool:
    try:
        await lab.client.get(NAMESPACE, lab.namespace)
    except NotFound:
        return False
    return True
