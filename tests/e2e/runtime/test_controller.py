"""One controller on a real API server: reconciles, children, finalizers, invalid objects, the barrier."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any, Literal

import pytest
from widgets import CONFIG_MAP, SECRET, By, Widget, WidgetSpec, WidgetStatus, part, widget

import konverge as kv
from konverge.crds import PreserveUnknown
from konverge.errors import ReconcileTimeout
from konverge.keys import Key
from konverge.runtime import ManagerSettings
from konverge_testing import Lab

pytestmark = pytest.mark.control_plane


def controller(reconcile: Any, finalize: Any = None) -> kv.Controller[Widget]:
    sentence = kv.Controller.of(Widget).owns(CONFIG_MAP)
    if finalize is not None:
        sentence = sentence.finalizer("tests.konverge.dev/widget")
    return sentence.reconciled_by(By(reconcile, finalize))


async def parts_of(lab: Lab) -> list[str]:
    found = (await lab.client.list(CONFIG_MAP, lab.namespace)).items
    return sorted(one.name for one in found if one.name.startswith("part-"))


async def eventually(test: Any, *, timeout: float = 90.0) -> None:
    async with asyncio.timeout(timeout):
        while not (await test() if asyncio.iscoroutinefunction(test) else test()):
            await asyncio.sleep(0.02)


async def make_parts(widget: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    children = tuple(part(number) for number in range(widget.spec.parts))
    status = WidgetStatus(parts=len(children))
    return await ctx.execute(
        kv.Plan(children=children, set_conditions=(kv.ConditionUpdate("Ready", True, "Made"),), draft=status)
    )


async def test_plan_is_the_complete_set_of_children_and_others_are_deleted(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(controller(make_parts)))
    await lab.create(widget(parts=3))
    await lab.until(Widget, "one", lambda w: w.status.parts == 3)
    assert await parts_of(lab) == ["part-0", "part-1", "part-2"]
    await lab.client.create(CONFIG_MAP.new("part-of-nobody", lab.namespace))
    await lab.patch(Widget, "one", {"spec": {"parts": 1}})
    await lab.until(Widget, "one", lambda w: w.status.parts == 1)
    await eventually(lambda: _only(lab, ["part-0", "part-of-nobody"]))
    await lab.patch(Widget, "one", {"spec": {"parts": 0}})
    await eventually(lambda: _only(lab, ["part-of-nobody"]))


def _only(lab: Lab, names: list[str]) -> bool:
    keys = lab.manager.runner("widget").caches(CONFIG_MAP).keys(lab.namespace)
    return sorted(key.name for key in keys if key.name.startswith("part-")) == names


async def test_a_plan_without_children_leaves_them_untouched(lab: Lab) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if w.spec.mode == "blocked":
            return await ctx.execute(kv.Plan(set_conditions=(kv.ConditionUpdate("Blocked", True, "Asked"),)))
        return await make_parts(w, ctx)

    await lab.start(lambda manager: manager.add(controller(reconcile)))
    await lab.create(widget(parts=2))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.patch(Widget, "one", {"spec": {"parts": 0, "mode": "blocked"}})
    await lab.until(Widget, "one", kv.is_true("Blocked"))
    await lab.settled()
    assert await parts_of(lab) == ["part-0", "part-1"]


async def test_no_reconcile_runs_on_a_cache_that_is_behind_its_own_writes(lab: Lab) -> None:
    """Counts children in the cache and adds the next: with a stale cache it would repeat a number, or create one child too many."""
    applied: list[str] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        have = len(ctx.cache(CONFIG_MAP).by_index("owner", w.metadata.uid))
        if have < 20:
            await ctx.own(part(have))
            applied.append(f"part-{have}")
            return kv.RequeueAfter(0.001)
        return kv.Done()

    await lab.start(lambda manager: manager.add(controller(reconcile)))
    await lab.create(widget())
    await eventually(lambda: len(applied) >= 20)
    await lab.settled()
    assert applied == [f"part-{number}" for number in range(20)]


async def test_finalizer_precedes_the_first_reconcile_and_is_removed_after_finalize(lab: Lab) -> None:
    calls: list[str] = []
    may_end = asyncio.Event()

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        assert "tests.konverge.dev/widget" in w.metadata.finalizers
        assert not w.metadata.deleting
        calls.append("reconcile")
        return await make_parts(w, ctx)

    async def finalize(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        calls.append("finalize")
        ctx.status.set_condition("Ready", False, "Ending")
        return kv.Done() if may_end.is_set() else kv.RequeueAfter(0.05)

    await lab.start(lambda manager: manager.add(controller(reconcile, finalize)))
    await lab.create(widget(parts=1))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.delete(Widget, "one")
    ending = await lab.until(Widget, "one", lambda w: w.condition("Ready").reason == "Ending")
    assert ending.metadata.deleting
    may_end.set()
    await lab.until_gone(Widget, "one")
    assert "reconcile" not in calls[calls.index("finalize") :]


async def test_an_object_under_deletion_without_our_finalizer_is_left_alone(lab: Lab) -> None:
    calls: list[str] = []

    async def record(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        calls.append(w.name)
        return kv.Done()

    data = widget("dying").to_dict()
    data["metadata"] |= {"namespace": lab.namespace, "finalizers": ["others.example.com/hold"]}
    await lab.start(lambda manager: manager.add(controller(record, record)), wait=True)
    await lab.stop()
    await lab.client.create(Widget.decode(data))
    await lab.delete(Widget, "dying")
    await lab.start(lambda manager: manager.add(controller(record, record)))
    await lab.settled()
    assert calls == []
    assert (await lab.get(Widget, "dying")).metadata.finalizers == ("others.example.com/hold",)
    await lab.patch(Widget, "dying", {"metadata": {"finalizers": None}})


class StrictSpec(kv.Model):
    parts: int = 0
    mode: Literal["plain", "fancy"] = "plain"


def strict_widget() -> type[kv.CustomResource[StrictSpec, WidgetStatus]]:
    """The same kind in a program that allows fewer values than the installed schema."""

    @kv.resource("tests.konverge.dev/v1", conditions=("Ready", "Blocked"))
    class Widget(kv.CustomResource[StrictSpec, WidgetStatus]):
        """A thing with parts, of few modes."""

    return Widget


async def test_object_that_does_not_decode_is_marked_without_affecting_others(lab: Lab) -> None:
    finalized: list[str] = []

    async def finalize(w: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        finalized.append(w.metadata.name)
        with pytest.raises(kv.InvalidObject):
            _ = w.spec
        return kv.Done()

    sentence = (
        kv.Controller.of(strict_widget())
        .owns(CONFIG_MAP)
        .finalizer("tests.konverge.dev/widget")
        .invalid_as("Blocked", "ValidationFailed")
        .reconciled_by(By(make_parts, finalize))
    )
    await lab.start(lambda manager: manager.add(controller(make_parts)))
    await lab.create(widget("bad", parts=1))
    await lab.until(Widget, "bad", kv.is_true("Ready"))
    await lab.stop()
    await lab.patch(Widget, "bad", {"spec": {"mode": "unheard-of", "parts": 0}})
    await lab.start(lambda manager: manager.add(sentence.named("strict")), crds=False)
    await lab.create(widget("good", parts=0))
    marked = await lab.until(Widget, "bad", kv.is_true("Blocked"))
    assert marked.condition("Blocked").reason == "ValidationFailed"
    assert ".spec.mode" in marked.condition("Blocked").message
    assert marked.condition("Ready").is_false
    await lab.until(Widget, "good", kv.is_true("Ready"))
    assert await parts_of(lab) == ["part-0"]
    await lab.patch(Widget, "bad", {"spec": {"mode": "fancy"}})
    await lab.until(Widget, "bad", lambda w: w.condition("Blocked").is_false and w.condition("Ready").is_true)
    await lab.patch(Widget, "bad", {"spec": {"mode": "unheard-of"}})
    await lab.until(Widget, "bad", kv.is_true("Blocked"))
    await lab.delete(Widget, "bad")
    await lab.until_gone(Widget, "bad")
    assert finalized == ["bad"]


class DeepSpec(kv.Model):
    values: Annotated[dict[str, Any], PreserveUnknown()]


@kv.resource("deep.example.com/v1", conditions=("Ready", "Blocked"))
class Deep(kv.CustomResource[DeepSpec, kv.Status]):
    """It holds anything."""


@pytest.mark.parametrize(
    ("depth", "reason"), [(900, "ReconcileFailed"), (1500, "ValidationFailed"), (4000, "ValidationFailed")]
)
async def test_object_with_excessive_nesting_is_reported_in_status_without_affecting_others(
    lab: Lab, depth: int, reason: str
) -> None:
    if reason == "ReconcileFailed":
        lab.expects(ValueError, "depth")

    async def reconcile(deep: Deep, ctx: kv.Context[Deep]) -> kv.Outcome:
        if deep.spec.values:
            await ctx.apply(Deep.new("copy", deep.namespace, spec=deep.spec))
        ctx.status.set_condition("Ready", True, "Fine")
        return kv.Done()

    sentence = kv.Controller.of(Deep).invalid_as("Blocked", "ValidationFailed")
    await lab.start(lambda manager: manager.add(sentence.reconciled_by(By(reconcile))))
    body = b'{"apiVersion":"deep.example.com/v1","kind":"Deep","metadata":{"name":"deep"},"spec":{"values":%s1%s}}'
    path = f"/apis/deep.example.com/v1/namespaces/{lab.namespace}/deeps"
    await lab.client.raw("POST", path, body=body % (b'{"a":' * depth, b"}" * depth))
    await lab.create(Deep.new("flat", spec=DeepSpec(values={})))
    await lab.until(Deep, "flat", kv.is_true("Ready"))
    deep = await lab.until(Deep, "deep", kv.is_false("Ready"))
    assert deep.condition("Ready").reason == reason
    await lab.delete(Deep, "deep")
    await lab.until_gone(Deep, "deep")


async def test_held_conflict_names_manager_and_field_and_ends_with_their_release(lab: Lab) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        applied = await ctx.apply_children((kv.Child(part(0, mode=w.spec.mode), on_conflict=kv.HOLD),))
        if applied.held:
            ctx.status.set_condition("Blocked", True, "Held", str(applied.held[0]))
            return kv.Done()
        ctx.status.set_condition("Blocked", False, "Free")
        return kv.Done()

    await lab.start(lambda manager: manager.add(controller(reconcile)))
    await lab.create(widget(mode="plain"))
    await lab.until(Widget, "one", kv.is_false("Blocked"))
    theirs = {"metadata": {"name": "part-0", "namespace": lab.namespace}, "data": {"mode": "theirs"}}
    await lab.client.apply(CONFIG_MAP, theirs, manager="somebody", force=True)
    held = await lab.until(Widget, "one", kv.is_true("Blocked"))
    assert "somebody" in held.condition("Blocked").message
    assert ".data.mode" in held.condition("Blocked").message
    await lab.settled()
    conflicts = lab.metrics.registry.get_sample_value(
        "konverge_applies_total", {"controller": "widget", "kind": "ConfigMap", "result": "conflicted"}
    )
    lab.manager.runner("widget").resync_now()
    await lab.settled()
    assert conflicts == lab.metrics.registry.get_sample_value(
        "konverge_applies_total", {"controller": "widget", "kind": "ConfigMap", "result": "conflicted"}
    )
    assert (await lab.get(CONFIG_MAP, "part-0")).get("data", "mode") == "theirs"
    del theirs["data"]
    await lab.client.apply(CONFIG_MAP, {**theirs, "data": {"else": "x"}}, manager="somebody", force=True)
    await lab.patch(Widget, "one", {"spec": {"parts": 1}})
    await lab.until(Widget, "one", kv.is_false("Blocked"), timeout=40)
    assert (await lab.get(CONFIG_MAP, "part-0")).get("data", "mode") == "plain"


async def test_an_existing_object_is_adopted_where_that_is_said(lab: Lab) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(part(0), adopt=True)
        return kv.Done()

    existing = await lab.create(part(0, kept="yes"))
    await lab.start(lambda manager: manager.add(controller(reconcile)))
    owner = await lab.create(widget())
    adopted = await lab.until(CONFIG_MAP, "part-0", lambda one: one.metadata.controller is not None)
    assert adopted.metadata.uid == existing.metadata.uid
    assert adopted.metadata.controller is not None
    assert adopted.metadata.controller.uid == owner.metadata.uid
    assert adopted.get("data", "kept") == "yes"


async def test_a_reconcile_that_takes_too_long_is_cancelled_counted_and_fenced(lab: Lab) -> None:
    lab.expects(ReconcileTimeout)
    contexts: list[kv.Context[Widget]] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        contexts.append(ctx)
        ctx.status.set_condition("Ready", None, "Working")
        await asyncio.Event().wait()
        return kv.Done()

    await lab.start(lambda manager: manager.add(controller(reconcile).with_(timeout=0.1, base_delay=60.0)))
    await lab.create(widget())
    stored = await lab.until(Widget, "one", lambda w: w.find_condition("Ready") is not None)
    assert stored.condition("Ready").status == "Unknown"
    assert stored.status.observed_generation is None
    await lab.settled()  # it is counted after the status is written
    timeouts = lab.metrics.registry.get_sample_value(
        "controller_runtime_reconcile_timeouts_total", {"controller": "widget"}
    )
    assert timeouts == 1
    with pytest.raises(kv.KonvergeError, match="nothing more is sent"):
        await contexts[0].own(part(0))


async def test_a_blocking_reconciler_works_in_a_thread(lab: Lab) -> None:
    threads: list[int] = []

    class Blocking:
        def reconcile(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
            threads.append(threading.get_ident())
            made = ctx.wait(ctx.own(part(7)))
            ctx.status.set_condition("Ready", True, "Made", made.name)
            return kv.Done()

    sentence = kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(Blocking())
    await lab.start(lambda manager: manager.add(sentence))
    await lab.create(widget())
    done = await lab.until(Widget, "one", kv.is_true("Ready"))
    assert done.condition("Ready").message == "part-7"
    assert threading.get_ident() not in threads


async def test_terminal_errors_are_not_retried_and_delays_of_errors_are_kept(lab: Lab) -> None:
    passes: dict[str, int] = {}

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        passes[w.name] = passes.get(w.name, 0) + 1
        if w.name == "over":
            raise kv.Terminal("it cannot be")
        if passes[w.name] < 3:
            raise kv.RetryAfter(0.05, "soon")
        return kv.Done()

    await lab.start(lambda manager: manager.add(controller(reconcile)))
    await lab.create(widget("over"))
    await lab.create(widget("slow"))
    await eventually(lambda: passes.get("slow") == 3)
    await lab.settled()
    assert passes == {"over": 1, "slow": 3}
    terminal = lab.metrics.registry.get_sample_value(
        "controller_runtime_terminal_reconcile_errors_total", {"controller": "widget"}
    )
    assert terminal == 1


async def test_two_writers_of_one_status_keep_each_others_words(lab: Lab) -> None:
    async def parts(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.draft.parts = w.spec.parts
        ctx.status.set_condition("Ready", True, "Counted")
        return kv.Done()

    async def notes(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.draft.note = w.spec.mode
        ctx.status.set_condition("Blocked", False, "Noted")
        return kv.Done()

    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Widget).named("parts").writes_status_as("parts").reconciled_by(By(parts)))
        manager.add(kv.Controller.of(Widget).named("notes").writes_status_as("notes").reconciled_by(By(notes)))

    await lab.start(build)
    await lab.create(widget(parts=2, mode="a"))
    await lab.until(Widget, "one", lambda w: w.status.parts == 2 and w.status.note == "a")
    await lab.patch(Widget, "one", {"spec": {"parts": 3, "mode": "b"}})
    both = await lab.until(Widget, "one", lambda w: w.status.parts == 3 and w.status.note == "b")
    await lab.settled()
    both = await lab.get(Widget, "one")
    assert (both.condition("Ready").reason, both.condition("Blocked").reason) == ("Counted", "Noted")


async def test_object_recreated_under_its_name_does_not_get_the_old_status(lab: Lab) -> None:
    gate = asyncio.Event()

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if w.spec.mode == "old":
            ctx.status.set_condition("Ready", True, "Old")
            await gate.wait()
            return kv.Done()
        ctx.status.set_condition("Ready", True, "New")
        return kv.Done()

    await lab.start(lambda manager: manager.add(controller(reconcile)))
    await lab.create(widget(mode="old"))
    await eventually(lambda: lab.manager.runner("widget").queue.statistics().working == 1)
    await lab.delete(Widget, "one")
    await lab.until_gone(Widget, "one")
    await lab.create(widget(mode="new"))
    gate.set()
    await lab.until(Widget, "one", lambda w: w.find_condition("Ready") is not None)
    await lab.settled()
    assert (await lab.get(Widget, "one")).condition("Ready").reason == "New"


async def test_a_status_that_another_writer_wrote_over_is_repaired(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(controller(make_parts)))
    await lab.create(widget(parts=1))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.patch(Widget, "one", {"status": {"parts": 99, "conditions": None}}, subresource="status")
    await lab.until(Widget, "one", lambda w: w.status.parts == 1 and w.find_condition("Ready") is not None)


async def test_all_results_exist_at_zero_before_the_first_reconcile(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(controller(make_parts)))
    value = lab.metrics.registry.get_sample_value
    for result in ("success", "error", "requeue", "requeue_after"):
        assert value("controller_runtime_reconcile_total", {"controller": "widget", "result": result}) == 0
    assert value("controller_runtime_max_concurrent_reconciles", {"controller": "widget"}) == 1
    labels = {"name": "widget", "controller": "widget"}
    assert value("workqueue_depth", {**labels, "priority": "0"}) == 0
    assert value("workqueue_unfinished_work_seconds", labels) == 0


async def test_a_resync_visits_every_object_at_low_priority(lab: Lab) -> None:
    await lab.start(
        lambda manager: manager.add(controller(make_parts)), settings=ManagerSettings(namespace=lab.namespace)
    )
    await lab.create(widget("a"))
    await lab.create(widget("b"))
    await lab.until(Widget, "b", kv.is_true("Ready"))
    await lab.settled()
    runner = lab.manager.runner("widget")
    runner.resync_now()
    await lab.settled()
    for name in ("a", "b"):
        assert runner.history.of(Key("", runner.spec.kind, lab.namespace, name))[-1].reasons == ("resync",)


def test_the_models_of_this_file_are_models() -> None:
    assert WidgetSpec().parts == 0
    assert SECRET.kind == "Secret"
