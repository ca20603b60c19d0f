"""Work that only the resync does, and errors without a report, are findings: in the undisturbed run and under plans."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, part, widget

import konverge as kv
from konverge.errors import ApiError, NotFound
from konverge_testing import Lab
from konverge_testing.lab import Plan, explore
from konverge_testing.lab.explore import Mode
from konverge_testing.lab.runs import run

Scenario = Callable[[Lab], Awaitable[None]]
RESYNC = 40_000.0
"""Virtual seconds in which the first resync falls."""
OTHER = kv.kind("v1", "ServiceAccount")


def controller(reconcile: Any) -> kv.Controller[Any]:
    reads = kv.Rule("", ("serviceaccounts",), ("get",))
    return kv.Controller.of(Widget).owns(CONFIG_MAP).needs(reads).reconciled_by(By(reconcile))


def plan(fault: dict[str, Any], *, nth: int = 1) -> Plan:
    rule = {"match": {"verbs": ["write"], "user_agent": "lab *"}, "fault": fault, "count": 1}
    return Plan.from_json(json.dumps({"name": "a plan", "rules": [{"rule": rule, "after": nth - 1}]}))


async def ready(w: Widget, ctx: kv.Context[Widget], reason: str = "Made") -> kv.Outcome:
    ctx.status.set_condition("Ready", True, reason, str(w.spec.parts))
    return kv.Done()


# --- the resync ------------------------------------------------------------------------------------------------------------------


async def reads_what_it_does_not_watch(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    account = await ctx.live(OTHER).find(w.namespace, "needed")
    if account is not None:
        await ctx.own(part(0, w.namespace))
    return await ready(w, ctx)


def unwatched(allow: Callable[[Lab], None] = lambda _: None) -> Scenario:
    async def scenario(lab: Lab) -> None:
        allow(lab)
        await lab.start(lambda manager: manager.add(controller(reads_what_it_does_not_watch)))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
        await lab.create(OTHER.new("needed"))
        await lab.until(CONFIG_MAP, "part-0", lambda _: True, timeout=RESYNC)

    return scenario


def test_work_that_only_the_resync_does_is_a_finding() -> None:
    [problem] = run(unwatched(), Plan(name="reference")).problems
    assert problem.startswith("widget lab/one: only the resync did what was left to do (added configmaps lab/part-0)")


@pytest.mark.parametrize("mode", ["quick", "full"])
def test_both_modes_find_work_that_only_the_resync_does(mode: Mode) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.start(lambda manager: manager.add(controller(reads_what_it_does_not_watch)))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
        await lab.create(OTHER.new("needed"))

    [failure] = explore(scenario, mode=mode, budget=0.0).failures
    assert "widget lab/one: only the resync did what was left to do (added configmaps lab/part-0)" in failure.text()


def test_a_scenario_may_allow_work_of_the_resync_with_a_reason() -> None:
    allowed = unwatched(lambda lab: lab.may_write_on_resync(Widget, why="accounts are compared at each resync"))
    result = run(allowed, Plan(name="reference"))
    assert result.problems == []
    assert result.allowed == ("Widget: accounts are compared at each resync",)


def test_an_allowance_for_another_kind_does_not_hide_the_finding() -> None:
    other = unwatched(lambda lab: lab.may_write_on_resync(CONFIG_MAP, why="it is about another kind"))
    assert len(run(other, Plan(name="reference")).problems) == 1


def test_a_resync_without_a_change_passes() -> None:
    async def repeats(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(part(0, w.namespace))
        return await ready(w, ctx)

    async def scenario(lab: Lab) -> None:
        await lab.start(lambda manager: manager.add(controller(repeats)))
        await lab.create(widget())
        await asyncio.sleep(RESYNC)

    assert run(scenario, Plan(name="reference")).problems == []


# --- errors that nothing reports -------------------------------------------------------------------------------------------------


async def swallows(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    try:
        await ctx.own(part(w.spec.parts, w.namespace))
        await ready(w, ctx)
    except Exception:  # the mistake
        pass
    return kv.Done()


async def swallows_of_the_client(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    try:
        await ctx.client.apply(CONFIG_MAP, part(w.spec.parts, w.namespace).to_dict(), force=True)
        await ready(w, ctx)
    except ApiError:
        pass
    return kv.Done()


async def swallows_of_a_task(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    results = await asyncio.gather(ctx.own(part(w.spec.parts, w.namespace)), return_exceptions=True)
    if not any(isinstance(result, Exception) for result in results):
        await ready(w, ctx)
    return kv.Done()


async def raises(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(part(w.spec.parts, w.namespace))
    return await ready(w, ctx)


async def requeues(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    try:
        return await raises(w, ctx)
    except ApiError:
        return kv.RequeueAfter(5)


async def reports(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    try:
        return await raises(w, ctx)
    except ApiError as error:
        ctx.status.set_condition("Ready", False, "NotWritten", str(error))
        return kv.Done()


async def tolerates_a_conflict(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    try:
        await ctx.client.create(part(0, w.namespace))
    except kv.AlreadyExists:
        pass
    try:
        await ctx.client.patch(CONFIG_MAP, "absent", w.namespace, patch={"data": {"a": "b"}}, style="merge")
    except NotFound:
        pass
    return await ready(w, ctx)


def changed(reconcile: Any, allow: Callable[[Lab], None] = lambda _: None) -> Scenario:
    """Return a scenario that edits a widget, as soon as it is ready, and waits for nothing."""

    async def scenario(lab: Lab) -> None:
        allow(lab)
        await lab.start(lambda manager: manager.add(controller(reconcile)))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
        await lab.patch(Widget, "one", {"spec": {"parts": 7}})
        await asyncio.sleep(60)

    return scenario


REMEDY = "let it be raised, return RequeueAfter, or report it in a condition (lab.may_stay_silent allows it)"
SILENT = ", the reconcile returned Done, and no condition changed: the error is swallowed"


@pytest.mark.parametrize("status", [403, 422, 500, 503])
@pytest.mark.parametrize("reconcile", [swallows, swallows_of_the_client, swallows_of_a_task])
def test_a_swallowed_error_of_a_write_is_a_finding(reconcile: Any, status: int) -> None:
    refused = {"type": "refuse", "status": status}
    rule = {"match": {"verbs": ["write"], "resources": ["configmaps"], "user_agent": "lab *"}, "fault": refused}
    some = {"name": "a plan", "rules": [{"rule": rule, "after": 2, "seconds": 600}]}
    problems = run(changed(reconcile), Plan.from_json(json.dumps(some))).problems
    assert [problem for problem in problems if SILENT in problem] == [
        f"widget lab/one: apply configmaps lab/part-7 failed with {status}{SILENT}; {REMEDY}"
    ]


@pytest.mark.parametrize("reconcile", [raises, requeues, reports, tolerates_a_conflict])
@pytest.mark.parametrize(
    "fault", [{"type": "refuse", "status": 422}, {"type": "refuse", "status": 503}, {"type": "drop"}]
)
def test_an_error_that_is_reported_or_retried_passes(reconcile: Any, fault: dict[str, Any]) -> None:
    for nth in (1, 3):
        problems = run(changed(reconcile), plan(fault, nth=nth)).problems
        assert [problem for problem in problems if SILENT in problem] == []


def test_an_error_that_stays_reported_passes_at_each_reconcile() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.start(lambda manager: manager.add(controller(reports)))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
        await lab.patch(Widget, "one", {"spec": {"parts": -7}})  # part--7 is a valid name, and the write is rejected
        for number in range(3):
            await lab.patch(Widget, "one", {"metadata": {"labels": {"n": str(number)}}})
            await asyncio.sleep(5)

    refused = {"type": "refuse", "status": 403}
    rule = {"match": {"verbs": ["write"], "resources": ["configmaps"], "user_agent": "lab *"}, "fault": refused}
    some = {"name": "a plan", "rules": [{"rule": rule, "after": 2, "seconds": 600}]}
    problems = run(scenario, Plan.from_json(json.dumps(some))).problems
    assert [problem for problem in problems if SILENT in problem] == []


def test_a_scenario_may_allow_silence_with_a_reason() -> None:
    allowed = changed(swallows, lambda lab: lab.may_stay_silent(Widget, why="a part is a record for people"))
    rule = {
        "match": {"verbs": ["write"], "resources": ["configmaps"], "user_agent": "lab *"},
        "fault": {"type": "refuse", "status": 422},
    }
    some = {"name": "a plan", "rules": [{"rule": rule, "after": 2, "seconds": 600}]}
    result = run(allowed, Plan.from_json(json.dumps(some)))
    assert [problem for problem in result.problems if SILENT in problem] == []
    assert result.allowed == ("Widget: a part is a record for people",)
