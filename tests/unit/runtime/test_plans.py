"""Plans: `ctx.execute` carries out each field of a plan, in the order of the fields."""

from collections.abc import Callable

import pytest
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.kinds import kind
from konverge_testing import Lab

EVENT = kind("events.k8s.io/v1", "Event")
SHARED = "shared"


async def execute_once(lab: Lab, plan_of: Callable[[Widget, kv.Object], kv.Plan[kv.Status]]) -> tuple[str, ...]:
    """Execute one plan; returns the writes, or the name of the error in one tuple."""
    writes: list[tuple[str, ...]] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        read = await ctx.live(CONFIG_MAP).get(w.namespace, SHARED)
        try:
            await ctx.execute(plan_of(w, read))
        except kv.ApiError as error:
            writes.append((type(error).__name__,))
            return kv.Done()
        writes.append(tuple(ctx.trace.writes))
        return kv.Done()

    rights = kv.Rule("", ("configmaps",), ("create", "get", "patch", "delete"))
    controller = kv.Controller.of(Widget).owns(CONFIG_MAP).needs(rights).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(CONFIG_MAP.new(SHARED, data={"by": "another client"}))
    await lab.create(widget())
    await lab.settled()
    return writes[0]


async def test_a_plan_is_carried_out_in_the_order_of_its_fields(lab: Lab) -> None:
    def plan(w: Widget, read: kv.Object) -> kv.Plan[kv.Status]:
        return kv.Plan(
            deletes=(kv.Delete(CONFIG_MAP, "absent", w.namespace),),
            patches=(kv.Patch(CONFIG_MAP, {"data": {"and": "a plan"}}, expect=read),),
            applies=(kv.Apply(CONFIG_MAP.new("free", w.namespace)),),
            children=(CONFIG_MAP.new("child", w.namespace),),
            set_conditions=(kv.ConditionUpdate("Ready", True, "Planned"),),
        )

    named = [f"{verb} ConfigMap {lab.namespace}/{name}" for verb, name in
             (("apply", "child"), ("apply", "free"), ("patch", SHARED), ("delete", "absent"))]  # fmt: skip
    assert await execute_once(lab, plan) == tuple(named)
    free, shared = await lab.get(CONFIG_MAP, "free"), await lab.get(CONFIG_MAP, SHARED)
    assert (free.metadata.owner_references, shared.get("data")) == ((), {"by": "another client", "and": "a plan"})


@pytest.mark.parametrize("verb", ["patch", "delete"])
async def test_a_planned_write_of_another_version_ends_the_execution(lab: Lab, verb: str) -> None:
    def plan(w: Widget, read: kv.Object) -> kv.Plan[kv.Status]:
        old = kv.Metadata(name=SHARED, namespace=w.namespace, uid=read.metadata.uid, resource_version="1")
        return kv.Plan(
            patches=(kv.Patch(CONFIG_MAP, {"data": {"by": "a plan"}}, expect=old),) if verb == "patch" else (),
            deletes=(kv.Delete(CONFIG_MAP, expect=old),) if verb == "delete" else (),
            set_conditions=(kv.ConditionUpdate("Ready", True, "Planned"),),
        )

    assert await execute_once(lab, plan) == ("ObjectChanged",)
    assert (await lab.get(CONFIG_MAP, SHARED)).get("data") == {"by": "another client"}
    assert (await lab.get(Widget, "one")).find_condition("Ready") is None


async def test_a_planned_event_replaces_the_event_of_the_transition(lab: Lab) -> None:
    def plan(_: Widget, read: kv.Object) -> kv.Plan[kv.Status]:
        return kv.Plan(
            events=(
                kv.PlannedEvent("Planned", "the plan's own text"),
                kv.PlannedEvent("Seen", "a plan read it", kind=CONFIG_MAP, about=read.metadata),
            ),
            set_conditions=(kv.ConditionUpdate("Ready", True, "Planned", "the condition's text"),),
        )

    await execute_once(lab, plan)
    events = (await lab.client.list(EVENT, lab.namespace)).items
    notes = [(event.get("regarding", "kind"), event.get("reason"), event.get("note")) for event in events]
    assert sorted(notes) == [
        ("ConfigMap", "Seen", "a plan read it"),
        ("Widget", "Planned", "the plan's own text"),
    ]
