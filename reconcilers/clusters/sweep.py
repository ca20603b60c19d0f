"""The cursor through the jobs of a control plane, page by page, while the jobs of a page have no place in the journal. Pure.

A control plane offers a job until it is acknowledged, so jobs without a place would fill each response and hide the jobs behind them. A
sweep requests the jobs after the last job of a full page (`after`), until a page is not full, and then starts again.

Guarantees: bounded: after `MOST_LEFT` jobs without a place it starts again. A control plane that does not know `after` sends its first page
again, and a new sweep starts.
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
"""Jobs without a place in one sweep at most: this bounds the memory that a control plane can cost."""


def place_of(task: Task) -> Place:
    """Return the object of a task."""
    return task.kind, task.namespace, task.name


class Sweep:
    """The pages since the first page.

    >>> sweep = Sweep()
    >>> sweep.ends_with(["a", "b"], left=1, full=True), sweep.after, sweep.ends_with(["c"], left=0, full=False)
    (False, 'b', True)
    """

    def __init__(self) -> None:
        self.after = ""
        """The last job of the page before the next; "" for the first page."""
        self.seen: set[str] = set()
        """The jobs of the pages up to now."""
        self.behind: set[Place] = set()
        """The objects of jobs without a place on earlier pages: a younger job of such an object must not overtake them."""
        self._left = 0

    def is_repeated_by(self, job_ids: Iterable[str]) -> bool:
        """Tell whether a page repeats jobs of an earlier page: the control plane has returned to the first page."""
        return not self.seen.isdisjoint(job_ids)

    def ends_with(self, job_ids: Iterable[str], *, left: int, full: bool) -> bool:
        """Take a page with `left` jobs without a place, and tell whether it is the last page."""
        ids = [job_id for job_id in job_ids if job_id]
        self.seen.update(ids)
        self._left += left
        if not full or not ids or not 0 < self._left < MOST_LEFT:
            return True
        self.after = ids[-1]
        return False
