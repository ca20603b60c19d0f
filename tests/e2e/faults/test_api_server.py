"""The API server stops and restarts, or has compacted a watch's version: no change is lost, no object is created twice."""

import asyncio
from typing import Any

import pytest
from audit import audited
from widgets import CONFIG_MAP, By, Widget, WidgetStatus, widget

import konverge as kv
from konverge.client import ClientConfig, WatchQuery
from konverge.errors import ApiError, Expired
from konverge.keys import Key
from konverge.runtime import ManagerSettings
from konverge_testing import ControlPlane, FaultProxy, Lab
from konverge_testing.proxy import ProxiedRequest

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(180)]

OPERATOR = "part-maker"


async def make_parts(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    children = tuple(CONFIG_MAP.new(f"{w.name}-{number}", data={"mode": w.spec.mode}) for number in range(w.spec.parts))
    status = WidgetStatus(parts=len(children), note=w.spec.mode)
    return await ctx.execute(
        kv.Plan(children=children, set_conditions=(kv.ConditionUpdate("Ready", True, "Made"),), draft=status)
    )


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).with_(concurrency=8).reconciled_by(By(make_parts)))


def anything(_: ProxiedRequest) -> bool:
    return True


def watching(call: ProxiedRequest) -> bool:
    return call.watches


async def children_of(lab: Lab) -> dict[str, str]:
    """Return mode by name of the ConfigMaps that widgets own."""
    found = (await lab.client.list(CONFIG_MAP, lab.namespace)).items
    return {one.name: one.get("data", "mode") for one in found if one.metadata.controller is not None}


async def eventually(test: Any, *, timeout: float = 60.0) -> None:
    async with asyncio.timeout(timeout):
        while not await test():
            await asyncio.sleep(0.05)


def restarts(lab: Lab, cause: str, of: str) -> float:
    """Return how often lists and watches of a kind were restarted for this cause."""
    labels = {"group": "", "version": "v1", "kind": "ConfigMap"}
    if of == "Widget":
        labels = {"group": "tests.konverge.dev", "version": "v1", "kind": "Widget"}
    return lab.metrics.registry.get_sample_value("konverge_watch_restarts_total", {**labels, "cause": cause}) or 0.0


def settings(lab: Lab) -> ManagerSettings:
    return ManagerSettings(namespace=lab.namespace, strict=True)


async def test_reconciles_interrupted_by_an_api_server_restart_run_again(
    fragile: ControlPlane, fragile_lab: Lab
) -> None:
    lab, names = fragile_lab, [f"w{number}" for number in range(60)]
    await lab.start(build, name=OPERATOR)

    async def order() -> None:
        for name in names:
            await lab.create(widget(name, parts=2))

    ordering = asyncio.create_task(order())
    await lab.until(Widget, "w10", kv.is_true("Ready"))
    await fragile.restart_apiserver()
    await asyncio.gather(ordering, return_exceptions=True)
    for name in names:
        if await lab.find(Widget, name) is None:
            await lab.create(widget(name, parts=2))

    async def all_ready() -> bool:
        found = (await lab.client.list(Widget, lab.namespace)).items
        return len(found) == len(names) and all(kv.is_true("Ready")(one) for one in found)

    await eventually(all_ready)
    assert await children_of(lab) == {f"{name}-{number}": "plain" for name in names for number in range(2)}
    written = audited(fragile, agent=OPERATOR, namespace=lab.namespace)
    created = [one.name for one in written if one.created and one.call.resource == "configmaps"]
    assert len(created) > len(names), "the log does not reach over the restart"
    assert len(created) == len(set(created)), "something was made twice"
    assert not [one for one in written if one.call.method == "DELETE"]
    assert lab.manager.report().ready


async def test_changes_during_an_api_server_outage_are_seen_after_its_restart(
    fragile: ControlPlane, fragile_lab: Lab, proxy: FaultProxy, behind_proxy: ClientConfig
) -> None:
    lab = fragile_lab
    await lab.start(build, name=OPERATOR, config=behind_proxy, settings=settings(lab))
    for name in ("changed", "robbed", "deleted"):
        await lab.create(widget(name, parts=1))
        await lab.until(Widget, name, kv.is_true("Ready"))
    await lab.settled()
    proxy.refuse(anything)
    assert proxy.cut(anything) >= 2
    await lab.patch(Widget, "changed", {"spec": {"mode": "fancy"}})
    await lab.delete(CONFIG_MAP, "robbed-0")
    await lab.delete(Widget, "deleted")
    await lab.create(widget("created", parts=1))
    await fragile.restart_apiserver()
    before = (await lab.get(CONFIG_MAP, "changed-0")).metadata.uid
    proxy.disarm()
    await lab.until(Widget, "created", kv.is_true("Ready"), timeout=60)
    await lab.until(Widget, "changed", lambda one: one.status.note == "fancy", timeout=60)
    await lab.until(CONFIG_MAP, "robbed-0", lambda _: True, timeout=60)
    await lab.settled()
    assert (await lab.get(CONFIG_MAP, "changed-0")).metadata.uid == before
    assert cached(lab) == {"changed", "robbed", "created"}
    assert lab.manager.report().ready


async def test_expired_version_leads_to_a_relist_that_shows_missed_deletes(
    fragile: ControlPlane, fragile_lab: Lab, proxy: FaultProxy, behind_proxy: ClientConfig
) -> None:
    """A restarted API server has no history in its watch caches: a watch from an older version gets 410."""
    lab = fragile_lab
    await lab.start(build, name=OPERATOR, config=behind_proxy, settings=settings(lab))
    for name in ("robbed", "deleted"):
        await lab.create(widget(name, parts=1))
        await lab.until(Widget, name, kv.is_true("Ready"))
    await lab.settled()
    before = await lab.get(CONFIG_MAP, "robbed-0")
    proxy.refuse(watching)
    assert proxy.cut(watching) == 2
    await lab.delete(CONFIG_MAP, "robbed-0")
    await lab.delete(Widget, "deleted")
    await fragile.restart_apiserver()
    await forgotten(lab, before.metadata.resource_version)
    proxy.disarm()
    again = await lab.until(CONFIG_MAP, "robbed-0", lambda _: True, timeout=60)
    assert again.metadata.uid != before.metadata.uid
    runner = lab.manager.runner("widget")
    key = Key("", runner.spec.kind, lab.namespace, "deleted")

    async def gone() -> bool:
        return "deleted" not in cached(lab) and not runner.history.of(key)

    await eventually(gone)
    assert restarts(lab, "Expired", "ConfigMap") >= 1
    assert restarts(lab, "Expired", "Widget") >= 1
    reasons = [reason for record in runner.history.recent() for reason in record.reasons]
    assert f"owned ConfigMap {lab.namespace}/robbed-0 deleted" in reasons


def cached(lab: Lab) -> set[str]:
    """Return the names of the widgets that the manager knows of."""
    return {one.name for one in lab.manager.runner("widget").caches(Widget).list()}


async def forgotten(lab: Lab, version: str) -> None:
    """Wait until the server rejects a watch from this version of ConfigMaps with 410."""
    info = await lab.client.resource(CONFIG_MAP)
    query = WatchQuery(namespace=lab.namespace, resource_version=version, timeout_seconds=2, idle_seconds=5.0)

    async def expired() -> bool:
        try:
            async with lab.client.watch(info, query) as stream:
                async for events in stream:
                    if events[0].type == "ERROR":
                        return True
        except Expired:
            return True
        except ApiError:
            return False
        return False

    await eventually(expired)
