"""The way through the jobs that a control plane offers, page by page, while those of a page have no place in the journal. Pure.

A control plane offers a job until it is acknowledged, so those without a place would fill each response and hide the ones behind them.
A sweep asks for those behind the last job of a full page (`after`), until a page is not full, and begins anew.

Guarantees: bounded: after `MOST_LEFT` jobs without a place it begins anew. A control plane that does not know `after` sends its first page
again, which begins a new sweep.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.clusters.jobs import Task

__all__ = ["MOST_LEFT", "Place", "Sweep", "place_of"]

Place: TypeAlias = tuple[Kind[Object] | None, str, str]
"""The object of a job: kind, namespace and name."""

MOST_LEFT: Final = 10_000
"""Jobs without a place that a sweep passes at most: so much memory a control plane may cost."""


def place_of(task: Task) -> Place:
    """Return the object of a task."""
    return task.kind, task.namespace, task.name


class Sweep:
    """The pages from the first one on.

    >>> sweep = Sweep()
    >>> sweep.ends_with(["a", "b"], left=1, full=True), sweep.after, sweep.ends_with(["c"], left=0, full=False)
    (False, 'b', True)
    """

    def __init__(self) -> None:
        self.after = ""
        """The job behind which the next page begins; "" for the first page."""
        self.seen: set[str] = set()
        """The jobs of the pages up to now."""
        self.behind: set[Place] = set()
        """The objects of jobs without a place on earlier pages: a younger job of such an object must not go first."""
        self._left = 0

    def is_repeated_by(self, job_ids: Iterable[str]) -> bool:
        """Tell whether a page has jobs of an earlier one: the control plane has begun with the first page."""
        return not self.seen.isdisjoint(job_ids)

    def ends_with(self, job_ids: Iterable[str], *, left: int, full: bool) -> bool:
        """Take a page, of which `left` jobs have no place, and tell whether no other one follows it."""
        ids = [one for one in job_ids if one]
        self.seen.update(ids)
        self._left += left
        if not full or not ids or not 0 < self._left < MOST_LEFT:
            return True
        self.after = ids[-1]
        return False
