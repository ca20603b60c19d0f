"""The metrics of one controller and of its work queue; each series is looked up once.

Guarantees: the two gauges that are ages (unfinished work, longest running) are computed at the scrape, on any thread. Controllers of one
name that share their metrics add up; of the ages of the longest running the greatest is shown.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from functools import lru_cache

from konverge.metrics import RESULTS, Metrics
from konverge.runtime.controller.aftermath import RequeueDecision
from konverge.tallies import LoopCounter
from konverge.words import Why

__all__ = ["BARRIER_RESULTS", "ControllerMetrics", "MAX_PRIORITIES", "PrometheusQueue"]


BARRIER_RESULTS = ("shown", "timeout")
"""The values of the label `result` of waits for own writes; both exist at 0 from the start of a controller."""

_WORDS: tuple[str, ...] = tuple(word for name, word in vars(Why).items() if name.isupper())


class ControllerMetrics:
    """Counts the reconciles of one controller. Controllers of one name that share their metrics add up."""

    def __init__(self, metrics: Metrics, controller: str, *, workers: int) -> None:
        self._metrics = metrics
        self._controller = controller
        self.active = 0
        """Workers that reconcile a key now."""
        self._results = {
            result: metrics.reconcile_total.labels(controller=controller, result=result) for result in RESULTS
        }
        self._errors = metrics.reconcile_errors.labels(controller=controller)
        self._terminal = metrics.terminal_errors.labels(controller=controller)
        self._panics = metrics.panics.labels(controller=controller)
        self._timeouts = metrics.timeouts.labels(controller=controller)
        self._seconds = metrics.reconcile_seconds.labels(controller=controller)
        self._stale = metrics.stale_skips.labels(controller=controller)
        self._waited = {
            result: metrics.barrier_waits.labels(controller=controller, result=result) for result in BARRIER_RESULTS
        }
        # At 0 from the start, since a rate shows no first event of a series that begins with it.
        metrics.blocking_calls.labels(controller=controller)
        self._decode_errors = metrics.decode_errors.labels(controller=controller)
        self._reasons: dict[str, LoopCounter] = {}
        together = self._together = _sharing(metrics, controller)
        # Computed at a scrape.
        metrics.active_workers.labels(controller=controller).set_function(
            lambda: sum(member.active for member in tuple(together))
        )
        metrics.max_concurrent.labels(controller=controller).set(workers)

    def open(self) -> None:
        """Show the active workers of this controller."""
        self._together.append(self)

    def close(self) -> None:
        """Remove this controller from the gauge of active workers."""
        self._together.remove(self)

    def reconciled(
        self, decision: RequeueDecision, duration: float, reasons: tuple[str, ...], *, invalid: bool
    ) -> None:
        """Count one reconcile; `invalid`: the object did not decode."""
        self._results[decision.result].count += 1
        self._seconds.observe(duration)
        for word in {_word(reason) for reason in reasons}:
            counter = self._reasons.get(word)
            if counter is None:  # a series begins with its first reconcile
                counter = self._reasons[word] = self._metrics.reasons.labels(controller=self._controller, reason=word)
            counter.count += 1
        if invalid:
            self._decode_errors.inc()
        if not decision.failed:
            return
        self._errors.inc()
        if decision.terminal:
            self._terminal.inc()
        if decision.timeout:
            self._timeouts.inc()
        if decision.unexpected:
            self._panics.inc()

    def gone(self) -> None:
        """Count the key of a deleted object."""
        self._results["success"].inc()

    def defect(self) -> None:
        """Count an exception of the runtime itself."""
        self._panics.inc()

    def waits(self) -> None:
        """Count a reconcile that was delayed because the cache did not show the controller's own writes."""
        self._stale.inc()

    def waited(self, result: str) -> None:
        """Count the end of such a wait: one of `BARRIER_RESULTS`."""
        self._waited[result].inc()


def _sharing(metrics: Metrics, controller: str) -> list[ControllerMetrics]:
    shared: list[ControllerMetrics] = metrics.shared.setdefault((ControllerMetrics, controller), [])
    return shared


@lru_cache(maxsize=1024)  # nearly all reconciles have one of a few reasons
def _word(reason: str) -> str:
    """Return the first words of a reason, without names: a label value of bounded variety."""
    return next((word for word in _WORDS if reason.startswith(word)), "other")


MAX_PRIORITIES = 25
"""So many values of the label `priority` at most; then `exceeded_cardinality_limit`, as controller-runtime."""
_EXCEEDED = "exceeded_cardinality_limit"


class PrometheusQueue:
    """`QueueMetrics` for one controller; the label children are looked up once. Create it on the queue's loop."""

    def __init__(self, metrics: Metrics, controller: str) -> None:
        self._metrics = metrics
        self._labels = {"name": controller, "controller": controller}
        self._now = asyncio.get_running_loop().time
        self._adds = metrics.queue_adds.labels(**self._labels)
        self._retries = metrics.queue_retries.labels(**self._labels)
        self._waits = metrics.queue_seconds.labels(**self._labels)
        self._works = metrics.work_seconds.labels(**self._labels)
        self._shown: set[int] = set()
        self._beyond: set[int] = set()
        self._depth_of: dict[int, int] = {}
        # When the work in progress began; the queue's own figures belong to its loop, and a scrape may run in another thread.
        self._begun: list[float] = []
        self._together: list[PrometheusQueue] = metrics.shared.setdefault((PrometheusQueue, controller), [])

    def open(self) -> None:
        """Let the ages be computed whenever they are scraped, and show a depth from the start."""
        self._together.append(self)
        self.depth(0, 0)
        together = self._together
        self._metrics.unfinished_seconds.labels(**self._labels).set_function(
            lambda: sum(sum(member.ages()) for member in tuple(together))
        )
        self._metrics.longest_running.labels(**self._labels).set_function(
            lambda: max((max(member.ages(), default=0.0) for member in tuple(together)), default=0.0)
        )

    def close(self) -> None:
        """Remove this queue's share of depths and ages."""
        for priority in tuple(self._depth_of):
            self.depth(priority, 0)
        if self in self._together:
            self._together.remove(self)

    def ages(self) -> list[float]:
        """Return for how long each reconcile in progress has been running."""
        now = self._now()
        return [max(0.0, now - begun) for begun in tuple(self._begun)]

    def added(self) -> None:
        """Count an entry that became ready."""
        self._adds.count += 1

    def depth(self, priority: int, entries: int) -> None:
        """Set the depth of one priority; beyond 25 values all others share one label."""
        if priority not in self._shown and priority not in self._beyond:
            self._add_series(priority)
        self._depth_of[priority] = entries
        if not entries and priority in self._beyond:  # bounds the memory if a caller computes priorities
            del self._depth_of[priority]
            self._beyond.discard(priority)

    def _add_series(self, priority: int) -> None:
        """Have the depth of this priority computed when it is scraped, for all queues of this name together."""
        known = len(self._shown) < MAX_PRIORITIES
        (self._shown if known else self._beyond).add(priority)
        gauge = self._metrics.queue_depth.labels(**self._labels, priority=str(priority) if known else _EXCEEDED)
        together = self._together
        if known:
            gauge.set_function(
                lambda: sum(
                    member._depth_of.get(priority, 0) for member in tuple(together) if priority in member._shown
                )
            )
        else:
            gauge.set_function(lambda: sum(member._beyond_depth() for member in tuple(together)))

    def _beyond_depth(self) -> int:
        return sum(self._depth_of.get(priority, 0) for priority in tuple(self._beyond))

    def waited(self, seconds: float) -> None:
        """Observe how long an entry was ready before it was handed out; its work begins."""
        self._waits.observe(seconds)
        self._begun.append(self._now())

    def worked(self, seconds: float) -> None:
        """Observe how long a reconcile took."""
        self._works.observe(seconds)
        begun = self._begun
        if begun:
            # In order of time: each start is appended when the work begins, a moment after the queue read its clock.
            began = self._now() - seconds
            after = bisect_left(begun, began)
            if after == len(begun) or (after and began - begun[after - 1] < begun[after] - began):
                after -= 1
            del begun[after]

    def retried(self) -> None:
        """Count a delayed add."""
        self._retries.inc()
