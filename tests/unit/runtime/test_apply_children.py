"""A set of children: it is applied in its order, reports whether anything was sent, and deletes what it does not name any more."""

import pytest
from widgets import CONFIG_MAP, SECRET, By, Widget, part, widget

import konverge as kv
from konverge_testing import Lab

pytestmark = pytest.mark.lab_on("memory")


class Sets:
    """Applies as many parts as the widget's spec has, and keeps the result of each reconcile."""

    def __init__(self) -> None:
        self.results: list[kv.Applied] = []

    async def reconcile(self, owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        parts = [kv.Child(part(number, owner.namespace), on_conflict=kv.HOLD) for number in range(owner.spec.parts)]
        self.results.append(await ctx.apply_children(parts))
        return kv.Done()


async def started(lab: Lab, parts: int) -> Sets:
    sets = Sets()
    controller = kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(sets.reconcile))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget(parts=parts))
    await lab.settled()
    return sets


async def names(lab: Lab) -> list[str]:
    return sorted(one.name for one in (await lab.client.list(CONFIG_MAP, lab.namespace)).items)


async def test_it_tells_whether_anything_was_sent_and_what_is_stored(lab: Lab) -> None:
    sets = await started(lab, 2)
    assert sets.results[0].changed
    assert [key.name for key in sets.results[0].keys] == ["part-0", "part-1"]
    found = sets.results[0].find(CONFIG_MAP, "part-1")
    assert found is not None
    assert found.data["data"] == {"number": "1"}
    assert sets.results[0].find(SECRET) is None
    sets.results.clear()
    await lab.patch(Widget, "one", {"metadata": {"labels": {"again": "1"}}, "spec": {"mode": "other"}})
    await lab.settled()
    assert [result.changed for result in sets.results] == [False]
    sets.results.clear()
    await lab.client.delete(CONFIG_MAP, "part-0", lab.namespace)
    await lab.settled()
    assert [result.changed for result in sets.results[:1]] == [True]


async def test_owned_children_outside_of_it_are_deleted_and_that_counts_as_sent(lab: Lab) -> None:
    sets = await started(lab, 3)
    await lab.create(CONFIG_MAP.new("part-9", lab.namespace))
    sets.results.clear()
    await lab.patch(Widget, "one", {"spec": {"parts": 1}})
    await lab.settled()
    assert await names(lab) == ["part-0", "part-9"]
    assert sets.results[0].changed


async def test_a_child_that_was_not_made_by_an_apply_is_deleted_too(lab: Lab) -> None:
    await started(lab, 2)
    owner = await lab.get(Widget, "one")
    reference = {"apiVersion": Widget.kind_of_resource().api_version, "kind": "Widget", "name": "one", "uid": owner.uid}
    about = {"name": "part-8", "ownerReferences": [{**reference, "controller": True}]}
    await lab.create(CONFIG_MAP.new("part-8", lab.namespace, metadata=about))
    await lab.settled()
    assert await names(lab) == ["part-0", "part-1"]


async def test_nothing_is_deleted_while_another_manager_holds_a_field_of_one(lab: Lab) -> None:
    sets = await started(lab, 3)
    theirs = CONFIG_MAP.new("part-0", lab.namespace, data={"number": "theirs"})
    await lab.client.apply(CONFIG_MAP, theirs.data, manager="theirs", force=True)
    await lab.settled()
    sets.results.clear()
    await lab.patch(Widget, "one", {"spec": {"parts": 1}})
    await lab.settled()
    assert await names(lab) == ["part-0", "part-1", "part-2"]
    (held,) = sets.results[0].held
    assert held.key.name == "part-0"
    assert not sets.results[0].changed
    await lab.client.apply(CONFIG_MAP, CONFIG_MAP.new("part-0", lab.namespace).data, manager="theirs")
    await lab.settled()
    assert await names(lab) == ["part-0"]
