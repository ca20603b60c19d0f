"""The planted faults of `faults/`: the code in a copy of the tree and its replacement, what that breaks, and where to look first.

Each mutant is a fault that a change might really introduce, and breaks a promise that users would miss. Only the mutants of the lab's own
checks (`lab-`) change the testing code: their story expects each mistake, so an unnoticed mistake fails the story.
`planting.py` finds code by module, function and syntax tree, so only a change of exactly that code affects a mutant.
"""

from pathlib import Path
from typing import Any, Final

import yaml
from planting import Mutant

STORIES: Final = (
    "backup",
    "bucket",
    "guarded",
    "sites",
    "takeover",
    "hold",
    "errands",
    "badge",
    "strangers",
    "shelf",
    "budget",
    "mover",
    "namesakes",
    "placid",
    "tenants",
    "dissolved",
    "slips",
)
"""The stories of `scenarios.py`, in the order of the hunt."""


def mutant_of(row: dict[str, Any]) -> Mutant:
    """Return the mutant of a row of a file; raises TypeError if the row lacks a field or has an unknown field."""
    return Mutant(**{**row, "stories": tuple(row.get("stories", ())), "hints": tuple(row.get("hints", ()))})


MUTANTS: Final = tuple(
    mutant_of(row)
    for file in sorted((Path(__file__).parent / "faults").glob("*.yaml"))
    for row in yaml.safe_load(file.read_text())
)
