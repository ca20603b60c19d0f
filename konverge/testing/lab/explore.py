"""Every fault on one scenario: the reference run, its plans, and what came of them.

    report = explore(scenario, process="lab", mode="quick")
    assert report.passed, report.text()

Promises: the reference runs first, with several seeds, and a difference between these is a finding of its own. Then plans run, in an
order that the seed
draws, within the budget; what was not run is counted. A plan that fails is shrunk to the parts that it needs. Everything is
single-threaded and leaves
nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

from konverge.clock import monotonic
from konverge.testing.lab.judging import differences, verdict
from konverge.testing.lab.planning import Planned, Pruned, plans_of, random_plan
from konverge.testing.lab.plans import Plan
from konverge.testing.lab.runs import Run, Scenario, run
from konverge.testing.lab.timeline import first_difference

__all__ = ["BUDGETS", "Failure", "Mode", "Report", "explore", "replay"]

Mode: TypeAlias = Literal["quick", "full"]

BUDGETS: Final = {"quick": 20.0, "full": 900.0}
"""Seconds of real time for the plans of one scenario."""
_SEEDS: Final = 3
_RANDOM: Final = {"quick": 0, "full": 300}


@dataclass(slots=True)
class Failure:
    """A plan that breaks the scenario, shrunk, and how."""

    plan: Plan
    problems: list[str]
    run: Run
    diverged: int | None
    """The place in the timeline of the first write that the reference did not make."""

    def text(self) -> str:
        """Tell it: what was done, what was wrong, and the timeline up to the first write that differs."""
        entries = self.run.timeline.entries
        end = len(entries) if self.diverged is None else self.diverged + 1
        shown = [str(entry) for entry in entries[max(0, end - 40) : end]]
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
    """What exploring a scenario came to."""

    reference: Run
    failures: list[Failure] = field(default_factory=list)
    ran: int = 0
    left: int = 0
    """Plans that the budget did not reach."""
    pruned: tuple[Pruned, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the reference run was well, and every plan that ran."""
        return not self.failures

    def line(self) -> str:
        """Say in one line how much was tried."""
        rate = self.ran / self.seconds if self.seconds else 0.0
        words = f"{self.ran} plans ran, {len(self.failures)} failed, {len(self.pruned)} were pruned"
        left = f", {self.left} were left for want of time" if self.left else ""
        return f"{words}{left}; {self.seconds:.1f} s, {rate:.1f} plans/s"

    def text(self, most: int = 3) -> str:
        """Tell everything that failed, at most so many plans in full."""
        told = [failure.text() for failure in self.failures[:most]]
        more = [f"FAILED: {failure.plan.name}: {failure.problems[0]}" for failure in self.failures[most:]]
        return "\n\n".join([self.line(), *told, *more])


def replay(scenario: Scenario, plan: Plan) -> tuple[Run, list[str]]:
    """Run one plan against a fresh reference; returns the run and what is wrong with it."""
    reference = run(scenario, Plan(name="reference"))
    disturbed = run(scenario, plan)
    return disturbed, verdict(reference, disturbed)


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
) -> Report:
    """Run a scenario under every plan; see the module. `budget` is in seconds; `only` replaces the plans; `prune` False runs the pruned
    ones too.
    """
    began = monotonic()
    reference = run(scenario, Plan(name="reference"), long=True)
    report = Report(reference)
    if reference.problems:
        report.failures.append(Failure(reference.plan, reference.problems, reference, None))
        return report
    _seeds(scenario, report)
    planned = plans_of(reference, process=process) if only is None else Planned(tuple(only), ())
    plans = list(planned.plans) + ([] if prune else [one.plan for one in planned.pruned if one.plan.faults])
    report.pruned = planned.pruned
    random = Random(f"konverge lab {seed}")  # noqa: S311  # the seed is the caller's
    if only is None:
        random.shuffle(plans)
        plans += [
            random_plan(planned.plans, random, number)
            for number in range(1, _RANDOM[mode] + 1)
            if len(planned.plans) > 3
        ]
    allowed = BUDGETS[mode] if budget is None else budget
    for place, plan in enumerate(plans):
        if monotonic() - began > allowed:
            report.left = len(plans) - place
            break
        _one(scenario, reference, plan, report)
        if progress is not None:
            progress(report.line())
    report.seconds = monotonic() - began
    return report


def _seeds(scenario: Scenario, report: Report) -> None:
    """Run the reference with other orders of what is ready; where its end depends on the order, that is a finding."""
    for seed in range(1, _SEEDS):
        other = run(scenario, Plan(name=f"reference, seed {seed}", seed=seed))
        problems = other.problems + differences(report.reference.state, other.state)
        if problems:
            report.failures.append(
                Failure(other.plan, problems, other, first_difference(report.reference.timeline, other.timeline))
            )


def _one(scenario: Scenario, reference: Run, plan: Plan, report: Report) -> None:
    disturbed = run(scenario, plan)
    report.ran += 1
    problems = verdict(reference, disturbed)
    if not problems:
        return
    plan, disturbed, problems = _shrunk(scenario, reference, plan, disturbed, problems)
    report.failures.append(Failure(plan, problems, disturbed, first_difference(reference.timeline, disturbed.timeline)))


def _shrunk(
    scenario: Scenario, reference: Run, plan: Plan, disturbed: Run, problems: list[str]
) -> tuple[Plan, Run, list[str]]:
    """Drop the parts of a plan that its failure does not need."""
    place = 0
    while plan.faults > 1 and place < plan.faults:
        smaller = plan.without(place)
        again = run(scenario, smaller)
        found = verdict(reference, again)
        if found:
            plan, disturbed, problems = smaller, again, found
        else:
            place += 1
    return plan, disturbed, problems
