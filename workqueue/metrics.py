"""What the queue measures, without naming who collects it.

Source of the rules: https://github.com/kubernetes/client-go/blob/master/util/workqueue/metrics.go, and
https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/controller/priorityqueue/metrics.go, so that dashboards
made for those read ours. Two of their gauges, unfinished work and the longest running worker, are ages: they are computed on
demand by `statistics()` instead of being pushed.
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
        """An entry became ready. An add that merged into a ready entry does not count; a delayed one counts when its time comes."""

    def depth(self, priority: int, entries: int) -> None:
        """So many entries of this priority now are ready, those included whose key is still in work; 0 when the last one left."""

    def waited(self, seconds: float) -> None:
        """An entry was handed out this long after it became ready (its deliberate delay is not part of it)."""

    def worked(self, seconds: float) -> None:
        """A worker called `done` this long after it was given the key."""

    def retried(self) -> None:
        """A key was added with a delay, whether after a failure or because somebody wants to look again later."""


class NoMetrics:
    """Measures nothing: the null object, and a base for collectors that want only some measures.

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
