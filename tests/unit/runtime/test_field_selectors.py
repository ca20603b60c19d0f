"""Selectors of a controller's kinds: the API server sends only the selected objects, and the runtime knows that others may exist."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from pydantic import Field
from widgets import CONFIG_MAP, SECRET, By, Widget, widget

import konverge as kv
from konverge.errors import SchemaError, UsageError
from konverge_testing import Lab

POD = kv.kind("v1", "Pod")
WHERE = kv.Key("", kv.kind("tests.konverge.dev/v1", "Widget"), "lab", "one")


class PlaceSpec(kv.Model):
    node: str = ""
    size: int = 0
    tags: list[str] = Field(default_factory=list)


@kv.resource("tests.konverge.dev/v1", selectable=(".spec.node",))
class Place(kv.CustomResource[PlaceSpec, kv.Status]):
    """A thing on a node."""


async def leave(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.skip_write()
    return kv.Done()


def to_widget(_: object, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Widget).keys()


async def pod(lab: Lab, name: str, phase: str) -> None:
    await lab.create(POD.new(name, spec={"containers": [{"name": "a", "image": "a"}]}))
    await lab.patch(POD, name, {"status": {"phase": phase}}, subresource="status")


async def test_a_watch_by_a_field_shows_only_the_selected_objects(lab: Lab) -> None:
    seen: list[list[str]] = []

    async def reconcile(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.append(sorted(found.name for found in ctx.cache(POD).list()))
        ctx.status.skip_write()
        return kv.Done()

    await pod(lab, "a", "Running")
    await pod(lab, "b", "Failed")
    controller = kv.Controller.of(Widget).watches(POD, to=to_widget, fields="status.phase=Failed")
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(reconcile))))
    await lab.create(widget())
    await lab.settled()
    assert seen[-1] == ["b"]
    await lab.patch(POD, "a", {"status": {"phase": "Failed"}}, subresource="status")
    await lab.settled()
    assert seen[-1] == ["a", "b"]
    await lab.patch(POD, "b", {"status": {"phase": "Running"}}, subresource="status")
    await lab.settled()
    assert seen[-1] == ["a"]


async def test_two_controllers_see_their_own_selections_of_one_kind(lab: Lab) -> None:
    seen: dict[str, list[str]] = {}

    def controller(name: str, kind: kv.Kind[kv.Object], fields: str) -> kv.Controller[kv.Object]:
        async def reconcile(_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
            seen[name] = sorted(found.name for found in ctx.cache(POD).list())
            return kv.Done()

        def to(_: kv.Object, caches: kv.Caches) -> Iterable[kv.Key]:
            return caches(kind).keys()

        return kv.Controller.of(kind).named(name).watches(POD, to=to, fields=fields).reconciled_by(By(reconcile))

    await pod(lab, "a", "Running")
    await pod(lab, "b", "Failed")

    def build(manager: kv.Manager) -> None:
        manager.add(controller("failed", CONFIG_MAP, "status.phase=Failed"))
        manager.add(controller("running", SECRET, "status.phase=Running"))

    await lab.start(build)
    await lab.create(CONFIG_MAP.new("any"))
    await lab.create(SECRET.new("any"))
    await lab.settled()
    assert seen == {"failed": ["b"], "running": ["a"]}


async def test_a_controller_of_a_selectable_field_reconciles_only_its_objects(lab: Lab) -> None:
    seen: set[str] = set()

    async def reconcile(place: Place, ctx: kv.Context[Place]) -> kv.Outcome:
        seen.add(place.name)
        ctx.status.skip_write()
        return kv.Done()

    controller = kv.Controller.of(Place).selecting(fields="spec.node=here")
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(reconcile))))
    for name, node in (("a", "here"), ("b", "elsewhere")):
        await lab.create(Place.new(name, spec=PlaceSpec(node=node)))
    await lab.settled()
    assert seen == {"a"}
    await lab.patch(Place, "b", {"spec": {"node": "here"}})
    await lab.settled()
    assert seen == {"a", "b"}


@pytest.mark.parametrize(("labels", "fields"), [("app=w", ""), ("", "metadata.name=child")], ids=["labels", "fields"])
async def test_selected_children_converge_and_others_are_neither_cached_nor_pruned(
    lab: Lab, labels: str, fields: str
) -> None:
    async def reconcile(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.apply_children([CONFIG_MAP.new("child", "lab", labels={"app": "w"}, data={"a": "b"})])
        ctx.status.skip_write()
        return kv.Done()

    controller = kv.Controller.of(Widget).owns(CONFIG_MAP, labels=labels, fields=fields)
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(reconcile))))
    owner = await lab.create(widget())
    reference = {
        "apiVersion": "tests.konverge.dev/v1",
        "kind": "Widget",
        "name": "one",
        "uid": owner.uid,
        "controller": True,
    }
    await lab.create(CONFIG_MAP.decode({"metadata": {"name": "outside", "ownerReferences": [reference]}}))
    await lab.settled()
    await lab.patch(CONFIG_MAP, "child", {"data": {"a": "changed"}})
    await lab.settled()
    assert (await lab.get(CONFIG_MAP, "child")).get("data") == {"a": "b"}
    await lab.get(CONFIG_MAP, "outside")
    writes = [record.writes for record in lab.manager.runner("widget").history.recent()]
    assert sum(map(len, writes)) == 2, "one creation and one repair"


async def test_a_child_outside_of_the_selection_is_refused_with_the_remedy(lab: Lab) -> None:
    problems: list[str] = []

    async def reconcile(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        try:
            await ctx.own(CONFIG_MAP.new("child", "lab", labels={"app": "other"}))
        except UsageError as error:
            problems.append(str(error))
        ctx.status.skip_write()
        return kv.Done()

    controller = kv.Controller.of(Widget).owns(CONFIG_MAP, labels="app=w")
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(reconcile))))
    await lab.create(widget())
    await lab.settled()
    assert "add the labels to the child" in problems[0]
    assert await lab.find(CONFIG_MAP, "child") is None


@pytest.mark.parametrize("in_selection", [True, False], ids=["selected", "outside"])
async def test_a_write_to_a_kind_watched_by_a_field_ends_the_wait(lab: Lab, in_selection: bool) -> None:
    """The barrier asks the API server whether the selection takes an object that the cache does not show."""
    runs: list[float] = []

    async def reconcile(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        runs.append(ctx.now().timestamp())
        if len(runs) == 1:
            await ctx.client.create(CONFIG_MAP.new("mine" if in_selection else "other", "lab"))
            return kv.RequeueAfter(1)
        ctx.status.skip_write()
        return kv.Done()

    controller = (
        kv.Controller.of(Widget)
        .watches(CONFIG_MAP, to=to_widget, fields="metadata.name=mine")
        .needs(kv.Rule("", ("configmaps",), ("create",)))
        .reconciled_by(By(reconcile))
    )
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget())
    await asyncio.sleep(30)
    assert len(runs) >= 2
    assert runs[1] - runs[0] < 5, "the barrier waits ten seconds for a write that the cache never shows"


def test_one_cache_does_not_serve_two_selections_of_one_controller() -> None:
    controller = kv.Controller.of(Widget)
    with pytest.raises(UsageError, match="owns and watches ConfigMap, and both read one cache"):
        controller.owns(CONFIG_MAP, labels="a=b").watches(CONFIG_MAP, to=to_widget)
    with pytest.raises(UsageError, match="owns and watches ConfigMap, and both read one cache"):
        controller.watches(CONFIG_MAP, to=to_widget, fields="metadata.name=a").owns(CONFIG_MAP)
    with pytest.raises(UsageError, match="label selector"):
        controller.owns(CONFIG_MAP, labels="a in")


@pytest.mark.parametrize("path", ["spec.node", ".spec.none", ".spec.tags", ".metadata.name", ".spec", ""])
def test_a_selectable_path_names_a_scalar_field(path: str) -> None:
    with pytest.raises(SchemaError, match="write the JSON path of a field"):

        @kv.resource("tests.konverge.dev/v1", kind="Odd", selectable=(path,))
        class Odd(kv.CustomResource[PlaceSpec, kv.Status]):
            """An odd thing."""
