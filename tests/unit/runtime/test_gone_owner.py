"""A deleted object that the cache still shows: the garbage collector deletes each child of it, and no child is recreated."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from widgets import CONFIG_MAP, By, Widget, part, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Drop, Match, Refuse, Rule

pytestmark = pytest.mark.lab_on("memory")

WIDGETS: Final = ("widgets.tests.konverge.dev",)
WATCH: Final = Rule(Match(verbs=("watch",), resources=WIDGETS, user_agent="lab *"), Drop(watches=True))


async def make_parts(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    """Own parts, with a status that never differs."""
    for number in range(owner.spec.parts):
        await ctx.own(part(number, owner.namespace))
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


async def started(lab: Lab) -> Counter[str]:
    """Run the operator with a Ready object; returns the later creations of each part."""
    controller = kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(make_parts))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget(parts=2))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.settled()
    made = Counter[str]()

    def count(event: Any) -> None:
        if event.type == "ADDED" and event.entry.name.startswith("part-"):
            made[event.entry.name] += 1

    lab.server.store.subscribe(("", "configmaps"), count)
    return made


async def replaced(lab: Lab, fate: str) -> None:
    """Let another client delete the object, or replace it by a new object of its name."""
    match fate:
        case "deleted":
            await lab.client.delete(Widget, "one", lab.namespace)
        case "made anew":
            await lab.client.delete(Widget, "one", lab.namespace)
            await lab.create(widget(parts=2))
        case "being deleted":
            finalizers = {"metadata": {"finalizers": ["tests.konverge.dev/other"]}}
            await lab.patch(Widget, "one", finalizers)
            await lab.client.delete(Widget, "one", lab.namespace, propagation="Foreground")


@pytest.mark.parametrize("fate", ["deleted", "being deleted", "made anew"])
async def test_children_of_a_deleted_owner_are_not_recreated_during_watch_outages(lab: Lab, fate: str) -> None:
    made = await started(lab)
    cut = lab.server.faults.add(WATCH)
    await replaced(lab, fate)
    await asyncio.sleep(20)
    assert max(made.values(), default=0) <= 2, made
    lab.server.faults.remove(cut)
    if fate == "made anew":
        await lab.until(Widget, "one", kv.is_true("Ready"))
        found = await lab.client.get(Widget, "one", lab.namespace)
        for number in range(2):
            child = await lab.client.get(CONFIG_MAP, f"part-{number}", lab.namespace)
            assert child.metadata.controller is not None
            assert child.metadata.controller.uid == found.metadata.uid
    else:
        await asyncio.sleep(60)
        assert not [one for one in (await lab.client.list(CONFIG_MAP, lab.namespace)).items if "part" in one.name]


async def test_child_that_another_client_deletes_repeatedly_is_recreated_each_time(lab: Lab) -> None:
    made = await started(lab)
    for number in range(1, 6):
        await lab.client.delete(CONFIG_MAP, "part-0", lab.namespace)
        await lab.settled()
        assert made == {"part-0": number}


async def test_the_owner_is_read_only_for_a_child_deleted_soon_after_creation(lab: Lab) -> None:
    reads = list[str]()
    made = await started(lab)

    def note(_: Any, about: Any, __: Any) -> None:
        if about.verb == "get" and about.resource == "widgets" and about.user_agent.startswith("lab "):
            reads.append(about.name)

    await asyncio.sleep(60)
    lab.server.on_call.append(note)
    for number, expected in ((1, []), (2, ["one"])):
        await lab.client.delete(CONFIG_MAP, "part-0", lab.namespace)
        await lab.settled()
        assert (made, reads) == ({"part-0": number}, expected)


async def test_a_long_outage_costs_one_creation_of_a_child(lab: Lab) -> None:
    made = await started(lab)
    await asyncio.sleep(60)
    lab.server.faults.add(WATCH)
    await lab.client.delete(Widget, "one", lab.namespace)
    await asyncio.sleep(120)
    assert set(made.values()) == {1}, made


async def test_without_the_right_to_get_the_owner_a_child_is_made_again(lab: Lab) -> None:
    made = await started(lab)
    lab.server.faults.add(Rule(Match(verbs=("get",), resources=WIDGETS, user_agent="lab *"), Refuse(status=403)))
    for number in range(1, 4):
        await lab.client.delete(CONFIG_MAP, "part-0", lab.namespace)
        await lab.settled()
        assert made == {"part-0": number}


async def apply_to_itself(owner: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.apply(widget("one", mode="chosen"), force=True)


async def patch_itself(owner: Widget, ctx: kv.Context[Widget]) -> None:
    await ctx.patch(Widget, owner.name, owner.namespace, patch={"spec": {"mode": "chosen"}})


@pytest.mark.parametrize("write", [apply_to_itself, patch_itself])
@pytest.mark.parametrize("fate", ["deleted", "made anew"])
async def test_write_to_a_deleted_or_replaced_object_changes_and_creates_nothing_else(
    lab: Lab, fate: str, write: Callable[[Widget, kv.Context[Widget]], Awaitable[None]]
) -> None:
    runs, errors, writes = list[str](), set[type[Exception]](), asyncio.Event()

    async def choose(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        runs.append(owner.uid)
        if writes.is_set():
            try:
                await write(owner, ctx)
            except kv.ApiError as error:
                errors.add(type(error))
                raise
        return kv.RequeueAfter(1)

    controller = kv.Controller.of(Widget).needs(kv.Rule("tests.konverge.dev", ("widgets",), ("create", "patch")))
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(choose))))
    first = await lab.create(widget())
    await lab.settled()
    lab.server.faults.add(WATCH)
    await lab.client.delete(Widget, "one", lab.namespace)
    if fate == "made anew":
        await lab.create(widget(mode="theirs"))
    runs.clear()
    writes.set()
    await asyncio.sleep(10)
    assert set(runs) == {first.metadata.uid}
    assert errors == {kv.NotFound if fate == "deleted" and write is patch_itself else kv.Conflict}
    modes = [one.spec.mode for one in (await lab.client.list(Widget, lab.namespace)).items]
    assert modes == (["theirs"] if fate == "made anew" else [])
