"""A status belongs to the reconciled object, and is never written to a successor of the same name."""

from widgets import By, Widget, widget

import konverge as kv
from konverge_testing.lab import Foreign, Lab, Plan
from konverge_testing.lab.runs import run


async def mark_seen(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Seen")
    return kv.Done()


async def change_twice(lab: Lab) -> None:
    controller = kv.Controller.of(Widget).needs(kv.Rule("", ("configmaps",), ("create", "patch")))
    await lab.start(lambda manager: manager.add(controller.reconciled_by(By(slow))))
    await lab.create(widget("one"))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.patch(Widget, "one", {"spec": {"parts": 2}})
    await lab.until(Widget, "one", lambda found: found.status.observed_generation == found.metadata.generation)


async def slow(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    """Own a child first, so that time passes between the read and the status write."""
    await ctx.apply(kv.kind("v1", "ConfigMap").new(f"of-{w.name}", data={"generation": str(w.metadata.generation)}))
    return await mark_seen(w, ctx)


def test_a_recreated_object_is_never_given_the_status_of_its_predecessor() -> None:
    reference = run(change_twice, Plan(name="reference"))
    assert reference.problems == []
    second = [write.number for write in reference.timeline.writes() if "configmaps" in write.text][-1]
    foreign = Foreign(after=second, do="recreate", resource="widgets.tests.konverge.dev", namespace="lab", name="one")
    disturbed = run(change_twice, Plan(name="recreated in the middle of a pass", foreign=(foreign,)))
    assert not [problem for problem in disturbed.problems if "went back" in problem]
    status = disturbed.state["widgets.tests.konverge.dev lab/one"]["status"]
    assert status["observedGeneration"] == "current"
