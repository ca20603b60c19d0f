"""Reconciles with a cache that is behind the controller's own writes; the tests hold the watches back to make sure of it."""

import asyncio
from typing import Any

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge.client import ClientConfig
from konverge.keys import Key
from konverge.runtime import ManagerSettings
from konverge_testing import FaultProxy, Lab
from konverge_testing.proxy import ProxiedRequest

pytestmark = pytest.mark.control_plane


def watching(call: ProxiedRequest) -> bool:
    return call.watches


async def until(test: Any, *, timeout: float = 90.0) -> None:
    async with asyncio.timeout(timeout):
        while not test():
            await asyncio.sleep(0.01)


async def test_an_object_that_ended_with_its_last_finalizer_is_not_finalized_again(
    fragile_lab: Lab, proxy: FaultProxy, behind_proxy: ClientConfig
) -> None:
    """The response to the removal of the last finalizer has the previous version, so the version does not show the deletion."""
    lab, calls, may_end = fragile_lab, list[str](), asyncio.Event()

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.set_condition("Ready", True, "Made")
        return kv.Done()

    async def finalize(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        calls.append(w.name)
        await may_end.wait()
        return kv.Done()

    def build(manager: kv.Manager) -> None:
        sentence = kv.Controller.of(Widget).finalizer("tests.konverge.dev/widget")
        manager.add(sentence.reconciled_by(By(reconcile, finalize)))

    settings = ManagerSettings(namespace=lab.namespace, strict=True)
    await lab.start(build, config=behind_proxy, settings=settings)
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.delete(Widget, "one")
    await until(lambda: calls)
    proxy.refuse(watching)
    assert proxy.cut(watching) == 1
    may_end.set()
    await lab.until_gone(Widget, "one")
    runner = lab.manager.runner("widget")
    key = Key("", runner.spec.kind, lab.namespace, "one")

    def put_off() -> float:
        value = lab.metrics.registry.get_sample_value("stale_sync_skips_total", {"controller": "widget"})
        return value or 0.0

    before = put_off()
    runner.enqueue(key)
    await until(lambda: put_off() > before or len(calls) > 1)
    proxy.disarm()
    await until(lambda: runner.caches(Widget).find(lab.namespace, "one") is None)
    await lab.settled()
    assert calls == ["one"]
