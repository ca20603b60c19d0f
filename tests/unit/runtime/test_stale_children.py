"""Children with a foreign change or a write of unknown outcome, while the cache is stale: no reconcile is lost or runs too early."""

from collections.abc import Callable
from typing import Any

import pytest
from controller_harness import ControllerHarness
from widgets import CONFIG_MAP, By, Widget, part, widget

import konverge as kv
from konverge.errors import Unreachable

KEY = kv.Key("", Widget.kind_of_resource(), "web", "one")


def placed(**spec: Any) -> Widget:
    return Widget.decode({**widget("one", **spec).to_dict(), "metadata": {"name": "one", "namespace": "web"}})


def showing_the_owner(harness: ControllerHarness) -> Callable[[], None]:
    """Return a hook that lets the cache show the written status; the tests show children."""

    def show() -> None:
        if harness.server.calls[-1] == "apply Widget one/status":
            harness.show(Widget, "one", "web")

    return show


class Owner:
    """Applies one child in its first `applies` reconciles, and keeps the reasons of each."""

    def __init__(self, applies: int) -> None:
        self.reasons: list[str] = []
        self._applies = applies

    async def __call__(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        self.reasons.append("; ".join(ctx.reasons))
        if len(self.reasons) <= self._applies:
            await ctx.own(part(0, "web", generation=str(w.generation)))
        return kv.Done()


async def test_foreign_change_merged_with_our_own_apply_enqueues_the_owner() -> None:
    owner = Owner(applies=2)
    spec = kv.Controller.of(Widget).owns(CONFIG_MAP, own_writes=False).reconciled_by(By(owner))
    async with ControllerHarness(spec) as harness:
        harness.server.after = showing_the_owner(harness)
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.show(CONFIG_MAP, "part-0", "web")
        await harness.settle()
        assert len(owner.reasons) == 1, "the event of the own apply enqueues nothing"

        def meanwhile() -> None:
            if harness.server.calls[-1] == "apply ConfigMap part-0":
                stored = harness.server.stored(CONFIG_MAP, "web", "part-0")
                harness.server.store(CONFIG_MAP, {**stored, "data": {**stored["data"], "theirs": "x"}})

        harness.server.before = meanwhile
        harness.put(placed(parts=1), generation=2)
        await harness.settle()
        assert len(owner.reasons) == 2
        harness.show(CONFIG_MAP, "part-0", "web")  # one event for both writes
        await harness.settle()
        assert owner.reasons[2:] == ["owned ConfigMap web/part-0 changed"]


async def test_late_event_of_an_own_child_after_barrier_timeout_enqueues_owner() -> None:
    owner = Owner(applies=1)
    spec = kv.Controller.of(Widget).owns(CONFIG_MAP, own_writes=False).with_(barrier=1.0).reconciled_by(By(owner))
    async with ControllerHarness(spec) as harness:
        harness.server.after = showing_the_owner(harness)
        harness.put(part(9, "web"))  # a cache at some version
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.runner.enqueue(KEY)
        await harness.settle(0.9)
        assert len(owner.reasons) == 1, "the barrier waits for the child"
        await harness.settle(0.5)
        assert len(owner.reasons) == 2, "it ran on a cache without the child"
        harness.show(CONFIG_MAP, "part-0", "web")
        await harness.settle()
        assert owner.reasons[2:] == ["owned ConfigMap web/part-0 created"]


async def test_status_is_not_reverted_to_an_outdated_copy_after_barrier_timeout() -> None:
    """The failed reconcile writes the observedGeneration of its copy; after an own write it would have the version of that write."""
    runs = []

    async def fails_at_last(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        runs.append(w.generation)
        if len(runs) == 3:
            await ctx.patch(Widget, w.name, w.namespace, patch={"metadata": {"labels": {"run": "3"}}})
            raise RuntimeError("after an own write")
        return kv.Done()

    spec = kv.Controller.of(Widget).with_(barrier=1.0).reconciled_by(By(fails_at_last))
    async with ControllerHarness(spec) as harness:
        harness.server.after = showing_the_owner(harness)
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.server.after = lambda: None
        second = {**placed(parts=1).to_dict(), "status": {"observedGeneration": 1}}
        harness.put(Widget.decode(second), generation=2)
        await harness.settle()
        harness.runner.enqueue(KEY)
        await harness.settle(1.5)
        assert runs[:3] == [1, 2, 2]
        assert "patch Widget one" in harness.server.calls
        assert harness.server.stored(KEY.kind, "web", "one")["status"]["observedGeneration"] == 2


@pytest.mark.parametrize("fate", ["it is gone", "the server does not answer", "it was changed"])
async def test_write_of_unknown_outcome_is_awaited_until_cache_equals_server(fate: str) -> None:
    owner = Owner(applies=0)
    spec = kv.Controller.of(Widget).watches(CONFIG_MAP, to=lambda _, __: ()).reconciled_by(By(owner))
    async with ControllerHarness(spec) as harness:
        harness.server.after = showing_the_owner(harness)
        harness.put(part(0, "web"))
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.server.ledger.begin(("widget", KEY), CONFIG_MAP, "web", "part-0").unknown()
        if fate == "it is gone":
            del harness.server.objects[CONFIG_MAP, "web", "part-0"]
        elif fate == "it was changed":
            harness.server.store(CONFIG_MAP, {**harness.server.stored(CONFIG_MAP, "web", "part-0"), "data": {"n": "2"}})
        else:

            def refuse() -> None:
                raise Unreachable("refused")

            harness.server.before = refuse
        harness.runner.enqueue(KEY)
        await harness.settle(2)
        assert len(owner.reasons) == 1
        harness.server.before = None
        harness.show(CONFIG_MAP, "part-0", "web")
        await harness.settle(1)
        assert len(owner.reasons) == 2


async def test_apply_does_not_reach_the_successor_of_a_cached_child() -> None:
    owner = Owner(applies=9)
    spec = kv.Controller.of(Widget).owns(CONFIG_MAP).with_(base_delay=100.0).reconciled_by(By(owner))
    async with ControllerHarness(spec) as harness:
        harness.server.after = showing_the_owner(harness)
        harness.put(placed(), generation=1)
        await harness.settle()
        harness.show(CONFIG_MAP, "part-0", "web")
        await harness.settle()

        def meanwhile() -> None:
            if harness.server.calls[-1] == "apply ConfigMap part-0":
                successor = {
                    "metadata": {"name": "part-0", "namespace": "web", "uid": "another"},
                    "data": {"theirs": "x"},
                }
                harness.server.store(CONFIG_MAP, successor)

        harness.server.before = meanwhile
        harness.put(placed(parts=1), generation=2)
        await harness.settle()
        assert harness.server.calls.count("apply ConfigMap part-0") == 2
        assert harness.server.stored(CONFIG_MAP, "web", "part-0")["data"] == {"theirs": "x"}
