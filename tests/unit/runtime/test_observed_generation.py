"""A status that differs from the stored status only in observedGeneration is written: it shows which spec was handled."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from controller_harness import ControllerHarness
from widgets import By, Widget, widget

import konverge as kv


async def sets_nothing(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    return kv.Done()


async def sets_a_field(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.draft.note = "the same"
    return kv.Done()


async def sets_a_condition_once(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    if ctx.status.find("Ready") is None:
        ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


async def sets_a_condition(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


@pytest.mark.parametrize("reconcile", [sets_nothing, sets_a_field, sets_a_condition_once, sets_a_condition])
async def test_equal_status_is_written_again_only_once_for_each_new_generation(
    reconcile: Callable[[Any, Any], Awaitable[kv.Outcome]],
) -> None:
    spec = kv.Controller.of(Widget).reconciled_by(By(reconcile))
    async with ControllerHarness(spec) as harness:

        async def reconciled(generation: int) -> tuple[Any, int]:
            """Return the stored observedGeneration, and the number of status writes so far."""
            stored = harness.server.objects.get((Widget.kind_of_resource(), "", "one"), {})
            harness.put(
                Widget.decode({**widget("one", parts=generation).to_dict(), "status": stored.get("status", {})}),
                generation=generation,
            )
            await harness.settle()
            harness.show(Widget, "one")
            await harness.settle()
            calls = harness.server.calls.count("apply Widget one/status")
            return harness.status(Widget, "one").get("observedGeneration"), calls

        assert await reconciled(1) == (1, 1)
        assert await reconciled(2) == (2, 2)
        assert await reconciled(2) == (2, 2)
        assert await reconciled(7) == (7, 3)
