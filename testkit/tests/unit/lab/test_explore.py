"""Exploring: the reference and its seeds, plans within a budget, shrinking, and the report."""

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, numbered, part, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.lab import Crash, Plan, Timed, explore
from konverge_testing.lab.budget import CpuBudget
from konverge_testing.lab.explore import QUICK
from konverge_testing.lab.planning import Planned, kind_of_fault
from konverge_testing.lab.runs import run

pytestmark = pytest.mark.slow


async def careful(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(part(7, owner.namespace))
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


def scenario(reconcile: Any) -> Any:
    async def play(lab: Lab) -> None:
        await lab.start(
            lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(reconcile)))
        )
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))

    return play


CRASH = Plan(name="crash after write 1", crashes=(Crash(write=1),))
LATE: dict[str, Any] = {"match": {"verbs": ["watch"]}, "fault": {"type": "bookmarks", "do": "omit"}}


def test_a_bug_between_two_writes_is_found_by_a_crash_there() -> None:
    report = explore(scenario(numbered), only=[CRASH])
    assert not report.passed
    [failure] = report.failures
    assert "the end state differs: configmaps lab/part-1 is there and should not be" in failure.problems
    text = report.text()
    assert text.startswith("1 plans ran, 1 failed, 0 were pruned; ")
    assert "FAILED: crash after write 1" in text
    assert CRASH.to_json() in text
    assert "dies after its write #1" in text


def test_plans_with_the_same_first_problem_are_reported_once() -> None:
    again = Plan(name="again after write 1", crashes=(Crash(write=1),))
    text = explore(scenario(numbered), only=[CRASH, again]).text()
    assert text.count("FAILED: ") == text.count("  timeline:") == 1
    assert text.endswith("the same first problem under:\n    again after write 1")


def test_timeline_ends_at_the_first_write_missing_from_the_reference() -> None:
    [failure] = explore(scenario(numbered), only=[CRASH]).failures
    told = failure.text()
    assert "(the last line is the first write that the reference run did not make)" in told
    timeline = told.partition("  timeline:")[2].partition("  the plan, to replay")[0].rstrip().splitlines()
    assert timeline[-1].endswith("write  process      apply configmaps lab/part-1 #2")


def test_a_reconciler_without_the_bug_passes_the_same_plan() -> None:
    report = explore(scenario(careful), only=[CRASH])
    assert report.passed
    assert report.ran == 1
    assert report.line().startswith("1 plans ran, 0 failed")


def test_a_failing_plan_is_shrunk_to_what_it_needs() -> None:
    noise = tuple(Timed(rule=LATE, after=after) for after in (0, 1, 2))
    plan = Plan(name="everything at once", crashes=(*CRASH.crashes, Crash(write=40)), rules=noise)
    [failure] = explore(scenario(numbered), only=[plan]).failures
    assert failure.plan == Plan(name="everything at once", crashes=CRASH.crashes)


def test_a_shrunk_plan_fails_again_from_its_file() -> None:
    [failure] = explore(scenario(numbered), only=[CRASH]).failures
    [again] = explore(scenario(numbered), only=[Plan.from_json(failure.plan.to_json())]).failures
    assert again.problems == failure.problems
    assert again.run.timeline.text() == failure.run.timeline.text()


def skipping(pattern: str) -> Any:
    async def play(lab: Lab) -> None:
        lab.skip_plans(pattern, why="a test")
        await scenario(careful)(lab)

    return play


def test_a_pattern_of_skipped_plans_that_matches_none_fails_the_exploration() -> None:
    report = explore(skipping("crush *"), budget=0.0, strict=False)
    assert not report.passed
    [failure] = report.failures
    assert failure.problems == [
        "lab.skip_plans matches no plan: 'crush *'; the nearest is 'crash after write 1 (apply configmaps lab/part-7)'"
    ]


def test_pattern_without_matches_is_a_warning_if_a_chosen_plan_runs() -> None:
    report = explore(skipping("crush *"), only=[CRASH])
    assert report.passed
    assert report.shortfall.startswith("lab.skip_plans matches no plan: 'crush *'; the nearest is 'crash ")


def test_random_joins_of_plans_are_skipped_by_their_names_too() -> None:
    report = explore(skipping("random *"), mode="full", budget=0.0, strict=False)
    assert report.failures == []
    assert report.joined == 0
    assert {one.reason for one in report.pruned if one.plan.name.startswith("random ")} == {
        "the scenario skips it: a test"
    }


def test_no_plan_runs_if_the_reference_run_fails() -> None:
    async def broken(lab: Lab) -> None:
        raise AssertionError("nothing works")

    report = explore(broken)
    assert (report.ran, report.passed) == (0, False)
    assert report.failures[0].plan.name == "reference"


def test_end_state_that_depends_on_task_order_is_a_finding() -> None:
    runs = count(1)

    async def capricious(lab: Lab) -> None:
        await scenario(careful)(lab)
        await lab.create(part(100 + next(runs)))

    report = explore(capricious, only=[])
    assert {failure.plan.name for failure in report.failures} == {"reference, seed 1", "reference, seed 2"}
    assert "configmaps lab/part-102 is there and should not be" in report.failures[0].problems


def time_for(turns: int) -> Callable[[CpuBudget], bool]:
    """Return a `CpuBudget.left` that is True for this number of calls."""
    numbers = count(1)
    return lambda _: next(numbers) <= turns


def test_plans_beyond_the_budget_are_counted() -> None:
    report = explore(scenario(careful), budget=0.0)
    assert report.ran == 0
    assert report.left > 50
    assert f"{report.left} were left for want of time" in report.line()


@pytest.mark.parametrize(
    "words", [{}, {"only": []}, {"budget": 0.0}], ids=["without a manager", "without a plan", "without time"]
)
def test_an_exploration_that_ran_no_plan_does_not_pass(words: dict[str, Any]) -> None:
    async def nothing(lab: Lab) -> None:
        await lab.create(part(1))

    report = explore(scenario(careful) if words else nothing, strict=False, **words)
    assert (report.ran, report.failures, report.passed) == (0, [], False)
    assert f"INCOMPLETE: {report.shortfall}" in report.text()


@pytest.mark.parametrize(("ci", "passes"), [("true", False), ("", True), ("false", True)])
def test_plans_skipped_for_time_fail_the_exploration_only_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, passes: bool
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(CpuBudget, "left", time_for(3))
    report = explore(scenario(careful), mode="full", budget=1.0)
    assert report.ran > 0
    assert report.failures == []
    assert report.passed is passes
    assert "give a larger --lab-budget" in report.shortfall


def test_random_joins_skipped_for_time_in_full_mode_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    explored = import_module("konverge_testing.lab.explore")
    monkeypatch.setattr(explored, "plans_of", lambda *_, **__: Planned((CRASH, CRASH, CRASH, CRASH), ()))
    monkeypatch.setattr(CpuBudget, "left", time_for(6))
    report = explore(scenario(careful), mode="full", strict=True)
    assert report.passed
    assert (report.left, report.shortfall) == (0, "")
    assert report.joined > 100
    assert f"{report.joined} random joins of plans did not fit into the time, by design" in report.line()


def drawn(monkeypatch: pytest.MonkeyPatch, **words: Any) -> list[Plan]:
    """Return the plans that an exploration would run, in their order."""
    order: list[Plan] = []

    def noted(_scenario: Any, _reference: Any, plans: list[Plan], *_: Any, **__: Any) -> Iterator[Any]:
        order.extend(plans)
        return iter(())

    monkeypatch.setattr(import_module("konverge_testing.lab.explore"), "_outcomes", noted)
    explore(scenario(careful), **words)
    return order


def test_the_order_of_plans_is_drawn_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, other = (
        [plan.name for plan in drawn(monkeypatch, seed=seed, mode="quick", budget=1.0)] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)


def test_quick_mode_runs_a_fixed_number_of_plans_with_every_fault_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, every = drawn(monkeypatch, mode="quick"), drawn(monkeypatch, mode="full")
    assert len(chosen) == QUICK
    assert chosen == every[:QUICK]
    planned = [plan for plan in every if not plan.name.startswith("random ")]
    assert {kind_of_fault(plan) for plan in chosen} == {kind_of_fault(plan) for plan in planned}


def test_expensive_scenario_runs_fewer_plans_in_quick_and_all_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    every = drawn(monkeypatch, mode="full")
    assert drawn(monkeypatch, mode="quick", quick=7) == every[:7]
    assert drawn(monkeypatch, mode="full", quick=7) == every


def test_the_plans_that_quick_leaves_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("konverge_testing.lab.explore"), "QUICK", 0)
    report = explore(scenario(careful))
    assert (report.ran, report.left) == (0, 0)
    assert report.beyond > 50
    assert f"{report.beyond} were left to the full mode by design" in report.line()


def test_fault_kinds_that_quick_mode_skips_are_counted_and_named() -> None:
    few, many = (explore(scenario(careful), quick=number) for number in (3, QUICK))
    assert len(few.untried) > 3
    assert f"left to the full mode by design with all of {len(few.untried)} kinds of fault" in few.line()
    assert all(f"in full mode only: {kind}" in few.listing() for kind in few.untried)
    assert many.untried == ()
    assert "kinds of fault" not in many.line()


@pytest.mark.parametrize("prune", [True, False])
def test_pruned_plans_are_listed_and_run_on_request(prune: bool) -> None:
    """A write that changed nothing in the reference run has plans that are pruned."""
    report = explore(scenario(careful), budget=0.0, prune=prune)
    assert report.pruned
    assert all(one.reason for one in report.pruned)
    assert f"{len(report.pruned)} were pruned" in report.line()


def test_without_pruning_the_pruned_plans_run_too() -> None:
    pruned, whole = (explore(scenario(careful), budget=0.0, prune=prune) for prune in (True, False))
    assert whole.left == pruned.left + sum(1 for one in pruned.pruned if one.plan.faults)


async def skips_what_it_holds_for_done(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    if w.status.observed_generation == w.metadata.generation:
        return kv.Done()  # the mistake: a deleted or edited child is not repaired
    for number in range(2):
        await ctx.own(part(number, w.namespace))
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


def test_quick_mode_starts_with_child_deletions_and_edits_after_last_write() -> None:
    report = explore(scenario(skips_what_it_holds_for_done), quick=7)
    assert sorted(failure.plan.name for failure in report.failures) == [
        f"configmaps lab/part-{number}: delete by hand after write 3" for number in (0, 1)
    ]


async def takes_the_first_of_a_list(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    chosen = w.status.note or ctx.cache(CONFIG_MAP).list(w.namespace)[0].name  # the mistake: no order is promised
    ctx.status.draft.note = chosen
    ctx.status.set_condition("Ready", True, "Chosen")
    return kv.Done()


async def takes_the_first_name(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.draft.note = min(found.name for found in ctx.cache(CONFIG_MAP).list(w.namespace))
    ctx.status.set_condition("Ready", True, "Chosen")
    return kv.Done()


@pytest.mark.parametrize(("reconcile", "passed"), [(takes_the_first_of_a_list, False), (takes_the_first_name, True)])
def test_a_choice_by_the_order_of_a_cached_list_is_found(reconcile: Any, passed: bool) -> None:
    async def chosen(lab: Lab) -> None:
        for number in range(6):
            await lab.create(part(number))
        await scenario(reconcile)(lab)

    report = explore(chosen, quick=1)
    assert report.passed is passed, report.text()
    assert passed or ".status.note:" in report.text()


READS: dict[str, Callable[[kv.Reader[Any]], list[str]]] = {
    "list": lambda reader: [found.name for found in reader.list("lab")],
    "list of all": lambda reader: [found.name for found in reader.list()],
    "keys": lambda reader: [key.name for key in reader.keys("lab")],
    "by_index": lambda reader: [found.name for found in reader.by_index("all", "yes")],
    "all_metadata": lambda reader: [found.name for found in reader.all_metadata("lab")],
    "metadata_by_index": lambda reader: [found.name for found in reader.metadata_by_index("all", "yes")],
}


@pytest.mark.parametrize("read", READS)
def test_each_read_of_several_cached_objects_has_an_order_of_its_own(read: str) -> None:
    orders = list[tuple[str, ...]]()

    async def reads(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        orders.extend(tuple(READS[read](ctx.cache(CONFIG_MAP))) for _ in range(5))
        return await careful(w, ctx)

    async def chosen(lab: Lab) -> None:
        for number in range(5):
            await lab.create(part(number))
        controller = kv.Controller.of(Widget).owns(CONFIG_MAP).indexes(CONFIG_MAP, "all", by=lambda _: ["yes"])
        await lab.start(lambda manager: manager.add(controller.reconciled_by(By(reads))))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))

    run(chosen, Plan(name="reference"))
    again = list(orders)
    orders.clear()
    run(chosen, Plan(name="reference"))
    assert orders == again
    assert len(set(orders[:5])) > 1
