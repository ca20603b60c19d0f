"""Ranges of sizes and costs, whose sums and products end at the largest unsigned number of 64 bits.

Guarantees: pure. Follows cel-go `checker/cost.go` (0.26).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

__all__ = ["MOST", "ONE", "TRAVERSAL", "UNKNOWN", "Range", "fixed", "times", "total"]

MOST: Final = (1 << 64) - 1
TRAVERSAL: Final = 0.1
"""The cost of one character of a text that is read."""


def times(one: int, other: int) -> int:
    """Return a product."""
    return min(one * other, MOST)


class Range(NamedTuple):
    """The minimum and maximum of a size or a cost."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        """Return the sum."""
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: Range) -> Range:
        """Return the product."""
        return Range(times(self.least, other.least), times(self.most, other.most))

    def scaled(self, factor: float) -> Range:
        """Return the product with a factor, rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        """Return the smallest range that contains both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def _scaled(number: int, factor: float) -> int:
    product = float(number) * factor
    return MOST if product >= 2.0**64 else math.ceil(product)


def fixed(number: int) -> Range:
    """Return the range of a single number."""
    return Range(number, number)


ONE: Final = fixed(1)
UNKNOWN: Final = Range(0, MOST)


def total(costs: Sequence[Range]) -> Range:
    """Return the sum of costs."""
    return reduce(Range.plus, costs, fixed(0))
