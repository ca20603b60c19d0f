"""Requests of a reconciler beyond its children and its status: patches and applies of subresources, dry runs, and the client itself."""

import asyncio
from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, WidgetSpec, widget

import konverge as kv
from konverge.errors import NotFound, ReconcileTimeout, UsageError
from konverge.kinds import kind
from konverge_testing import Lab

DEPLOYMENT = kind("apps/v1", "Deployment")
POD = kind("v1", "Pod")
CONTAINERS = {"containers": [{"name": "a", "image": "example.com/a"}]}
SPEC = {
    "replicas": 1,
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": CONTAINERS},
}


async def once(lab: Lab, reconcile: Any) -> Any:
    """Run one reconcile of a new object; returns what is kept of it."""

    async def without_status(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.skip_write()
        outcome: kv.Outcome = await reconcile(w, ctx)
        return outcome

    controller = kv.Controller.of(Widget).needs(
        kv.Rule("", ("configmaps", "pods", "pods/status"), ("create", "get", "patch")),
        kv.Rule("apps", ("deployments/scale",), ("patch",)),
        kv.Rule("tests.konverge.dev", ("widgets", "widgets/status"), ("create", "get", "patch")),
    )
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(without_status))))
    await lab.create(widget())
    await lab.settled()
    return lab.manager.runner("widget").history.recent()[0]


async def test_a_patch_takes_a_subresource(lab: Lab) -> None:
    async def scales(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.patch(DEPLOYMENT, "one", w.namespace, patch={"spec": {"replicas": 3}}, subresource="scale")
        return kv.Done()

    await lab.create(DEPLOYMENT.new("one", spec=SPEC))
    record = await once(lab, scales)
    assert (record.error, record.writes) == ("", (f"patch scale of Deployment {lab.namespace}/one",))
    assert (await lab.get(DEPLOYMENT, "one")).get("spec", "replicas") == 3


async def test_an_apply_takes_the_status_subresource_beside_the_object(lab: Lab) -> None:
    async def applies(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.apply(POD.new("one", w.namespace, metadata={"name": "one", "labels": {"a": "b"}}))
        await ctx.apply(POD.new("one", w.namespace, status={"phase": "Running"}), subresource="status")
        return kv.Done()

    await lab.create(POD.new("one", spec=CONTAINERS))
    record = await once(lab, applies)
    assert record.error == ""
    assert record.writes == (f"apply Pod {lab.namespace}/one", f"apply status of Pod {lab.namespace}/one")
    found = await lab.get(POD, "one")
    assert (found.get("status", "phase"), found.get("metadata", "labels", "a")) == ("Running", "b")


@pytest.mark.parametrize(("name", "namespace"), [("two", "lab"), ("one", "default")])
async def test_another_object_of_the_own_kind_is_made_and_patched_as_itself(
    lab: Lab, name: str, namespace: str
) -> None:
    async def makes(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if (w.name, w.namespace) == ("one", lab.namespace):
            made = await ctx.apply(Widget.new(name, namespace, spec=WidgetSpec(parts=3)))
            await ctx.patch(Widget, name, namespace, patch={"spec": {"mode": "patched"}})
            assert made.uid != w.uid
        return kv.Done()

    await once(lab, makes)
    assert [record.error for record in lab.manager.runner("widget").history.recent() if record.error] == []
    made = await lab.client.get(Widget, name, namespace)
    assert (made.spec.parts, made.spec.mode) == (3, "patched")


async def test_status_of_the_reconciled_kind_is_not_applied_during_its_reconcile(lab: Lab) -> None:
    async def applies(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.apply(w, subresource="status")
        return kv.Done()

    lab.expects(UsageError, "written once")
    record = await once(lab, applies)
    assert "ctx.status" in record.error
    assert record.writes == ()


async def test_a_dry_run_answers_and_changes_nothing_and_counts_as_no_write(lab: Lab) -> None:
    answers: list[Any] = []

    async def tries(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        made = await ctx.apply(CONFIG_MAP.new("new", w.namespace, data={"a": "b"}), dry_run=True)
        patched = await ctx.patch(CONFIG_MAP, "old", w.namespace, patch={"data": {"a": "c"}}, dry_run=True)
        answers.extend((made.get("data", "a"), patched.get("data", "a")))
        with pytest.raises(kv.FieldsHeld):
            await ctx.apply(CONFIG_MAP.new("old", w.namespace, data={"a": "c"}), dry_run=True)
        forced = await ctx.apply(CONFIG_MAP.new("old", w.namespace, data={"a": "d"}), dry_run=True, force=True)
        answers.append(forced.get("data", "a"))
        return kv.Done()

    await lab.create(CONFIG_MAP.new("old", data={"a": "b"}))
    record = await once(lab, tries)
    assert (record.error, record.writes, answers) == ("", (), ["b", "c", "d"])
    assert (await lab.get(CONFIG_MAP, "old")).get("data", "a") == "b"
    assert await lab.find(CONFIG_MAP, "new") is None


async def test_client_of_the_context_is_visible_to_barrier_and_debug_page(lab: Lab) -> None:
    pending: list[str] = []

    async def uses_the_client(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ledger = ctx.client.ledger
        await ctx.client.create(CONFIG_MAP.new("one", w.namespace, data={"a": "b"}))
        await ctx.client.create(CONFIG_MAP.new("other", w.namespace), dry_run=True)
        operation = {"op": "replace", "path": "/data/a", "value": "c"}
        await ctx.client.patch(CONFIG_MAP, "one", w.namespace, patch=[operation], style="json")
        pending.extend(write.name for write in ledger.pending(("widget", ctx.key)))
        async with ctx.client as client:  # its end must not close the connections of the manager
            await client.get(CONFIG_MAP, "one", w.namespace)
        return kv.Done()

    record = await once(lab, uses_the_client)
    assert record.error == ""
    assert record.writes == (f"create configmaps {lab.namespace}/one", f"patch configmaps {lab.namespace}/one")
    assert set(pending) == {"one"}
    assert (await lab.get(CONFIG_MAP, "one")).get("data", "a") == "c"
    assert (await lab.manager.client.get(CONFIG_MAP, "one", lab.namespace)).name == "one"


async def test_nothing_is_sent_by_the_client_of_a_reconcile_that_has_ended(lab: Lab) -> None:
    kept: list[Any] = []

    async def keeps_the_client(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        kept.append(ctx.client)
        return kv.Done()

    await once(lab, keeps_the_client)
    with pytest.raises(ReconcileTimeout):
        await kept[0].create(CONFIG_MAP.new("late", lab.namespace))
    with pytest.raises(NotFound):
        await lab.client.get(CONFIG_MAP, "late", lab.namespace)
    assert asyncio.get_running_loop().is_running()
