"""Every fault on one scenario: the reference run, its plans, and their results.

    report = explore(scenario, process="lab", mode="quick")
    assert report.passed, report.text()

Guarantees: the reference runs first, with several seeds; a difference between its runs is a finding of its own. Then plans run in an order
that the seed draws: one plan of each kind of fault precedes the second plan of any kind, and deletions and edits of children after the
last write are early. `quick` runs a fixed number of plans, so that a slow machine runs the same plans as a fast machine. `full` runs all
plans, and then random joins of them for the rest of the budget, which is CPU time. Plans that did not run are counted, by reason. An
exploration that ran no plan is incomplete (`Report.shortfall`) and never passes. An exploration whose budget left a plan out is incomplete
too, and does not pass in CI. A plan that fails is shrunk to the parts that it needs. Failures are reported in the order of their plans,
however many processes ran them. Each run is single-threaded, and nothing is left behind. Plans may share the beginning of their runs
(`branching`); a plan's result equals the result of its own run from nothing.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

import msgspec

from konverge.clock import cpu_time, monotonic
from konverge_testing.lab.branching import Batch, batches
from konverge_testing.lab.budget import CpuBudget
from konverge_testing.lab.comparison import differences, problems_of
from konverge_testing.lab.forking import run_shared
from konverge_testing.lab.planning import (
    Planned,
    Pruned,
    kind_of_fault,
    plans_of,
    random_plan,
    random_seed,
    skips,
    spread_over_faults,
)
from konverge_testing.lab.plans import Plan
from konverge_testing.lab.runs import Run, Scenario, run
from konverge_testing.lab.timeline import first_difference, summary
from konverge_testing.lab.workers import Link, WorkFailed, possible, spread
from konverge_testing.loop import MOST_SECONDS

__all__ = ["BUDGET", "QUICK", "WORTH", "Failure", "Mode", "Report", "explore", "in_ci", "replay"]

Mode: TypeAlias = Literal["quick", "full"]

QUICK: Final = 60
"""Plans of one scenario in quick mode, unless a budget in seconds is given."""
BUDGET: Final = 900.0
"""Seconds of CPU, of each process, for the plans of one scenario in full mode."""
WORTH: Final = 0.03
"""The least CPU seconds of one run for plans to share their beginning: a copy of a process costs a few hundredths, more than a shorter run
would save.
"""
_LEAST_SECONDS: Final = 30.0
_MANY_RUNS: Final = 50
"""A plan that uses more CPU time than so many undisturbed runs, and at least `_LEAST_SECONDS`, hangs."""
_SEEDS: Final = 3
_RANDOM: Final = {"quick": 0, "full": 300}
_OF_ONE_SEED: Final = 12


@dataclass(slots=True)
class Failure:
    """A plan that breaks the scenario, shrunk, and how."""

    plan: Plan
    problems: list[str]
    run: Run
    diverged: int | None
    """The place in the timeline of the first write that the reference did not make."""

    def text(self) -> str:
        """Return the report of the failure: the plan, the problems, and the timeline up to the first write that differs."""
        entries = self.run.timeline.entries
        end = len(entries) if self.diverged is None else self.diverged + 1
        shown = summary(entries[:end])[-40:]
        where = (
            "" if self.diverged is None else "  (the last line is the first write that the reference run did not make)"
        )
        lines = [
            f"FAILED: {self.plan.name}",
            *(f"  - {problem}" for problem in self.problems),
            f"  timeline:{where}",
            *shown,
        ]
        return "\n".join([*lines, "  the plan, to replay with --lab-plan:", self.plan.to_json()])


@dataclass(slots=True)
class Report:
    """The result of exploring a scenario."""

    reference: Run
    failures: list[Failure] = field(default_factory=list)
    ran: int = 0
    left: int = 0
    """Plans that the budget did not reach: for want of time."""
    beyond: int = 0
    """Plans that quick mode leaves to full mode: by design."""
    untried: tuple[str, ...] = ()
    """The kinds of fault that quick mode left to full mode entirely: quick mode ran fewer plans than the scenario has kinds."""
    joined: int = 0
    """Random joins of plans that the budget of full mode did not reach: by design, since they fill the time that is left."""
    pruned: tuple[Pruned, ...] = ()
    unmatched: tuple[str, ...] = ()
    """Patterns of `Lab.skip_plans` that match no plan, if only chosen plans ran. If all did, they are a failure."""
    seconds: float = 0.0
    strict: bool = False
    """Whether plans that are left for want of time fail the exploration."""

    @property
    def passed(self) -> bool:
        """Whether the reference run was well, and every plan that ran, and at least one did; if `strict`, also whether none is left."""
        return not self.failures and self.ran > 0 and not (self.strict and self.left)

    @property
    def shortfall(self) -> str:
        """The reason why the exploration is incomplete, and the remedy; "" if it is complete."""
        if self.left:
            return (
                f"{self.left} plans were left for want of time, so nothing is known about them: give a larger --lab-budget (seconds of "
                "CPU), run it with --lab=quick and no budget (a fixed number of plans), or make the scenario's run shorter"
            )
        if self.unmatched:
            return f"lab.skip_plans matches no plan: {', '.join(self.unmatched)}"
        if not self.ran and not self.failures:
            return (
                "no plan ran, so nothing was tried: the process under test read and wrote nothing that a plan could disturb (does the "
                "scenario call lab.start?), or every plan was left out"
            )
        return ""

    def line(self) -> str:
        """Return one line with the number of plans."""
        rate = self.ran / self.seconds if self.seconds else 0.0
        words = f"{self.ran} plans ran, {len(self.failures)} failed, {len(self.pruned)} were pruned"
        left = f", {self.left} were left for want of time" if self.left else ""
        left += f", {self.beyond} were left to the full mode by design" if self.beyond else ""
        left += f" with all of {len(self.untried)} kinds of fault" if self.untried else ""
        left += f", {self.joined} random joins of plans did not fit into the time, by design" if self.joined else ""
        return f"{words}{left}; {self.seconds:.1f} s, {rate:.1f} plans/s"

    def listing(self) -> str:
        """Return the line, the allowed differences, the kinds of fault of full mode only, and the pruned plans, with their reasons."""
        allowed = [f"  may differ: {why}" for why in self.reference.allowed]
        untried = [f"  in full mode only: {kind}" for kind in self.untried]
        return "\n".join(
            [self.line(), *allowed, *untried, *(f"  pruned: {one.plan.name}: {one.reason}" for one in self.pruned)]
        )

    def text(self, most: int = 3) -> str:
        """Return the first failure of each problem, the first `most` of these in full, and the names of the other plans."""
        alike: dict[str, list[Failure]] = {}
        for failure in self.failures:
            alike.setdefault(failure.problems[0], []).append(failure)
        told = [
            first.text() if place < most else f"FAILED: {first.plan.name}: {first.problems[0]}"
            for place, (first, *_) in enumerate(alike.values())
        ]
        for place, (_, *others) in enumerate(alike.values()):
            told[place] += "".join(
                ["\n  the same first problem under:", *(f"\n    {one.plan.name}" for one in others)] * bool(others)
            )
        short = [f"INCOMPLETE: {self.shortfall}"] * bool(self.shortfall)
        return "\n\n".join([self.line(), *short, *told])


def in_ci() -> bool:
    """Return whether this is a run of continuous integration: its runners set the variable CI."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def replay(scenario: Scenario, plan: Plan) -> tuple[Run, list[str]]:
    """Run one plan against a fresh reference; returns the run and its problems."""
    reference = run(scenario, Plan(name="reference"))
    disturbed = run(scenario, plan)
    return disturbed, problems_of(reference, disturbed)


def explore(
    scenario: Scenario,
    *,
    process: str = "lab",
    mode: Mode = "quick",
    seed: int = 0,
    budget: float | None = None,
    prune: bool = True,
    only: Iterable[Plan] | None = None,
    progress: Callable[[str], None] | None = None,
    workers: int = 1,
    foreign: bool = True,
    quick: int | None = None,
    position: int | None = None,
    strict: bool | None = None,
) -> Report:
    """Run a scenario under every plan; see the module.

    `budget` is in CPU seconds of each process, and replaces the number of plans in quick mode. `only` replaces the plans. `prune` False
    runs the pruned plans too. With `workers` above 1 the plans run in that many processes, if processes can be forked. `foreign` False
    prunes the plans with writes of other clients, for a scenario that plays these clients itself. `quick` is the number of plans of quick
    mode (None: `QUICK`). Scenarios with different values of `position` begin with different kinds of fault. With `strict` (None: if the
    variable CI is set) a plan that the budget does not reach is a failure.
    """
    began, began_cpu = monotonic(), cpu_time()
    reference = run(scenario, Plan(name="reference"), long=mode == "full", early_resync=mode == "quick")
    report = Report(reference, strict=in_ci() if strict is None else strict)
    if reference.problems:
        report.failures.append(Failure(reference.plan, reference.problems, reference, None))
        return report
    each = _run_other_seeds(scenario, report)
    share, seconds = each >= WORTH, min(MOST_SECONDS, max(_LEAST_SECONDS, _MANY_RUNS * each))
    planned = plans_of(reference, process=process, foreign=foreign)
    if only is None:
        problems = [f"lab.skip_plans matches no plan: {words}" for words in planned.unmatched]
        report.failures += [Failure(reference.plan, problems, reference, None)] * bool(problems)
    else:
        report.unmatched, planned = planned.unmatched, Planned(tuple(only), ())
    plans = list(planned.plans) + ([] if prune else [one.plan for one in planned.pruned if one.plan.faults])
    report.pruned = planned.pruned
    random = Random(f"konverge lab {seed}")  # noqa: S311  # the seed is the caller's
    systematic = len(plans)
    if only is None:
        plans = spread_over_faults(plans, random, position)
        drawn = _random_plans(planned, random, _RANDOM[mode])
        report.pruned += tuple(
            Pruned(plan, f"the scenario skips it: {why}") for plan in drawn if (why := skips(reference, plan))
        )
        plans += [plan for plan in drawn if not skips(reference, plan)]
        if mode == "quick" and budget is None:
            most = QUICK if quick is None else quick
            report.beyond = len(plans[most:])
            tried = {kind_of_fault(plan) for plan in plans[:most]}
            report.untried = tuple(sorted({kind_of_fault(plan) for plan in plans[most:]} - tried))
            del plans[most:]
    report.seconds = monotonic() - began
    allowed = budget if budget is not None else BUDGET if mode == "full" else float("inf")
    clock = CpuBudget(allowed, workers=workers, slots=len(plans), used=cpu_time() - began_cpu)
    with _collector_frozen():
        outcomes = _outcomes(scenario, reference, plans, workers, clock, share=share, seconds=seconds)
        done = _collect(outcomes, report, progress)
    missing = [place for place in range(len(plans)) if place not in done]
    report.left = sum(1 for place in missing if place < systematic)
    report.joined = len(missing) - report.left
    report.seconds = monotonic() - began
    return report


def _random_plans(planned: Planned, random: Random, count: int) -> list[Plan]:
    """Draw joined plans with some dozens of seeds: plans of one seed share their beginning."""
    if len(planned.plans) <= 3:
        return []
    seeds = [random_seed(random) for _ in range(0, count, _OF_ONE_SEED)]
    return [
        random_plan(planned.plans, random, number, seed=seeds[(number - 1) // _OF_ONE_SEED])
        for number in range(1, count + 1)
    ]


@contextlib.contextmanager
def _collector_frozen() -> Iterator[None]:
    """Keep the garbage collector from traversing older objects again and again: that takes longer than collecting the garbage of a run."""
    if gc.get_freeze_count():  # frozen by a caller, who expects it to stay so
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _collect(
    outcomes: Iterable[tuple[int, Failure | None]], report: Report, progress: Callable[[str], None] | None
) -> set[int]:
    """Add the outcomes of the plans to the report, failures in the order of the plans; returns the places of the plans that ran."""
    began = monotonic() - report.seconds
    earlier, places, done = len(report.failures), list[int](), set[int]()
    for place, failure in outcomes:
        report.ran += 1
        done.add(place)
        report.seconds = monotonic() - began
        if failure is not None:
            report.failures.append(failure)
            places.append(place)
        if progress is not None:
            progress(report.line())
    order = sorted(range(len(places)), key=places.__getitem__)
    report.failures[earlier:] = [report.failures[earlier + at] for at in order]
    return done


def _outcomes(
    scenario: Scenario,
    reference: Run,
    plans: list[Plan],
    workers: int,
    clock: CpuBudget,
    *,
    share: bool,
    seconds: float,
) -> Iterator[tuple[int, Failure | None]]:
    """Run the plans while there is time, batch by batch in their order; yield the place of each, and its failure."""
    more = clock.left

    def work(batch: Batch, link: Link) -> None:
        clock.work_on(batch.places[0])
        if batch.shared:
            chosen = {place: plans[place] for place in batch.places}
            run_shared(scenario, chosen, link, more, judge, seconds=seconds)
            return
        for place in batch.places:
            if not more():
                return
            link.began(place)
            link.done(place, judge(run(scenario, plans[place], seconds=seconds)))

    def judge(done: Run) -> Failure | None:
        failure = _failure_of(scenario, reference, done)
        clock.used()  # a copy ends here, so it must count its CPU time now
        return failure

    # A debugger or a coverage tool that traces this process would not see the copies.
    cut = batches(plans, workers, share=share and possible() and sys.gettrace() is None)
    try:
        if workers > 1 and possible():
            yield from _with_own_plans(plans, spread(work, cut, workers, more))
            return
        for batch in cut:
            if batch.shared:
                yield from _with_own_plans(plans, spread(work, [batch], 1, more))
                continue
            for place in batch.places:
                if not more():
                    return
                yield place, judge(run(scenario, plans[place], seconds=seconds))
    except WorkFailed as error:
        raise RuntimeError(f"{plans[error.place].name}: {error}") from error


def _with_own_plans(
    plans: list[Plan], outcomes: Iterable[tuple[int, Failure | None]]
) -> Iterator[tuple[int, Failure | None]]:
    """Replace the plans that workers sent back by our own: a copy writes out fields that have their default."""
    for place, failure in outcomes:
        if failure is not None:
            ours, theirs = plans[place], failure.plan
            parts = {
                word: tuple(one for one in getattr(ours, word) if one in getattr(theirs, word))
                for word in ("crashes", "rules", "foreign", "leases", "interruptions", "services")
            }
            ours = msgspec.structs.replace(ours, **parts)
            if ours == theirs:
                failure.plan = failure.run.plan = ours
        yield place, failure


def _run_other_seeds(scenario: Scenario, report: Report) -> float:
    """Run the reference with other orders of ready tasks; an end state that depends on the order is a finding.

    Returns the seconds of CPU that a run takes.
    """
    each = float("inf")
    for seed in range(1, _SEEDS):
        began = cpu_time()
        other = run(scenario, Plan(name=f"reference, seed {seed}", seed=seed))
        each = min(each, cpu_time() - began)
        problems = other.problems + differences(report.reference.state, other.state, report.reference.may_be_gone)
        if problems:
            report.failures.append(
                Failure(other.plan, problems, other, first_difference(report.reference.timeline, other.timeline))
            )
    return each


def _failure_of(scenario: Scenario, reference: Run, disturbed: Run) -> Failure | None:
    """Return the failure of a run, or None if it has no problems; its plan is shrunk to the parts that the failure needs."""
    problems = problems_of(reference, disturbed)
    if not problems:
        return None
    plan, disturbed, problems = _shrink(scenario, reference, disturbed.plan, disturbed, problems)
    return Failure(plan, problems, disturbed, first_difference(reference.timeline, disturbed.timeline))


def _shrink(
    scenario: Scenario, reference: Run, plan: Plan, disturbed: Run, problems: list[str]
) -> tuple[Plan, Run, list[str]]:
    """Drop the parts of a plan that its failure does not need."""
    place = 0
    while plan.faults > 1 and place < plan.faults:
        smaller = plan.without(place)
        again = run(scenario, smaller)
        found = problems_of(reference, again)
        if found:
            plan, disturbed, problems = smaller, again, found
        else:
            place += 1
    return plan, disturbed, problems
