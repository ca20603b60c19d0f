"""Caches without some fields: what controllers read and write, and which declarations are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import structlog
from pydantic import Field
from widgets import CONFIG_MAP, SECRET, By, Widget, widget

import konverge as kv
from konverge.crds.partial import PartialResource
from konverge.dropped import PartialObject
from konverge.errors import FieldDropped, UsageError
from konverge_testing import Lab

NOTES = "metadata.annotations['example.com/notes']"


class Settings(PartialResource):
    data: dict[str, str] = Field(default_factory=dict)


def to_widgets(_: object, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Widget).keys()


def config(name: str = "settings", **data: str) -> kv.Object:
    return CONFIG_MAP.new(name, "lab", annotations={"example.com/notes": "long", "keep": "me"}, data=data)


def reading(seen: list[kv.Object], name: str = "settings") -> By:
    """A reconciler that keeps the ConfigMap of this name as the cache shows it."""

    async def reconcile(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        seen.extend(filter(None, [ctx.cache(CONFIG_MAP).find("lab", name)]))
        ctx.status.skip_write()
        return kv.Done()

    return By(reconcile)


async def test_a_watched_object_lacks_the_dropped_fields_for_every_reader(lab: Lab) -> None:
    seen: list[kv.Object] = []
    mapped: list[kv.Object] = []
    indexed: list[kv.Object] = []

    def to(changed: kv.Object, caches: kv.Caches) -> Iterable[kv.Key]:
        mapped.append(changed)
        return to_widgets(changed, caches)

    def by(object_: kv.Object) -> Iterable[str]:
        indexed.append(object_)
        return ["all"]

    controller = (
        kv.Controller.of(Widget)
        .watches(CONFIG_MAP, to=to, drop=["data.large", NOTES])
        .indexes(CONFIG_MAP, "any", by=by)
        .reconciled_by(reading(seen))
    )
    manager = await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget())
    await lab.create(config(large="x" * 10_000, small="y"))
    await lab.settled()
    shared = manager.cache(CONFIG_MAP).get("lab", "settings")
    for view in (seen[-1], mapped[-1], indexed[-1], shared):
        assert isinstance(view, PartialObject)
        assert view.get("data", "small") == "y"
        assert view.metadata.annotations == {"keep": "me"}
        with pytest.raises(FieldDropped, match=r"data.large of ConfigMap lab/settings was read, .* drops data.large"):
            view.get("data", "large")
    assert (await lab.get(CONFIG_MAP, "settings")).get("data", "large") == "x" * 10_000
    [informer] = [
        each for each in manager.runner("widget").caches.informers.values() if "without" in str(each.selection)
    ]
    assert informer.store.list()[0].body.find(b"xxx") == -1


async def test_controllers_with_other_paths_have_their_own_caches_and_equal_paths_share(lab: Lab) -> None:
    seen: dict[str, list[kv.Object]] = {"a": [], "b": [], "c": [], "whole": []}

    def controller(name: str, kind: Any, *drop: str) -> kv.Controller[Any]:
        def to(_: object, caches: kv.Caches) -> Iterable[kv.Key]:
            return caches(kind).keys("lab")

        async def reconcile(_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
            seen[name] += filter(None, [ctx.cache(CONFIG_MAP).find("lab", "settings")])
            return kv.Done()

        return kv.Controller.of(kind).named(name).watches(CONFIG_MAP, to=to, drop=drop).reconciled_by(By(reconcile))

    def build(manager: kv.Manager) -> None:
        manager.add(controller("a", SECRET, "data.x"))
        manager.add(controller("b", kv.kind("v1", "Service"), "data.y"))
        manager.add(controller("c", kv.kind("apps/v1", "Deployment"), "data.y"))
        manager.add(controller("whole", kv.kind("v1", "Pod")))

    manager = await lab.start(build)
    await lab.create(config(x="1", y="2"))
    await lab.create(SECRET.new("any"))
    await lab.create(kv.kind("v1", "Service").new("any", spec={"ports": [{"port": 80}]}))
    await lab.settled()
    assert (seen["a"][-1].data["data"], seen["b"][-1].data["data"]) == ({"y": "2"}, {"x": "1"})
    caches = {name: manager.runner(name).caches.informers[CONFIG_MAP] for name in seen}
    assert caches["b"] is caches["c"]
    assert len(set(caches.values())) == 3
    assert manager.cache(CONFIG_MAP, controller="whole").get("lab", "settings").get("data") == {"x": "1", "y": "2"}
    with pytest.raises(UsageError, match="watch different selections of ConfigMap: name one"):
        manager.cache(CONFIG_MAP)


async def test_a_primary_object_lacks_dropped_fields_and_its_status_is_written_once(lab: Lab) -> None:
    seen: list[kv.Object] = []

    async def reconcile(pod: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        seen.append(pod)
        ctx.status.draft["reason"] = "Seen"
        return kv.Done()

    pods = kv.kind("v1", "Pod")
    await lab.create(pods.new("a", spec={"containers": [{"name": "a", "image": "a"}]}))
    await lab.patch(pods, "a", {"status": {"message": "long"}}, subresource="status")
    await lab.start(
        lambda manager: manager.add(
            kv.Controller.of(pods, drop=["spec.containers", "status.message"]).reconciled_by(By(reconcile))
        )
    )
    await lab.settled()
    assert len(seen) == 1, "the event of the own status write enqueues nothing"
    assert "containers" not in seen[-1].spec
    with pytest.raises(FieldDropped):
        seen[-1].get("spec", "containers", 0, "name")
    stored = await lab.get(pods, "a")
    assert (stored.get("status", "message"), stored.get("status", "reason")) == ("long", "Seen")
    lab.manager.runner("pod").resync_now()
    await lab.settled()
    assert len(seen) == 2
    writes = [record.writes for record in lab.manager.runner("pod").history.recent()]
    assert sum(map(len, writes)) == 1


async def test_a_status_that_sets_a_dropped_field_is_refused(lab: Lab) -> None:
    async def reconcile(_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        ctx.status.draft["message"] = "mine"
        return kv.Done()

    pods = kv.kind("v1", "Pod")
    lab.expects(UsageError, "sets status.message of Pod lab/a, which its cache drops")
    controller = kv.Controller.of(pods, drop=["status.message"]).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(pods.new("a", spec={"containers": [{"name": "a", "image": "a"}]}))
    await lab.settled()
    assert (await lab.get(pods, "a")).get("status", "message") is None
    await lab.delete(pods, "a")
    await lab.settled()


async def test_an_owned_child_without_dropped_fields_converges_and_rests(lab: Lab) -> None:
    children: list[kv.Object] = []

    async def reconcile(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        children.append(await ctx.own(CONFIG_MAP.new("child", owner.namespace, data={"a": "b"})))
        ctx.status.skip_write()
        return kv.Done()

    controller = kv.Controller.of(Widget).owns(CONFIG_MAP, drop=["binaryData", "data.large"])
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(reconcile))))
    await lab.create(widget())
    await lab.settled()
    await lab.patch(CONFIG_MAP, "child", {"data": {"a": "drifted", "large": "x"}, "binaryData": {"z": "eg=="}})
    await lab.settled()
    stored = await lab.get(CONFIG_MAP, "child")
    assert stored.get("data") == {"a": "b", "large": "x"}
    lab.manager.runner("widget").resync_now()
    await lab.settled()
    writes = [record.writes for record in lab.manager.runner("widget").history.recent()]
    assert sum(map(len, writes)) == 2, "one creation and one repair"
    for child in children:  # created, repaired or unchanged
        assert child.get("data", "a") == "b"
        with pytest.raises(FieldDropped):
            child.get("binaryData")


async def test_a_child_that_sets_a_dropped_field_is_refused(lab: Lab) -> None:
    problems: list[str] = []

    async def reconcile(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        for write in (ctx.own, ctx.apply):
            try:
                await write(CONFIG_MAP.new("child", owner.namespace, data={"large": "b"}))
            except UsageError as error:
                problems.append(str(error))
        ctx.status.skip_write()
        return kv.Done()

    controller = kv.Controller.of(Widget).owns(CONFIG_MAP, drop=["data.large"]).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget())
    await lab.settled()
    problem = "controller 'widget' sets data.large of ConfigMap lab/child, which its cache drops"
    assert [text.startswith(problem) and text.endswith("take the path out of drop") for text in problems] == [
        True,
        True,
    ]
    assert await lab.find(CONFIG_MAP, "child") is None


def shorten(data: dict[str, Any]) -> dict[str, Any]:
    """Keep the lengths of the texts; fails for one object."""
    data["data"] = {key: str(len(text)) for key, text in data["data"].items()}
    return data


async def test_a_failing_transform_names_its_object_and_harms_no_other(lab: Lab) -> None:
    seen: list[kv.Object] = []
    controller = kv.Controller.of(Widget).watches(CONFIG_MAP, to=to_widgets, transform=shorten)
    await lab.create(CONFIG_MAP.new("bad", "lab"))
    await lab.create(config(large="x" * 100))
    with structlog.testing.capture_logs() as lines:
        await lab.start(lambda manager: manager.add(controller.reconciled_by(reading(seen))))
        await lab.create(widget())
        await lab.settled()
    assert seen[-1].get("data", "large") == "100"
    assert lab.manager.cache(CONFIG_MAP).get("lab", "bad").get("data") is None
    [line] = [line for line in lines if "without its transform" in line["event"]]
    assert (line["selection"], line["error"]) == ("ConfigMap in lab", "lab/bad: KeyError")


DECLARE: dict[str, tuple[Callable[[], object], str]] = {
    "path": (lambda: kv.Controller.of(CONFIG_MAP, drop=["metadata.labels"]), "only single annotations can be dropped"),
    "field of the model": (lambda: kv.Controller.of(Widget, drop=["spec.parts"]), "Widget has this field"),
    "status of the model": (lambda: kv.Controller.of(Widget, drop=["status"]), "Widget has this field"),
    "both": (
        lambda: kv.Controller.of(Widget).owns(SECRET, metadata_only=True, drop=["data"]),
        "metadata_only=True caches no field of the body; leave out drop",
    ),
    "transform of metadata": (
        lambda: kv.Controller.of(Widget).watches(SECRET, to=to_widgets, metadata_only=True, transform=dict),  # type: ignore[call-overload]  # the mistake
        "no body is sent that the function could change",
    ),
    "two watches": (
        lambda: (
            kv.Controller.of(Widget)
            .watches(SECRET, to=to_widgets, labels="a", drop=["data"])
            .watches(SECRET, to=to_widgets, labels="b")
        ),
        "is declared twice with other drop or transform",
    ),
    "owned and watched": (
        lambda: kv.Controller.of(Widget).owns(SECRET, drop=["data"]).watches(SECRET, to=to_widgets),
        "declare metadata_only and drop alike in .owns and .watches",
    ),
    "owned and transformed": (
        lambda: kv.Controller.of(Widget).owns(SECRET).watches(SECRET, to=to_widgets, transform=shorten),
        "without transform, or watch the kind in another controller",
    ),
    "pause": (
        lambda: kv.Controller.of(CONFIG_MAP, drop=[NOTES]).pausable("example.com/notes"),
        "needs the annotation, which drop names",
    ),
    "conditions": (
        lambda: kv.Controller.of(CONFIG_MAP, drop=["status"]).invalid_as("Blocked", "Invalid"),
        r".invalid_as is about the status of ConfigMap, which Controller.of\(..., drop=\[...\]\) keeps out of the cache",
    ),
}


@pytest.mark.parametrize(("declare", "problem"), DECLARE.values(), ids=DECLARE)
def test_a_declaration_that_cannot_work_is_refused_with_the_remedy(declare: Callable[[], object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        declare()


async def test_a_model_with_a_dropped_field_cannot_read_the_cache(lab: Lab) -> None:
    controller = kv.Controller.of(Widget).watches(CONFIG_MAP, to=to_widgets, drop=["data.large"])
    manager = await lab.start(lambda manager: manager.add(controller.reconciled_by(reading([]))))
    with pytest.raises(UsageError, match=r"the cache of ConfigMap drops data\.large, and Settings has this field"):
        manager.cache(kv.kind("v1", "ConfigMap", model=Settings))
