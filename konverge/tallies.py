"""Counters and histograms that the event loop counts in as plain numbers, and that a scrape reads.

prometheus_client takes a lock for each number, since its metrics may be changed by any thread, and looks for the bucket of an observation
from the first on. A changed object is counted a dozen times, always by the loop.

Guarantees: series, samples and label children are prometheus_client's, so is the meaning of a bucket. A scrape may run in another thread.

Caveats: `LoopCounter.count` and `LoopHistogram.observe` are for one thread at a time. From other threads count with `inc`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import Counter, Histogram
from prometheus_client.samples import Sample

__all__ = ["LoopCounter", "LoopHistogram"]


class LoopCounter(Counter):
    """A counter with a plain `count` beside it; a scrape shows their sum.

    >>> counter = LoopCounter("things", "Things", registry=None)
    >>> counter.count += 2
    >>> counter.inc()
    >>> [sample.value for sample in counter.collect()[0].samples if sample.name == "things_total"]
    [3.0]
    """

    def _metric_init(self) -> None:
        super()._metric_init()
        self.count = 0
        """The number that the loop counted."""

    def _child_samples(self) -> Iterable[Sample]:
        total, *rest = super()._child_samples()
        return (total._replace(value=total.value + self.count), *rest)


class LoopHistogram(Histogram):
    """A histogram whose observations are plain additions.

    >>> seconds = LoopHistogram("wait_seconds", "Waits", registry=None, buckets=(1, 5))
    >>> seconds.observe(1), seconds.observe(7)
    (None, None)
    >>> [sample.value for sample in seconds.collect()[0].samples if sample.name == "wait_seconds_bucket"]
    [1.0, 1.0, 2.0]
    """

    def _metric_init(self) -> None:
        super()._metric_init()
        self._counts = [0] * len(self._upper_bounds)
        self._total = 0.0

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Count an observation in its bucket."""
        if exemplar is not None:
            super().observe(amount, exemplar)
            return
        self._counts[bisect_left(self._upper_bounds, amount)] += 1
        self._total += amount

    def _child_samples(self) -> Iterable[Sample]:
        buckets = list(accumulate(self._counts))
        added = {"_bucket": iter(buckets), "_count": iter(buckets[-1:]), "_sum": iter((self._total,))}
        for sample in super()._child_samples():
            yield sample._replace(value=sample.value + next(added.get(sample.name, iter((0,)))))
