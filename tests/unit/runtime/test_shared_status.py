"""Two controllers that alternate at the status of one kind, a gate before a start, and owned kinds that wake only by what matters."""

from collections.abc import Iterable
from typing import Any

import pytest
from widgets import CONFIG_MAP, SECRET, By, Widget, widget

import konverge as kv
from konverge.client import Client
from konverge.errors import Unreachable, UsageError
from konverge.keys import Key
from konverge.kinds import kind
from konverge.objects import Object
from konverge.runtime import Caches, Rule, rules_of
from konverge_testing import Lab

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")


async def leave(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    """The widget's own controller, which has no report at the moment."""
    ctx.status.set_condition("Ready", False, "NotMyTurn")
    ctx.status.skip_write()
    return kv.Done()


def judges(secret: kv.Metadata, _: Caches) -> Iterable[Key]:
    return [Key("", CONFIG_MAP, secret.namespace, "judge")]


async def judge(judging: Object, ctx: kv.Context[Object]) -> kv.Outcome:
    """Copy the text of a ConfigMap into the status of the widget `one`."""
    found = ctx.cache(Widget).find(judging.namespace, "one")
    if found is None:
        return kv.Done()
    sent = await ctx.write_status(
        Widget,
        expect=kv.Metadata(
            name="one",
            namespace=judging.namespace,
            uid=found.uid,
            resource_version=judging.get("data", "version") or found.metadata.resource_version,
        ),
        status={"note": judging.get("data", "note"), "observedGeneration": found.generation},
    )
    if sent:
        ctx.event_about(Widget, found.metadata, "Judged", judging.get("data", "note"))
    return kv.Done()


def shop(reconcile: Any = judge) -> kv.Controller[Object]:
    return (
        kv.Controller.of(CONFIG_MAP)
        .named("judge")
        .watches(Widget, to=lambda found, _: [Key("", CONFIG_MAP, found.namespace, "judge")])
        .writes_status_of(Widget, "widget")
        .reconciled_by(By(reconcile))
    )


def own() -> kv.Controller[Widget]:
    return kv.Controller.of(Widget).writes_status_as("widget", shared=True).reconciled_by(By(leave))


def both(manager: kv.Manager, reconcile: Any = judge) -> None:
    manager.add(own())
    manager.add(shop(reconcile))


async def test_controller_writes_another_kinds_status_and_reports_it_in_an_event(lab: Lab) -> None:
    await lab.start(both)
    await lab.create(widget())
    await lab.create(CONFIG_MAP.new("judge", data={"note": "fine"}))
    found = await lab.until(Widget, "one", lambda found: found.status.note == "fine")
    await lab.settled()
    (entry,) = [
        one
        for one in (await lab.client.get(kind("tests.konverge.dev/v1", "Widget"), "one", lab.namespace)).get(
            "metadata", "managedFields"
        )
        if one.get("subresource") == "status"
    ]
    assert (entry["manager"], entry["operation"]) == ("lab.widget", "Apply")
    assert found.find_condition("Ready") is None, "the other writer left the status alone"
    events = (await lab.client.list(EVENT, lab.namespace)).items
    assert [(event.get("regarding", "name"), event.get("reason"), event.get("note")) for event in events] == [
        ("one", "Judged", "fine")
    ]
    record = lab.manager.runner("judge").history.recent()
    assert [write for one in record for write in one.writes] == [f"status of Widget {lab.namespace}/one"]


async def test_a_status_that_stands_already_is_not_sent_again(lab: Lab) -> None:
    await lab.start(both)
    await lab.create(widget())
    await lab.create(CONFIG_MAP.new("judge", data={"note": "fine"}))
    found = await lab.until(Widget, "one", lambda found: found.status.note == "fine")
    lab.manager.runner("judge").resync_now()
    await lab.settled()
    assert (await lab.get(Widget, "one")).metadata.resource_version == found.metadata.resource_version


async def test_status_is_not_written_over_changes_the_writer_has_not_seen(lab: Lab) -> None:
    met: list[BaseException] = []

    async def stale(judging: Object, ctx: kv.Context[Object]) -> kv.Outcome:
        try:
            return await judge(judging, ctx)
        except kv.ObjectChanged as error:
            met.append(error)
            return kv.Done()

    await lab.start(lambda manager: both(manager, stale))
    made = await lab.create(widget())
    await lab.patch(Widget, "one", {"spec": {"parts": 2}})
    await lab.create(CONFIG_MAP.new("judge", data={"note": "late", "version": made.metadata.resource_version}))
    await lab.settled()
    assert met
    assert (await lab.get(Widget, "one")).status.note is None


async def test_status_of_an_undeclared_kind_is_an_error_that_names_the_verb(lab: Lab) -> None:
    met: list[str] = []

    async def undeclared(judging: Object, ctx: kv.Context[Object]) -> kv.Outcome:
        try:
            await ctx.write_status(SECRET, expect=judging, status={})
        except UsageError as error:
            met.append(str(error))
        return kv.Done()

    await lab.start(lambda manager: both(manager, undeclared))
    await lab.create(CONFIG_MAP.new("judge"))
    await lab.settled()
    assert met
    assert "add .writes_status_of(SECRET, suffix) to it" in met[0]


def test_two_unshared_writers_of_a_status_are_refused_in_either_order() -> None:
    alone = kv.Controller.of(Widget).reconciled_by(By(leave))
    for first, second in ((alone, shop()), (shop(), alone)):
        manager = kv.Manager("shop")
        manager.add(first)
        with pytest.raises(UsageError, match=r"writes_status_as\('widget', shared=True\)"):
            manager.add(second)


def test_the_right_to_another_status_is_among_the_rules() -> None:
    assert Rule("tests.konverge.dev", ("widgets/status",), ("patch",)) in rules_of(shop())


async def test_a_controller_begins_only_once_its_gate_is_open(lab: Lab) -> None:
    answers: list[str | Exception] = ["move the old one out first", Unreachable("no route"), ""]
    asked: list[Client] = []

    async def gate(client: Client) -> str:
        asked.append(client)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ready(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.set_condition("Ready", True, "Fine")
        return kv.Done()

    controller = kv.Controller.of(Widget).starts_when(gate).reconciled_by(By(ready))
    manager = await lab.start(lambda manager: manager.add(controller), wait=False)
    await lab.create(widget())
    report = await manager.ready(timeout=5)
    assert "move the old one out first" in report.of("widget").why
    assert (await lab.get(Widget, "one")).find_condition("Ready") is None
    await lab.until(Widget, "one", kv.is_true("Ready"), timeout=90)
    assert len(asked) == 3
    assert manager.report().of("widget").ready


async def test_an_owned_kind_wakes_its_owner_only_by_changes_that_matter(lab: Lab) -> None:
    passes: list[str] = []

    async def make(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        passes.append(w.name)
        await ctx.own(CONFIG_MAP.new(w.name, data={"wanted": "yes"}))
        return kv.Done()

    def wanted_changed(change: Any) -> bool:
        sides = [side for side in (change.old, change.new) if side is not None]
        return len({(side.data().get("data") or {}).get("wanted") for side in sides}) > 1

    controller = kv.Controller.of(Widget).owns(CONFIG_MAP, when=wanted_changed).reconciled_by(By(make))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget())
    await lab.settled()
    before = len(passes)
    await lab.patch(CONFIG_MAP, "one", {"data": {"other": "thing"}})
    await lab.settled()
    assert len(passes) == before
    await lab.patch(CONFIG_MAP, "one", {"data": {"wanted": "no"}})
    await lab.until(CONFIG_MAP, "one", lambda found: found.get("data", "wanted") == "yes")


async def test_metadata_is_read_from_a_cache_without_the_bodies(lab: Lab) -> None:
    seen: list[tuple[list[str], list[str]]] = []

    async def look(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new(w.name))
        reader = ctx.cache(CONFIG_MAP)
        everything = sorted(found.name for found in reader.all_metadata(w.namespace))
        seen.append((everything, [found.name for found in reader.metadata_by_index("owner", w.uid)]))
        return kv.Done()

    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(look))))
    await lab.create(CONFIG_MAP.new("another"))
    await lab.create(widget())
    await lab.settled()
    names, owned = seen[-1]
    assert {"another", "one"} <= set(names)
    assert owned == ["one"]
