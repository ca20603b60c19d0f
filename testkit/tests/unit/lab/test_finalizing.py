"""Plans that let calls of `finalize` raise, or interrupt them by a cancellation: the object stays until a call has really ended."""

import pytest
from receipts import FINALIZER, INTERRUPTIONS, next_number, reconcile, repeatable
from widgets import Widget, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.lab import Plan, explore
from konverge_testing.lab.runs import run


def test_a_scenario_with_a_finalizer_passes_if_its_finalize_can_be_repeated() -> None:
    report = explore(repeatable, only=INTERRUPTIONS)
    assert report.passed, report.text()
    assert report.reference.finalizes == ["Widget lab/one"] * 2


@pytest.mark.parametrize("plan", INTERRUPTIONS[4:8], ids=lambda plan: plan.name)
def test_an_interrupted_finalize_is_called_once_more_and_the_timeline_tells(plan: Plan) -> None:
    done = run(repeatable, plan)
    assert len(done.finalizes) == 3
    (fault,) = [entry.text for entry in done.timeline.entries if entry.kind == "fault"]
    assert fault == plan.interruptions[0].text


def test_interruption_at_its_end_reveals_a_finalize_that_cannot_repeat() -> None:
    report = explore(next_number, only=INTERRUPTIONS)
    assert {failure.plan.name for failure in report.failures} == {"raise after call 2", "cancel after call 2"}
    assert "receipt-1 is there and should not be" in report.text()


def test_a_finalize_that_runs_in_a_thread_is_not_disturbed() -> None:
    class InThread:
        async def reconcile(self, owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
            return await reconcile(owner, ctx)

        def finalize(self, owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
            return kv.Done()

    async def scenario(lab: Lab) -> None:
        spec = kv.Controller.of(Widget).finalizer(FINALIZER)
        await lab.start(lambda manager: manager.add(spec.reconciled_by(InThread())))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
        await lab.delete(Widget, "one")
        await lab.until_gone(Widget, "one")

    done = run(scenario, INTERRUPTIONS[0])
    assert (done.problems, done.finalizes) == ([], [])
