"""Explore the stories on the imported tree until a plan breaks a story; print the plan as JSON.

    python tools/mutants/hunt.py '{"root": "/a/copy", "stories": ["backup"], "hints": ["crash"], "seconds": 60}'

Guarantees: the same tree gives the same result. The plans are the lab's own; `hints` only select the plans that run first. Prints
`{"found": {"story", "plan", "problem"} or null, "plans": how many ran}`. The copy is first on the path, and the hunt checks that nothing
else was imported.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any


@dataclass
class Hunt:
    """One hunt; `until` is its deadline."""

    hints: list[str]
    until: float
    plans: int = 0
    left: list[str] = field(default_factory=list)

    def story(self, name: str, scenario: Any) -> dict[str, str] | None:
        """Return the first plan that breaks this story."""
        from konverge.clock import monotonic
        from konverge_testing.lab.comparison import differences, problems_of
        from konverge_testing.lab.planning import plans_of
        from konverge_testing.lab.plans import Plan
        from konverge_testing.lab.runs import run

        reference = run(scenario, Plan(name="the reference run"), long=True)
        if reference.problems:
            return _found(name, "the reference run", reference.problems)
        for seed in (1, 2):
            other = run(scenario, Plan(name="reference", seed=seed))
            problems = other.problems + differences(reference.state, other.state)
            if problems:
                return _found(name, f"the reference run, seed {seed}", problems)
        for plan in self._ordered(plans_of(reference, process="lab").plans):
            if monotonic() > self.until:
                self.left.append(name)
                return None
            self.plans += 1
            problems = problems_of(reference, run(scenario, plan))
            if problems:
                return _found(name, plan.name, problems)
        return None

    def _ordered(self, plans: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the plans that a hint names, then the others, in a random order with a fixed seed."""
        rest = list(plans)
        for hint in self.hints:
            named = [plan for plan in rest if hint in plan.name]
            rest = [plan for plan in rest if hint not in plan.name]
            yield from named
        Random(7).shuffle(rest)
        yield from rest


def _found(story: str, plan: str, problems: list[str]) -> dict[str, str]:
    return {"story": story, "plan": plan, "problem": problems[0]}


def _failing(test: str, tree: Path) -> dict[str, str] | None:
    """Run one test of the tree on the package that is imported; return None if it passes."""
    import pytest

    failures = list[str]()

    class Failures:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failures.append(report.longreprtext.strip().splitlines()[-1])

        @pytest.hookimpl(tryfirst=True)
        def pytest_unconfigure(self) -> None:
            # konverge_testing ends a process whose thread never returned, except in a pytest within a test: here the hunt has to continue.
            os.environ["PYTEST_CURRENT_TEST"] = "a hunt"

    options = ["-q", "-x", "-p", "no:cacheprovider", "-c", str(tree / "pyproject.toml"), f"--rootdir={tree}"]
    with contextlib.redirect_stdout(io.StringIO()) as message:
        status = pytest.main([*options, str(tree / test)], plugins=[Failures()])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or bool(failures) != bool(status):
        raise RuntimeError(f"{test} cannot be run: {message.getvalue()[-500:]!r}")
    return {"test": test, "problem": failures[0]} if failures else None


def main(orders: dict[str, Any]) -> dict[str, Any]:
    """Run the hunt that the arguments describe."""
    sys.path[:0] = [orders["root"], f"{orders['root']}/testkit"]
    if orders["test"]:  # pytest itself imports the package, whose plugin it rewrites
        failing = _failing(orders["test"], Path(orders["tests"]))
        _only_from(Path(orders["root"]))
        return {"found": failing, "plans": 0, "left": []}
    from scenarios import SCENARIOS

    import konverge
    from konverge.clock import monotonic

    began = monotonic()

    hunt = Hunt(orders["hints"], began + orders["seconds"])
    result = None
    for name in orders["stories"]:
        result = hunt.story(name, SCENARIOS[name])
        if result is not None:
            break
    _only_from(Path(orders["root"]))
    return {"found": result, "plans": hunt.plans, "left": hunt.left, "konverge": konverge.__file__}


def _only_from(root: Path) -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "konverge" and not Path(module.__file__ or root).is_relative_to(root):
            raise RuntimeError(f"{name} was imported from {module.__file__}, not from {root}")


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
    os._exit(0)  # without waiting for a thread that a mutant left behind
