"""A status of a version that the cache has left behind is not sent: the server would refuse it."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge_testing import Lab

pytestmark = pytest.mark.lab_on("memory")


async def slow(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await asyncio.sleep(0.5)
    ctx.status.set_condition("Ready", True, "Seen", f"parts {w.spec.parts}")
    return kv.Done()


async def test_a_storm_of_changes_causes_no_refused_status_and_ends_current(lab: Lab) -> None:
    statuses = Counter[int]()

    def count(_: Any, about: Any, answer: Any) -> None:
        if about.subresource == "status":
            statuses[answer.status] += 1

    lab.server.on_call.append(count)
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(slow))))
    await lab.create(widget("one"))
    for parts in range(40):
        await lab.patch(Widget, "one", {"spec": {"parts": parts}})
        await asyncio.sleep(0.2)
    await lab.settled()
    stored = await lab.get(Widget, "one")
    ready = stored.status.find_condition("Ready")
    assert ready is not None
    assert (ready.message, stored.status.observed_generation) == ("parts 39", stored.metadata.generation)
    assert statuses[200] > 0
    assert set(statuses) == {200}
