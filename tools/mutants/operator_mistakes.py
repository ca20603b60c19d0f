"""Mistakes of operator writers, planted one by one in the operators of testkit/tests/scenarios/lab and examples.

Each names the oracle that finds it; testkit/docs/lab.md describes the oracles.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from catalogue import mutant_of
from planting import Mutant

ORACLES: Final = {
    "the end": r"^the end state differs",
    "effort": r" was (created|deleted) \d+ times, in the reference run",
    "rest": r"writes after convergence|not converged",
    "safety": r"vanished|went back",
    "errors": r"^unhandled |^the scenario failed: UsageError|the run broke off|fails again and again|never awaited|blocks the event loop",
    "rights": r"declares no rule for",
    "silence": r"the error is swallowed",
    "yours": r"^the scenario's own expectation failed",
}
"""The words of each oracle's report."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in an operator, the scenario that plays the operator, and the oracle that finds the mistake.

    `plan` is a part of the name of the plan that finds it, "" for the undisturbed run.
    """

    mutant: Mutant
    scenario: str
    oracle: str
    plan: str = ""


MISTAKES: Final = tuple(
    Mistake(scenario=row.pop("scenario"), oracle=row.pop("oracle"), plan=row.pop("plan", ""), mutant=mutant_of(row))
    for row in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
)
