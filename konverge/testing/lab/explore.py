"""Every fault on one scenario: the reference run, its plans, and what came of them.

    report = explore(scenario, process="lab", mode="quick")
    assert report.passed, report.text()

Promises: the reference runs first, with several seeds, and a difference between these is a finding of its own. Then plans run, in an
order that the seed draws, within the budget; what was not run is counted. A plan that fails is shrunk to the parts that it needs.
Failures are reported in the order of their plans, however many processes ran them. Each run is single-threaded, and nothing is left
behind.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

from konverge.clock import monotonic
from konverge.testing.lab.judging import differences, verdict
from konverge.testing.lab.planning import Planned, Pruned, plans_of, random_plan
from konverge.testing.lab.plans import Plan
from konverge.testing.lab.runs import Run, Scenario, run
from konverge.testing.lab.timeline import first_difference
from konverge.testing.lab.workers import WorkFailed, possible, spread

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

    def listing(self) -> str:
        """Say how much was tried, and list what was left out as pointless, each plan with its reason."""
        return "\n".join([self.line(), *(f"  pruned: {one.plan.name}: {one.reason}" for one in self.pruned)])

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
    workers: int = 1,
) -> Report:
    """Run a scenario under every plan; see the module. `budget` is in seconds; `only` replaces the plans; `prune` False runs the pruned
    ones too; with `workers` of more than 1 the plans run in so many processes, where processes can be forked.
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
    report.seconds = monotonic() - began
    allowed = BUDGETS[mode] if budget is None else budget
    with _frozen():
        _try_all(scenario, reference, plans, workers, report, lambda: monotonic() - began <= allowed, progress)
    report.seconds = monotonic() - began
    return report


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Keep the collector from walking again and again over what was there before: that takes longer than what a run leaves behind."""
    if gc.get_freeze_count():  # somebody else's, who would not want it undone
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _try_all(
    scenario: Scenario,
    reference: Run,
    plans: list[Plan],
    workers: int,
    report: Report,
    more: Callable[[], bool],
    progress: Callable[[str], None] | None,
) -> None:
    """Run the plans while there is time, and note in the report what came of them."""
    began = monotonic() - report.seconds
    earlier, places = len(report.failures), list[int]()
    for place, failure in _outcomes(scenario, reference, plans, workers, more):
        report.ran += 1
        report.seconds = monotonic() - began
        if failure is not None:
            report.failures.append(failure)
            places.append(place)
        if progress is not None:
            progress(report.line())
    order = sorted(range(len(places)), key=places.__getitem__)
    report.failures[earlier:] = [report.failures[earlier + at] for at in order]
    report.left = len(plans) - report.ran


def _outcomes(
    scenario: Scenario, reference: Run, plans: list[Plan], workers: int, more: Callable[[], bool]
) -> Iterator[tuple[int, Failure | None]]:
    """Run the plans in their order while there is time; yield the place of each, and what failed."""
    if workers <= 1 or not possible():
        for place, plan in enumerate(plans):
            if not more():
                return
            yield place, _one(scenario, reference, plan)
        return
    try:
        yield from spread(lambda place: _one(scenario, reference, plans[place]), len(plans), workers, more)
    except WorkFailed as error:
        raise RuntimeError(f"{plans[error.place].name}: {error}") from error


def _seeds(scenario: Scenario, report: Report) -> None:
    """Run the reference with other orders of what is ready; where its end depends on the order, that is a finding."""
    for seed in range(1, _SEEDS):
        other = run(scenario, Plan(name=f"reference, seed {seed}", seed=seed))
        problems = other.problems + differences(report.reference.state, other.state)
        if problems:
            report.failures.append(
                Failure(other.plan, problems, other, first_difference(report.reference.timeline, other.timeline))
            )


def _one(scenario: Scenario, reference: Run, plan: Plan) -> Failure | None:
    disturbed = run(scenario, plan)
    problems = verdict(reference, disturbed)
    if not problems:
        return None
    plan, disturbed, problems = _shrunk(scenario, reference, plan, disturbed, problems)
    return Failure(plan, problems, disturbed, first_difference(reference.timeline, disturbed.timeline))


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
