"""The rows of a benchmark. It imports nothing of konverge, so that it does not add to a measured process's memory."""

import os
from typing import Any, Final, TypeAlias

Row: TypeAlias = dict[str, Any]

QUICK: Final = bool(os.environ.get("BENCH_QUICK"))
"""Small numbers, which show that a benchmark works."""


def row(name: str, value: float, unit: str, how: str, target: str | int | None = None) -> Row:
    """Return a row without the name of its benchmark; a target is the very value, or a bound such as `<= 50` or `>= 3`."""
    holds: bool | None = None
    if isinstance(target, str):
        relation, bound = target.split()
        holds = value <= float(bound) if relation == "<=" else value >= float(bound)
    elif target is not None:
        holds = value == target
    return {"name": name, "value": value, "unit": unit, "target": target, "holds": holds, "how": how}


class Figures(list[Row]):
    """The rows of one part of a benchmark, measured in the same way: `how`, to which a row may add a remark."""

    def __init__(self, part: str = "", how: str = "") -> None:
        super().__init__()
        self._part, self._how = part, how

    def add(self, name: str, value: float, unit: str, target: str | int | None = None, *, remark: str = "") -> None:
        """Add a row; see `row`."""
        how = "; ".join(text for text in (self._how, remark) if text)
        self.append(row(f"{self._part}: {name}" if self._part else name, value, unit, how, target))
