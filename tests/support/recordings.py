"""The recordings of real controllers in tests/recordings: one folder for each controller, one file for each scenario."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_FOLDER = Path(__file__).parents[1] / "recordings"


@dataclass(frozen=True)
class Line:
    """A watch event, or a step of a person or a program."""

    at: float
    """Seconds since the beginning of the recording."""
    step: str = ""
    type: str = ""
    """The type of the event, "" for a step."""
    object: Json = field(default_factory=dict)

    def is_of(self, which: str) -> bool:
        """Return whether this is an event of an object, `Kind/name`."""
        return bool(self.object) and f"{self.object['kind']}/{self.object['metadata']['name']}" == which


def scenarios(controller: str) -> list[str]:
    """Return the names of the recordings of a controller."""
    return sorted(path.stem for path in (_FOLDER / controller).glob("*.jsonl"))


def lines(controller: str, scenario: str) -> list[Line]:
    """Return the lines of a recording."""
    read = map(json.loads, (_FOLDER / controller / f"{scenario}.jsonl").read_text().splitlines())
    return [Line(line["t"], line.get("step", ""), line.get("type", ""), line.get("object", {})) for line in read]
