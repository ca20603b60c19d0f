"""The status after a reconcile that raised: an error of the program drops its changes, a deliberate error keeps them."""

from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, part, widget

import konverge as kv
from konverge.errors import ForgottenAwait, NotAnOutcome, NotOurs
from konverge_testing import Lab


async def forget_await(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.own(part(0, w.namespace))
    return kv.Done()


async def return_nothing(_: Widget, __: kv.Context[Widget]) -> Any:
    return None


async def look_up(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    raise KeyError("nothing")


async def end_for_good(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    raise kv.Terminal("the volume is gone")


async def wait_a_while(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    raise kv.RetryAfter(3600, "the service is down")


async def meet_another_owner(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(part(0, w.namespace))
    return kv.Done()


async def be_refused(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(CONFIG_MAP.new("No Name", w.namespace))
    return kv.Done()


async def _after(lab: Lab, raising: Any) -> Widget:
    """Return a widget whose reconcile removed Ready, set Blocked and a field, and then raised."""

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if w.spec.mode == "plain":
            ctx.status.set_condition("Blocked", False, "NotYet")
            return kv.Done()
        ctx.status.set_condition("Blocked", True, "Set")
        ctx.status.draft.note = "set"
        outcome: kv.Outcome = await raising(w, ctx)
        return outcome

    await lab.create(part(0))
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(reconcile))))
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_false("Blocked"))
    await lab.patch(Widget, "one", {"spec": {"mode": "odd"}})
    await lab.settled()
    return await lab.get(Widget, "one")


@pytest.mark.parametrize(
    ("raising", "error"), [(forget_await, ForgottenAwait), (return_nothing, NotAnOutcome), (look_up, KeyError)]
)
async def test_a_mistake_of_the_program_drops_what_the_reconcile_set(
    lab: Lab, raising: Any, error: type[Exception]
) -> None:
    lab.expects(error)
    found = await _after(lab, raising)
    assert found.condition("Blocked").reason == "NotYet"
    assert found.status.note is None
    assert found.condition("Ready").reason == "ReconcileFailed"
    assert found.status.observed_generation == 1


@pytest.mark.parametrize(
    ("raising", "error"),
    [(end_for_good, None), (wait_a_while, None), (meet_another_owner, NotOurs), (be_refused, kv.ApiError)],
)
async def test_deliberate_errors_and_api_errors_keep_conditions_of_the_reconcile(
    lab: Lab, raising: Any, error: type[Exception] | None
) -> None:
    if error is not None:
        lab.expects(error)
    found = await _after(lab, raising)
    assert found.condition("Blocked").reason == "Set"
    assert found.status.note == "set"
    assert found.status.observed_generation == 1
