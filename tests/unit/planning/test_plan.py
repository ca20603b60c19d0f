"""The plan of an operator over the in-memory server, which stores nothing."""

import asyncio
from typing import Any

import pytest
from planned import Sent, filling, planned
from widgets import CONFIG_MAP, SECRET, By, Widget, part, widget

import konverge as kv
from konverge.crds import crd_manifests
from konverge.errors import UsageError
from konverge.planning import PlanReport, plan, text_of
from konverge_testing import Lab, install_crds

LEASE = kv.kind("coordination.k8s.io/v1", "Lease")
EVENT = kv.kind("events.k8s.io/v1", "Event")


async def parts(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.apply_children([part(number, mode=found.spec.mode) for number in range(found.spec.parts)])
    ctx.status.draft.parts = found.spec.parts
    ctx.status.set_condition("Ready", True, "Built", "all parts are built")
    return kv.Done()


async def nothing(_found: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


def builder(reconcile: Any = parts, finalize: Any = None) -> kv.Controller[Widget]:
    described = kv.Controller.of(Widget).owns(CONFIG_MAP)
    if finalize is not None:
        described = described.finalizer("tests.konverge.dev/held")
    return described.reconciled_by(By(reconcile, finalize))


def actions(report: PlanReport) -> dict[str, str]:
    return {f"{change.kind} {change.name}": change.action for change in report.changes}


def fields(report: PlanReport, name: str) -> dict[str, Any]:
    change = next(change for change in report.changes if change.name == name)
    return {field.path: (field.before, field.after) for field in change.fields}


@pytest.fixture
async def widgets(lab: Lab) -> Lab:
    await install_crds(lab.client, crd_manifests((Widget,)))
    return lab


@pytest.mark.parametrize("cached", [{"metadata_only": True}, {"drop": ["binaryData"]}], ids=str)
async def test_children_of_small_caches_are_planned_by_their_drift(widgets: Lab, cached: dict[str, Any]) -> None:
    lab = widgets
    controller = kv.Controller.of(Widget).owns(CONFIG_MAP, **cached).reconciled_by(By(parts))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget(parts=2))
    await lab.settled()
    await lab.stop()
    assert actions(await planned(lab, controller)) == {}
    await lab.patch(CONFIG_MAP, "part-1", {"data": {"mode": "drifted"}})
    report = await planned(lab, controller)
    assert actions(report) == {"ConfigMap part-1": "update"}
    assert fields(report, "part-1") == {".data.mode": ("drifted", "plain")}


async def test_a_new_child_and_the_status_are_planned(widgets: Lab) -> None:
    lab = widgets
    await lab.create(widget(parts=1))
    report = await planned(lab, builder())
    assert actions(report) == {"ConfigMap part-0": "create", "Widget one": "update"}
    assert fields(report, "part-0")[".data.mode"] == (None, "plain")
    assert fields(report, "one")[".status.conditions[Ready].status"] == (None, "True")
    assert [cause.key for change in report.changes for cause in change.causes] == [f"Widget {lab.namespace}/one"] * 2
    assert [(event.reason, event.about) for event in report.events] == [("Built", f"Widget {lab.namespace}/one")]
    assert (report.exit_code, report.reconciled, report.failed) == (2, 1, ())


async def test_a_plan_stores_no_object_event_lease_or_status(widgets: Lab) -> None:
    lab = widgets
    await lab.create(widget(parts=1))
    before = await lab.get(Widget, "one")
    await planned(lab, builder(finalize=nothing))
    assert await lab.get(Widget, "one") == before
    for kind in (CONFIG_MAP, EVENT, LEASE):
        assert [
            entry.name for entry in await lab.client.list(kind, lab.namespace) if entry.name != "kube-root-ca.crt"
        ] == []


async def test_an_operator_at_rest_plans_no_change(widgets: Lab) -> None:
    lab = widgets

    def build(manager: kv.Manager) -> None:
        manager.add(builder(finalize=nothing))

    await lab.start(build, name="planner")
    await lab.create(widget(parts=2))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.settled()
    await lab.stop()
    report = await planned(lab, builder(finalize=nothing))
    assert (report.changes, report.exit_code, report.reconciled) == ((), 0, 1)
    assert text_of(report).endswith("Plan: no changes. 1 object reconciled. Nothing was written.")


async def test_a_new_version_plans_changed_and_pruned_children(widgets: Lab) -> None:
    lab = widgets
    await lab.start(lambda manager: manager.add(builder()), name="planner")
    await lab.create(widget(parts=2))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.stop()

    async def fewer(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.apply_children([part(0, mode="fancy")])
        return kv.Done()

    report = await planned(lab, builder(fewer))
    assert actions(report) == {"ConfigMap part-0": "update", "ConfigMap part-1": "delete"}
    assert fields(report, "part-0") == {".data.mode": ("plain", "fancy")}


async def test_a_finalizer_and_what_follows_it_are_planned(widgets: Lab) -> None:
    await widgets.create(widget(parts=1))
    report = await planned(widgets, builder(finalize=nothing))
    assert fields(report, "one")[".metadata.finalizers"] == (None, ["tests.konverge.dev/held"])
    assert fields(report, "one")[".status.parts"] == (None, 1)
    assert actions(report) == {"ConfigMap part-0": "create", "Widget one": "update"}


async def test_another_controller_reconciles_a_planned_child(widgets: Lab) -> None:
    """The widget exists only in the plan: its children and its status follow nevertheless."""
    lab = widgets

    async def orders(found: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.own(Widget.new("ordered", lab.namespace, spec=widget(parts=1).spec))
        return kv.Done()

    shop = kv.Controller.of(SECRET).named("shop").owns(Widget).reconciled_by(By(orders))
    await lab.create(SECRET.new("order", data={"a": "czM6"}))
    report = await planned(lab, shop, builder(finalize=nothing), name="order")
    assert actions(report) == {"ConfigMap part-0": "create", "Widget ordered": "create"}
    assert fields(report, "ordered")[".status.parts"] == (None, 1)
    owners = next(value for path, (_, value) in fields(report, "part-0").items() if path.endswith(".uid"))
    assert owners == "(known after the write)"
    assert [cause.controller for change in report.changes for cause in change.causes] == ["shop", "widget", "widget"]


async def test_a_raising_reconcile_is_reported_and_others_go_on(widgets: Lab) -> None:
    lab = widgets

    async def odd(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if found.name == "bad":
            raise RuntimeError("no such mode")
        return await parts(found, ctx)

    await lab.create(widget("bad"))
    await lab.create(widget("good", parts=1))
    report = await planned(lab, builder(odd))
    assert [(failed.controller, failed.key, failed.error) for failed in report.failed] == [
        ("widget", f"Widget {lab.namespace}/bad", "no such mode")
    ]
    assert actions(report)["ConfigMap part-0"] == "create"
    assert report.exit_code == 1
    assert f"widget of Widget {lab.namespace}/bad: no such mode" in text_of(report)


async def test_a_refused_write_is_the_failure_of_its_object(widgets: Lab) -> None:
    async def malformed(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new("Not_A_Name"))
        return kv.Done()

    await widgets.create(widget())
    report = await planned(widgets, builder(malformed))
    assert "Not_A_Name" in report.failed[0].error


async def test_effects_outside_kubernetes_are_not_tried(widgets: Lab) -> None:
    called = []

    async def calls(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        called.append(found.name)
        return kv.Done()

    await widgets.create(widget())
    report = await planned(widgets, builder(calls).calls("the parts server"))
    assert called == []
    assert [(left.controller, left.calls) for left in report.not_tried] == [("widget", "the parts server")]
    assert (report.exit_code, report.reconciled) == (0, 0)
    assert "widget, 1 object: calls the parts server" in text_of(report)


async def test_a_plan_calls_the_reconciler_of_in_plan(widgets: Lab) -> None:
    async def calls(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        raise AssertionError("this reconciler calls the parts server")

    await widgets.create(widget(parts=1))
    report = await planned(widgets, builder(calls).calls("the parts server", in_plan=By(parts)))
    assert actions(report)["ConfigMap part-0"] == "create"
    assert report.not_tried == ()


async def test_values_of_secrets_are_blanked(lab: Lab) -> None:
    token = "c2VjcmV0LXZhbHVl"  # the value that must not appear

    async def renew(found: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.apply(SECRET.new("token", data={"token": token, "new": token}), force=True)
        await ctx.apply(SECRET.new("fresh", data={"token": token}), force=True)
        return kv.Done()

    await lab.create(SECRET.new("token", data={"token": "b2xk"}))
    await lab.create(CONFIG_MAP.new("source"))
    rule = kv.Rule("", ("secrets",), ("get", "patch", "create"))
    source = kv.Controller.of(CONFIG_MAP).needs(rule).reconciled_by(By(renew))
    report = await planned(lab, source, name="source")
    assert fields(report, "token") == {
        ".data.token": ("(blanked)", "(blanked, another value)"),
        ".data.new": (None, "(blanked)"),
    }
    assert token not in text_of(report) + str(report.to_dict())
    assert "b2xk" not in text_of(report) + str(report.to_dict())


@pytest.mark.parametrize(
    ("selected", "names"),
    [
        ({"name": "a"}, ["part-a"]),
        ({"kind": "wd"}, ["part-a", "part-b"]),
        ({"kind": "widgets"}, ["part-a", "part-b"]),
        ({"kind": "Widget", "name": "b"}, ["part-b"]),
    ],
    ids=str,
)
async def test_a_plan_begins_with_the_selected_objects(
    widgets: Lab, selected: dict[str, str], names: list[str]
) -> None:
    async def named(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new(f"part-{found.name}"))
        return kv.Done()

    for name in ("a", "b"):
        await widgets.create(widget(name))
    report = await planned(widgets, builder(named), kind=selected.get("kind", ""), name=selected.get("name", ""))
    assert sorted(change.name for change in report.changes if change.kind == "ConfigMap") == names


async def test_a_selection_without_objects_is_an_error_that_lists_the_kinds(widgets: Lab) -> None:
    await widgets.create(widget())
    with pytest.raises(UsageError, match="the controllers are for Widget"):
        await planned(widgets, builder(), name="nobody")


async def test_a_missing_crd_is_reported_for_a_selection_too(lab: Lab) -> None:
    report = await planned(lab, builder(), name="one")
    assert ([failed.controller for failed in report.failed], report.exit_code) == (["widget"], 1)


async def test_a_key_that_never_settles_is_a_failure(widgets: Lab) -> None:
    async def counts(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.patch(Widget, found.name, found.namespace, patch={"spec": {"parts": found.spec.parts + 1}})
        return kv.Done()

    await widgets.create(widget())
    report = await planned(widgets, builder(counts))
    assert [failed.key for failed in report.failed] == [f"Widget {widgets.namespace}/one"]
    assert "never settles" in report.failed[0].error
    assert fields(report, "one")[".spec.parts"] == (0, 10)


async def test_no_delay_passes_in_a_plan(widgets: Lab) -> None:
    runs = []

    async def waits(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        runs.append(ctx.reasons)
        return kv.RequeueAfter(0.001)

    await widgets.create(widget())
    report = await planned(widgets, builder(waits))
    assert (len(runs), report.failed) == (1, ())


async def test_a_controller_without_its_crd_fails_and_others_are_planned(lab: Lab) -> None:
    async def labels(found: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        await ctx.patch(CONFIG_MAP, found.name, found.namespace, patch={"data": {"seen": "yes"}})
        return kv.Done()

    await lab.create(CONFIG_MAP.new("source"))
    seen = kv.Controller.of(CONFIG_MAP).reconciled_by(By(labels))
    report = await planned(lab, builder(), seen, name="source")
    assert [(failed.controller, "install its CRD" in failed.error) for failed in report.failed] == [("widget", True)]
    assert actions(report) == {"ConfigMap source": "update"}


async def test_a_blocking_reconciler_is_the_cause_of_its_writes(widgets: Lab) -> None:
    class Blocking:
        def reconcile(self, found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
            ctx.wait(ctx.own(CONFIG_MAP.new("part-0")))
            return kv.Done()

    await widgets.create(widget())
    report = await planned(widgets, kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(Blocking()))
    causes = next(change.causes for change in report.changes if change.name == "part-0")
    assert [cause.key for cause in causes] == [f"Widget {widgets.namespace}/one"]


async def test_live_reads_and_lists_show_planned_objects(widgets: Lab) -> None:
    seen: list[Any] = []

    async def reads(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(part(0))
        seen.append((await ctx.live(CONFIG_MAP).get(found.namespace, "part-0")).get("data", "number"))
        return kv.Done()

    await widgets.create(widget())
    report = await planned(widgets, builder(reads))
    assert (seen[0], report.failed) == ("0", ())


async def test_webhooks_and_background_work_do_not_run(widgets: Lab) -> None:
    ran = []

    async def work(_services: Any) -> None:
        ran.append(1)
        await asyncio.Event().wait()

    async def fill(manager: kv.Manager) -> None:
        await filling(builder())(manager)
        manager.run_while_leading("work", work)

    await widgets.create(widget())
    await plan("planner", widgets.server.config(), fill)
    assert ran == []


async def test_only_dry_runs_and_reads_reach_the_server(widgets: Lab) -> None:
    sent = Sent()
    await widgets.create(widget(parts=1))
    await planned(widgets, builder(finalize=nothing), sent=sent)
    writes = [each for each in sent.requests if each.writes]
    assert writes
    assert {dict(each.params).get("dryRun") for each in writes} == {"All"}
    assert not any("watch" in dict(each.params) for each in sent.requests)


async def test_an_object_that_changed_during_the_plan_is_reconciled_again(widgets: Lab) -> None:
    lab, seen = widgets, []

    async def doubles(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.append(found.spec.mode)
        if len(seen) == 1:  # another writer, after the caches were filled
            await lab.patch(Widget, "one", {"spec": {"mode": "other"}})
        if found.spec.parts == 0:
            await ctx.patch(Widget, expect=found, patch={"spec": {"parts": 2}})
        return kv.Done()

    await lab.create(widget())
    report = await planned(lab, builder(doubles))
    assert (seen[0], seen[-1], report.failed) == ("plain", "other", ())
    assert fields(report, "one")[".spec.parts"] == (0, 2)
