"""The filter of own applies of children, `.owns(KIND, own_writes=False)`: only the events of own applies do not enqueue the owner."""

from typing import Any

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge.kinds import kind
from konverge.runtime.consistency.own_writes import only_own_apply
from konverge_testing import Lab

pytestmark = pytest.mark.lab_on("memory")

CONFIG_MAP = kind("v1", "ConfigMap")


class Owner:
    """Applies one ConfigMap for each widget and keeps the reasons of each reconcile."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def reconcile(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        self.reasons.append("; ".join(ctx.reasons))
        child = CONFIG_MAP.new("one", w.metadata.namespace)
        child.data["data"] = {"parts": str(w.spec.parts)}
        await ctx.own(child)
        return kv.Done()


async def started(lab: Lab, *, own_writes: bool) -> Owner:
    owner = Owner()
    spec = kv.Controller.of(Widget).owns(CONFIG_MAP, own_writes=own_writes)
    await lab.start(lambda manager: manager.add(spec.reconciled_by(By(owner.reconcile))))
    await lab.create(widget("one", parts=1))
    await lab.settled()
    await lab.patch(Widget, "one", {"spec": {"parts": 2}})
    await lab.settled()
    return owner


async def test_events_of_own_applies_enqueue_nothing_if_declared_so(lab: Lab) -> None:
    owner = await started(lab, own_writes=False)
    assert owner.reasons == ["created", "changed"]


async def test_without_the_declaration_the_events_of_own_applies_enqueue_the_owner(lab: Lab) -> None:
    owner = await started(lab, own_writes=True)
    assert any(reason.startswith("owned ConfigMap") for reason in owner.reasons), owner.reasons


@pytest.mark.parametrize(
    "change",
    [{"data": {"parts": "9"}}, {"data": {"more": "x"}}, {"metadata": {"labels": {"touched": "yes"}}}],
    ids=["a value that we own", "another value", "a label"],
)
async def test_a_change_of_another_writer_enqueues_the_owner(lab: Lab, change: dict[str, Any]) -> None:
    owner = await started(lab, own_writes=False)
    await lab.patch(CONFIG_MAP, "one", change)
    await lab.settled()
    assert len(owner.reasons) == 3
    assert owner.reasons[-1].startswith("owned ConfigMap")


async def test_a_deleted_child_enqueues_the_owner_which_makes_it_again(lab: Lab) -> None:
    owner = await started(lab, own_writes=False)
    await lab.delete(CONFIG_MAP, "one")
    await lab.settled()
    assert len(owner.reasons) == 3
    assert (await lab.get(CONFIG_MAP, "one")).data["data"] == {"parts": "2"}


BEFORE: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"k": "v", "theirs": "x"}}
INTENT: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"k": "w"}}


@pytest.mark.parametrize(
    ("after", "own"),
    [
        pytest.param({"data": {"k": "w", "theirs": "x"}}, True, id="our value alone"),
        pytest.param({"data": {"k": "w", "theirs": "y"}}, False, id="a value of another writer too"),
        pytest.param({"data": {"k": "w"}}, False, id="a field is gone"),
        pytest.param({"data": {"k": "w", "theirs": "x"}, "status": {"used": 1}}, False, id="a status came"),
    ],
)
def test_an_apply_is_our_own_change_if_nothing_else_changed(after: dict[str, Any], own: bool) -> None:
    stored = {"metadata": {"name": "a", "resourceVersion": "2", "generation": 2}, **after}
    assert only_own_apply(BEFORE, stored, INTENT) is own
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"touched": "yes"}}}
    assert not only_own_apply(BEFORE, labelled, INTENT)
