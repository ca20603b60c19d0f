"""The arithmetic of the benchmark: percentiles, medians with their range, foreign CPU, the order of the runs. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the range around it."""

    median: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        if self.count == 1 or self.low == self.high:
            return shown(self.median)
        return f"{shown(self.median)} ({shown(self.low)}-{shown(self.high)})"


def shown(value: float) -> str:
    """Write a figure: whole from a hundred on, else with three digits that count."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(values: Iterable[float | None]) -> Spread | None:
    """Median and range of the values; None if there are none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    return Spread(statistics.median(known), min(known), max(known), len(known))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of all do not exceed (nearest rank); raises ValueError if there is none.

    >>> percentile([4, 1, 3, 2], 50), percentile([4, 1, 3, 2], 99)
    (2, 4)
    """
    if not values:
        raise ValueError("a percentile of nothing")
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


def rotated(names: Sequence[T], run: int) -> list[T]:
    """The order of one run: each starts with another contestant, so that no contestant is always the first after a pause.

    >>> rotated(["a", "b", "c"], 1)
    ['b', 'c', 'a']
    """
    if not names:
        return []
    shift = run % len(names)
    return [*names[shift:], *names[:shift]]


def foreign_share(busy: float, ours: float, elapsed: float, cpus: int) -> float:
    """The share of the machine that others used: its busy CPU seconds without ours, over its capacity. Never below 0."""
    return max(0.0, busy - ours) / (elapsed * cpus) if elapsed > 0 else 0.0
