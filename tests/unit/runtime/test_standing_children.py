"""A child that an equal comparison found unchanged is not compared again, and every change of a side of the comparison is found."""

from typing import Any
from unittest import mock

import pytest
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.errors import UsageError
from konverge.runtime.apply.applier import Applier
from konverge_testing import Lab

pytestmark = pytest.mark.lab_on("memory")


class Parent:
    """Owns one ConfigMap, whose intent a test changes."""

    def __init__(self) -> None:
        self.value = "v"
        self.adopt = False
        self.read: list[str] = []

    async def reconcile(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        child = CONFIG_MAP.new("child", w.namespace, data={"k": self.value})
        stored = await ctx.own(child, adopt=self.adopt)
        self.read.append(stored.get("data", "k"))
        stored.data["data"]["k"] = "spoiled"
        return kv.Done()


async def start(lab: Lab, parent: Parent) -> None:
    await lab.start(
        lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(parent.reconcile)))
    )
    await lab.settled()


async def resync(lab: Lab) -> None:
    lab.manager.runner("widget").resync_now()
    await lab.settled()


async def change(lab: Lab, parent: Parent, what: str) -> None:
    """Change a side of the comparison."""
    match what:
        case "nothing":
            await resync(lab)
        case "the intent":
            parent.value = "new"
            await resync(lab)
        case "adoption":
            parent.adopt = True
            await resync(lab)
        case "a value that we own":
            await lab.patch(CONFIG_MAP, "child", {"data": {"k": "theirs"}})
        case "the owner of a field":
            body = CONFIG_MAP.new("child", lab.namespace, data={"k": "v"}).to_dict()
            await lab.client.apply(CONFIG_MAP, body, manager="other", force=True)
            await resync(lab)
        case "the process":
            await lab.stop()
            await start(lab, parent)
    await lab.settled()


@pytest.mark.parametrize(
    ("what", "compared"),
    [
        ("nothing", False),
        ("the intent", True),
        ("adoption", True),
        ("a value that we own", True),
        ("the owner of a field", True),
        ("the process", True),
    ],
)
async def test_a_standing_child_is_compared_again_after_a_change_only(lab: Lab, what: str, compared: bool) -> None:
    parent = Parent()
    await start(lab, parent)
    await lab.create(widget())
    await lab.settled()
    await resync(lab)
    counted: Any = mock.Mock(wraps=None)
    plain = Applier.unchanged

    def unchanged(self: Applier, intent: Any, key: kv.Key, *rest: Any) -> Any:
        counted(key)
        return plain(self, intent, key, *rest)

    runs = len(parent.read)
    with mock.patch.object(Applier, "unchanged", unchanged):
        await change(lab, parent, what)
    assert len(parent.read) > runs
    assert bool(counted.call_count) == compared
    assert (await lab.get(CONFIG_MAP, "child")).get("data", "k") == parent.read[-1] == parent.value


@pytest.mark.parametrize("repaired", [None, "changed", "deleted"])
async def test_only_the_reconcile_that_applies_a_child_compares_it(lab: Lab, repaired: str | None) -> None:
    parent = Parent()
    await start(lab, parent)
    with mock.patch.object(Applier, "unchanged", autospec=True, side_effect=Applier.unchanged) as compared:
        await lab.create(widget())
        await lab.settled()
        assert compared.call_count == 1
        if repaired == "changed":
            await lab.patch(CONFIG_MAP, "child", {"data": {"k": "theirs"}})
        elif repaired == "deleted":
            await lab.delete(CONFIG_MAP, "child")
        await lab.settled()
        await resync(lab)
        assert compared.call_count == (1 if repaired is None else 2)
    assert (await lab.get(CONFIG_MAP, "child")).get("data", "k") == "v"


async def test_a_second_apply_of_a_standing_child_in_one_reconcile_is_refused(lab: Lab) -> None:
    refused = []

    async def twice(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        child = CONFIG_MAP.new("child", w.namespace, data={"k": "v"})
        await ctx.own(child)
        try:
            await ctx.own(child)
        except UsageError as error:
            refused.append(str(error))
        return kv.Done()

    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(twice))))
    await lab.create(widget())
    await lab.settled()
    await resync(lab)
    before = len(refused)
    await resync(lab)
    assert len(refused) == before + 1


@pytest.mark.parametrize("again", [lambda child: child, lambda child: kv.Object(child.to_dict())])
async def test_a_child_that_own_returned_can_be_applied_again(lab: Lab, again: Any) -> None:
    """The next reconcile takes the returned child, changed, as its intent."""
    returned: list[kv.Object] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        child = await ctx.own(CONFIG_MAP.new("child", w.namespace, data={"k": str(w.spec.parts)}))
        if returned:
            mine = again(returned[-1])
            mine.data["data"]["k"] = "from the returned child"
            mine.data["metadata"] = {"name": "second", "namespace": w.namespace}
            await ctx.own(mine)
        returned.append(child)
        return kv.Done()

    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(reconcile))))
    await lab.create(widget())
    await lab.settled()
    for _ in range(3):
        await resync(lab)
    assert (await lab.get(CONFIG_MAP, "child")).get("data", "k") == "0"
    assert (await lab.get(CONFIG_MAP, "second")).get("data", "k") == "from the returned child"
