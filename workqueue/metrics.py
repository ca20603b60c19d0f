"""The metrics of the queue, as an interface that its user implements.

The rules are from https://github.com/kubernetes/client-go/blob/master/util/workqueue/metrics.go, and
https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/controller/priorityqueue/metrics.go, so that their
dashboards work with ours. Two of their gauges, unfinished work and the longest running worker, are ages: `statistics()` computes
them on demand.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["NoMetrics", "QueueMetrics"]


class QueueMetrics(Protocol):
    """Receives each measure as it happens; must be quick and must not raise.

    >>> class CountAdds(NoMetrics):
    ...     adds = 0
    ...     def added(self) -> None:
    ...         self.adds += 1
    """

    def added(self) -> None:
        """An entry became ready. An add that merged into a ready entry does not count; a delayed add counts when it is due."""

    def depth(self, priority: int, entries: int) -> None:
        """The number of ready entries of this priority changed; entries held by a key in work count."""

    def waited(self, seconds: float) -> None:
        """An entry was handed out this long after it became ready; its delay before that does not count."""

    def worked(self, seconds: float) -> None:
        """A worker called `done` this long after it got the key."""

    def retried(self) -> None:
        """A key was added with a delay, by a failure or by a requeue."""


class NoMetrics:
    """Ignores all metrics; a base class for collectors of some of them.

    >>> NoMetrics().added()
    """

    def added(self) -> None:
        """Count nothing."""

    def depth(self, priority: int, entries: int) -> None:
        """Set nothing."""

    def waited(self, seconds: float) -> None:
        """Observe nothing."""

    def worked(self, seconds: float) -> None:
        """Observe nothing."""

    def retried(self) -> None:
        """Count nothing."""
