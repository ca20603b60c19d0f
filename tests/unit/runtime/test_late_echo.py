"""A controller's own status that arrives only after the barrier has timed out is news, and no echo: found by the lab (`make mutants`)."""

from __future__ import annotations

from collections.abc import Iterable

import konverge as kv
from konverge_testing.lab import Lab
from konverge_testing.lab.plans import Plan, Timed
from konverge_testing.lab.runs import run

SECRET = kv.kind("v1", "Secret")


class LampSpec(kv.Model):
    watts: int = 1


@kv.resource("late.example.com/v1", conditions=("Ready",))
class Lamp(kv.CustomResource[LampSpec, kv.Status]):
    """A lamp that shines while a Secret exists."""


class LampReconciler:
    async def reconcile(self, lamp: Lamp, ctx: kv.Context[Lamp]) -> kv.Outcome:
        there = ctx.cache(SECRET).find(lamp.namespace, "switch") is not None
        ctx.status.set_condition("Ready", there, "On" if there else "Off", "as the switch says")
        return kv.Done()


def lamps(secret: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Lamp).keys(secret.namespace)


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Lamp).watches(SECRET, to=lamps, metadata_only=True).reconciled_by(LampReconciler()))


async def switched(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(SECRET.new("switch"))
    await lab.create(Lamp.new("hall", spec=LampSpec()))
    await lab.until(Lamp, "hall", kv.is_true("Ready"))
    await lab.delete(SECRET, "switch")
    await lab.until(Lamp, "hall", kv.is_false("Ready"))
    await lab.create(SECRET.new("switch"))
    await lab.until(Lamp, "hall", kv.is_true("Ready"))


def test_status_event_after_a_barrier_timeout_enqueues_the_object() -> None:
    match = {"verbs": ["watch"], "resources": ["lamps.late.example.com"], "user_agent": "lab *"}
    # Lines of the watch: the end of an empty list, created, Ready, not Ready. The last line is delayed for longer than the barrier waits.
    rule = {"match": match, "fault": {"type": "freeze", "lines": 3, "seconds": 20.0}, "count": 1}
    disturbed = run(switched, Plan(name="its second status comes 20 s late", rules=(Timed(rule=rule),)))
    assert disturbed.problems == []
