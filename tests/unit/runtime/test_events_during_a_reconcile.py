"""Changes of an object while it is being reconciled, and a failure of the runtime itself: each leads to one more reconcile."""

from typing import Any

import pytest
from controller_harness import ControllerHarness
from widgets import By, Widget, widget

import konverge as kv
from konverge.runtime import generation_changed

KIND = Widget.kind_of_resource()


def placed(**spec: Any) -> Widget:
    return Widget.decode({**widget("one", **spec).to_dict(), "metadata": {"name": "one", "namespace": "web"}})


async def test_change_during_a_reconcile_is_not_hidden_by_a_filtered_event() -> None:
    seen: list[int] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.append(w.spec.parts)
        if len(seen) == 1:
            harness.put(placed(parts=2), generation=2)
            harness.put(placed(parts=2), generation=2, labels={"touched": "yes"})
        ctx.status.skip_write()
        return kv.Done()

    spec = kv.Controller.of(Widget).when(generation_changed).reconciled_by(By(reconcile))
    async with ControllerHarness(spec) as harness:
        harness.put(placed(parts=1), generation=1)
        await harness.settle()
        assert seen == [1, 2]


async def test_change_before_an_own_patch_is_not_hidden_by_own_status_write() -> None:
    seen: list[int] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.append(w.spec.parts)
        if len(seen) == 1:
            await ctx.patch(Widget, "one", "web", patch={"metadata": {"labels": {"seen": "yes"}}})
        ctx.status.draft.parts = 1
        return kv.Done()

    spec = kv.Controller.of(Widget).reconciled_by(By(reconcile))
    async with ControllerHarness(spec) as harness:

        def meanwhile() -> None:
            if harness.server.calls[-1] == "patch Widget one":
                stored = harness.server.stored(KIND, "web", "one")
                harness.server.store(KIND, {**stored, "spec": {"parts": 2}})

        harness.server.before = meanwhile
        harness.put(placed(parts=1), generation=1)
        await harness.settle()
        assert harness.server.calls == ["patch Widget one", "apply Widget one/status"]
        harness.show(Widget, "one", "web")  # one event for all three writes
        await harness.settle()
        assert seen == [1, 2]


async def test_a_failure_of_the_runtime_itself_is_counted_and_the_key_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.append(w.name)
        return kv.Done()

    async with ControllerHarness(kv.Controller.of(Widget).reconciled_by(By(reconcile))) as harness:
        worker = harness.runner._worker
        run = worker._reconcile

        async def fails_once(*arguments: Any) -> Any:
            monkeypatch.undo()
            raise AssertionError("a defect")

        monkeypatch.setattr(worker, "_reconcile", fails_once)
        harness.put(placed(), generation=1)
        await harness.settle(2)
        assert worker._reconcile == run
        assert seen == ["one"]
        assert not harness.runner.queue.statistics().working
