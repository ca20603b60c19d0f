"""How many objects of a controller have each status of a condition, for the gauge `konverge_status_conditions`.

Guarantees: a scrape reads sums and decodes nothing; an event of the primary kind costs two reads of a status. Only named condition types
are counted, so other writers of a status add no series. Every named type has a series for each status from the start of the controller,
0 included. When the controller ends, its objects are no longer counted.

Caveats: a condition that an object does not have is not counted; a status that is none of True, False and Unknown is Unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from konverge.conditions import STATUSES, condition_entries

if TYPE_CHECKING:
    from konverge.informers import Cached, Change
    from konverge.informers.delivery import Handler
    from konverge.metrics import Metrics

__all__ = ["ConditionCounts", "counted_conditions"]

ConditionState: TypeAlias = tuple[str, str]
"""A condition type and its status."""


def counted_conditions(status: Mapping[str, Any], types: frozenset[str]) -> set[ConditionState]:
    """Return the conditions of these types in a stored status, of every writer.

    >>> counted_conditions({"conditions": [{"type": "Ready", "status": "odd"}, "none"]}, frozenset({"Ready"}))
    {('Ready', 'Unknown')}
    """
    found: dict[str, str] = {}
    for entry in condition_entries(status.get("conditions")):
        type_, value = entry["type"], entry.get("status")
        if isinstance(type_, str) and type_ in types:
            found.setdefault(type_, value if value in STATUSES else "Unknown")
    return set(found.items())


class ConditionCounts:
    """The counts of one controller, from `open` to `close`; controllers of one name that share their metrics add up."""

    def __init__(self, metrics: Metrics, controller: str, types: tuple[str, ...]) -> None:
        self._gauge = metrics.status_conditions
        self._controller = controller
        self._types = frozenset(types)
        self._counts: Counter[ConditionState] = Counter()
        self._together: list[ConditionCounts] = metrics.shared.setdefault((ConditionCounts, controller), [])

    def open(self, handler: Handler) -> Handler:
        """Begin to count; return the handler that counts before it passes a change on."""
        if not self._types:
            return handler
        self._together.append(self)
        for state in ((type_, status) for type_ in sorted(self._types) for status in STATUSES):
            self._gauge.labels(self._controller, *state).set_function(partial(_total, self._together, state))

        def counting(change: Change) -> None:
            self.take(change)
            handler(change)

        return counting

    def take(self, change: Change) -> None:
        """Replace the states before the change by those after it."""
        before, now = self._states(change.old), self._states(change.new)
        self._counts.subtract(before - now)
        self._counts.update(now - before)

    def _states(self, cached: Cached | None) -> set[ConditionState]:
        try:
            return set() if cached is None else counted_conditions(cached.status(), self._types)
        except RecursionError:  # nested deeper than the decoder follows: the reconcile reports it
            return set()

    def close(self) -> None:
        """Count nothing any more."""
        if self in self._together:
            self._together.remove(self)


def _total(together: list[ConditionCounts], state: ConditionState) -> float:
    return sum(one._counts[state] for one in together)
