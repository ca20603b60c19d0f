"""A watch whose connection is dead and stays open: noticed by the read-idle limit, counted, replaced.

The limit is 70 s by default (the server sends bookmarks about once a minute), so that a dead watch is repaired within 75 s; here it is two
seconds. The connections of the calls die too; their limit is the timeout of a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.client import ClientConfig, ClientSettings
from konverge.informers import InformerSettings
from konverge.runtime import ManagerSettings
from konverge_testing import ControlPlane, Lab
from konverge_testing.wire import SilentWire

pytestmark = pytest.mark.control_plane

IDLE = 2.0
PATIENCE = 3.0
PROMISE = 75.0


async def make_part(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(CONFIG_MAP.new(f"of-{w.name}", data={"parts": str(w.spec.parts)}))
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(make_part)))


@dataclass(frozen=True)
class Wired:
    """A manager in a lab, and the proxy for all of its connections."""

    lab: Lab
    wire: SilentWire

    def dead_watches(self) -> float:
        """Return how many watches were replaced because no byte arrived."""
        samples = [sample for family in self.lab.metrics.registry.collect() for sample in family.samples]
        return sum(
            sample.value
            for sample in samples
            if sample.name == "konverge_watch_restarts_total" and sample.labels["cause"] == "Idle"
        )


@pytest_asyncio.fixture
async def wired(fragile: ControlPlane, fragile_token: str, fragile_lab: Lab) -> AsyncIterator[Wired]:
    async with SilentWire(fragile.host, fragile.port) as wire:
        server = f"https://{fragile.host}:{wire.port}"
        config = ClientConfig.direct(server, token=fragile_token, ca=fragile.ca_file.read_bytes())
        settings = ManagerSettings(
            namespace=fragile_lab.namespace,
            strict=True,
            client=ClientSettings(request_timeout=PATIENCE),
            informers=InformerSettings(watch_idle=IDLE),
        )
        await fragile_lab.start(build, config=config, settings=settings)
        await fragile_lab.create(widget())
        await fragile_lab.until(Widget, "one", kv.is_true("Ready"))
        yield Wired(fragile_lab, wire)
        await fragile_lab.stop()


def test_the_default_limit_keeps_the_promise() -> None:
    """The limit, and one round trip to open the next watch."""
    assert InformerSettings().watch_idle <= PROMISE - 5


async def test_a_dead_watch_is_replaced_and_what_it_hid_is_reconciled(wired: Wired) -> None:
    lab, before = wired.lab, wired.dead_watches()
    accepted = wired.wire.accepted
    assert wired.wire.go_silent() >= 2  # a watch of widgets and one of ConfigMaps, at least
    await lab.create(widget("hidden"))
    await lab.delete(CONFIG_MAP, "of-one")
    began = asyncio.get_running_loop().time()
    await lab.until(Widget, "hidden", kv.is_true("Ready"), timeout=PROMISE)
    await lab.until(CONFIG_MAP, "of-one", lambda _: True, timeout=PROMISE)
    assert asyncio.get_running_loop().time() - began < PROMISE
    assert wired.wire.swallowed > 0, "the server sent nothing into the dead connections, so the test shows nothing"
    assert wired.wire.accepted > accepted
    assert wired.dead_watches() >= before + 2
    assert lab.manager.report().ready


async def test_a_write_whose_answer_never_comes_is_made_up_for(wired: Wired) -> None:
    """The outcome of such a write is unknown; it is sent again, since it is idempotent."""
    lab = wired.lab
    wired.wire.go_silent()
    await lab.patch(Widget, "one", {"spec": {"parts": 7}})
    await lab.until(CONFIG_MAP, "of-one", lambda found: found.get("data", "parts") == "7", timeout=PROMISE)
    await lab.settled(timeout=60)
