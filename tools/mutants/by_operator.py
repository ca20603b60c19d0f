"""Play the operators of testkit/tests/scenarios/lab and examples with one planted mistake each; print what the lab finds.

    python tools/mutants/by_operator.py ['WORD|WORD']

Guarantees: no file is written. Ends with status 1 if a mistake is not found, or not by the oracle that it names. The operators without a
mistake pass every plan: they are scenarios of the suite.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from operator_mistakes import MISTAKES, ORACLES, Mistake
from planting import file_of, mutated

from konverge_testing.lab import Plan
from konverge_testing.lab.comparison import problems_of
from konverge_testing.lab.planning import plans_of
from konverge_testing.lab.runs import Run, run

ROOT: Final = Path(__file__).resolve().parents[2]


@contextmanager
def _planted(mistake: Mistake) -> Iterator[Callable[[Any], Any]]:
    """Yield the scenario over an operator with a mistake in it."""
    place, _, name = mistake.scenario.partition(":")
    module = mistake.mutant.module
    known = {item: sys.modules.get(item) for item in (_plain(module), _plain(place))}
    try:
        _load(module, mutated(file_of(mistake.mutant, ROOT).read_text(), mistake.mutant))
        if place != module:
            _load(place, _file(place).read_text())
        yield getattr(sys.modules[_plain(place)], name)
    finally:
        for item, before in known.items():
            sys.modules.pop(item, None)
            if before is not None:
                sys.modules[item] = before


def _file(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def _plain(module: str) -> str:
    return module.rpartition(".")[2]


def _load(module: str, text: str) -> None:
    loaded = ModuleType(_plain(module))
    loaded.__file__ = str(_file(module))
    sys.modules[loaded.__name__] = loaded
    exec(compile(text, str(_file(module)), "exec"), loaded.__dict__)


def problems_with(mistake: Mistake) -> tuple[str, list[str]]:
    """Return the name of the plan that finds a mistake, and the problems; ("", []) if none does."""
    with _planted(mistake) as scenario:
        reference = run(scenario, Plan(name="reference"), long=True)
        if not mistake.plan or reference.problems:
            return "reference", reference.problems
        return _by_plan(mistake, scenario, reference)


def _by_plan(mistake: Mistake, scenario: Callable[[Any], Any], reference: Run) -> tuple[str, list[str]]:
    for plan in plans_of(reference, process="lab").plans:
        if mistake.plan in plan.name and (problems := problems_of(reference, run(scenario, plan))):
            return plan.name, problems
    return "", []


def fault_of(mistake: Mistake) -> str:
    """Return what is wrong with the lab's findings for a mistake, "" if the oracle that the mistake names finds it."""
    plan, problems = problems_with(mistake)
    if any(re.search(ORACLES[mistake.oracle], problem) for problem in problems) and (plan == "reference") != bool(
        mistake.plan
    ):
        return ""
    return f"not found by {mistake.oracle!r} under {mistake.plan or 'no fault'!r}, but: {plan or 'nothing'}: {problems[:3]}"


def main(words: list[str]) -> int:
    """Play every mistake whose name contains one of these words; return the status of the process."""
    sys.path.insert(0, str(ROOT / "examples"))
    bad, chosen = 0, "".join(words[:1]).split("|")
    for mistake in MISTAKES:
        if any(word in mistake.mutant.name for word in chosen):
            fault = fault_of(mistake)
            bad += bool(fault)
            print(f"{mistake.mutant.name:<36} {mistake.mutant.breaks}\n{'':<36} {fault or mistake.oracle}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
