"""The metrics of informers.

Guarantees: gauges are computed at the scrape, so they cost nothing per event. Informers with the same labels (one kind in two namespaces,
two managers with one `Metrics`) are added up; ages are the maximum. The series of some labels are removed when the last informer with these
labels stops.

Names and labels of `informer_*`:
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5647-stale-controller-handling
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from prometheus_client import Counter, Gauge, Histogram

from konverge.client import ResourceInfo
from konverge.kinds import Kind
from konverge.metrics import Metrics

__all__ = ["Meters", "GaugeSource"]

_VERSION_DIGITS = 15


class GaugeSource(Protocol):
    """An informer as the source of gauges; called by the thread of the scrape."""

    def measure(self) -> dict[str, float]:
        """Return values by the names in `_KIND_GAUGES` and `_INFORMER_GAUGES`."""


# Name of the value, the function that combines the values of several informers, and the gauge.
_KIND_GAUGES: tuple[tuple[str, Callable[[list[float]], float], str], ...] = (
    ("objects", sum, "cached_objects"),
    ("bytes", sum, "cached_bytes"),
    ("watch_age", max, "watch_age"),
    ("silence", max, "watch_silence"),
)
_INFORMER_GAUGES: tuple[tuple[str, Callable[[list[float]], float], str], ...] = (
    ("queued", sum, "informer_queued"),
    ("version", max, "informer_version"),
)


class _Series(msgspec.Struct):
    """The informers that report under one set of labels, and the label sets that they added to counters."""

    sources: list[GaugeSource] = msgspec.field(default_factory=list)
    counted: set[tuple[Counter | Histogram, tuple[str, ...]]] = msgspec.field(default_factory=set)

    def value(self, name: str, together: Callable[[list[float]], float]) -> float:
        numbers = [values[name] for source in tuple(self.sources) if name in (values := source.measure())]
        return together(numbers) if numbers else 0.0


class Meters:
    """The metrics of one informer, from `start` to `stop`; `name` is its manager's."""

    def __init__(self, metrics: Metrics, name: str, kind: Kind[Any], source: GaugeSource) -> None:
        self._metrics = metrics
        self._name = name
        self._kind = (kind.group, kind.version, kind.kind)
        self._resource: tuple[str, ...] | None = None
        self._source = source
        self.latency: Histogram | None = None
        """Observes the seconds from the arrival of a change to the end of its delivery; None until discovery has found the resource."""

    def start(self) -> None:
        """Begin to report by kind."""
        self._join(self._kind, _KIND_GAUGES)

    def discovered(self, info: ResourceInfo) -> None:
        """Begin to report by resource, whose name discovery has returned."""
        if self._resource is not None:
            return
        self._resource = (self._name, info.group, info.version, info.plural)
        series = self._join(self._resource, _INFORMER_GAUGES)
        series.counted.add((self._metrics.informer_latency, self._resource))
        self.latency = self._metrics.informer_latency.labels(*self._resource)

    def stop(self) -> None:
        """Stop to report, and remove the series if no other informer reports under the labels."""
        self.latency = None
        self._leave(self._kind, _KIND_GAUGES)
        if self._resource is not None:
            self._leave(self._resource, _INFORMER_GAUGES)

    def restarted(self, cause: str) -> None:
        """Count a restarted list or watch."""
        self._count(self._metrics.watch_restarts, (*self._kind, cause))

    def fell_back(self, cause: str) -> None:
        """Count a streaming list that was replaced by a plain one."""
        self._count(self._metrics.watchlist_fallbacks, (*self._kind, cause))

    def handler_failed(self) -> None:
        """Count an exception of a handler."""
        self._count(self._metrics.informer_handler_errors, self._kind)

    def _count(self, counter: Counter, labels: tuple[str, ...]) -> None:
        series = self._all().get(self._kind)
        if series is not None:
            series.counted.add((counter, labels))
            counter.labels(*labels).inc()

    def _all(self) -> dict[tuple[str, ...], _Series]:
        series: dict[tuple[str, ...], _Series] = self._metrics.shared.setdefault(Meters, {})
        return series

    def _join(
        self, labels: tuple[str, ...], gauges: tuple[tuple[str, Callable[[list[float]], float], str], ...]
    ) -> _Series:
        series = self._all().get(labels)
        if series is None:
            series = self._all()[labels] = _Series()
            for number, together, gauge in gauges:
                child: Gauge = getattr(self._metrics, gauge).labels(*labels)
                child.set_function(_reader(series, number, together))
        series.sources.append(self._source)
        return series

    def _leave(
        self, labels: tuple[str, ...], gauges: tuple[tuple[str, Callable[[list[float]], float], str], ...]
    ) -> None:
        series = self._all().get(labels)
        if series is None or self._source not in series.sources:
            return
        series.sources.remove(self._source)
        if series.sources:
            return
        del self._all()[labels]
        for _, _, gauge in gauges:
            getattr(self._metrics, gauge).remove(*labels)
        for counter, counted in series.counted:
            counter.remove(*counted)


def _reader(series: _Series, number: str, together: Callable[[list[float]], float]) -> Callable[[], float]:
    return lambda: series.value(number, together)


def version_number(version: str) -> float:
    """Return the last 15 digits of a version as a number, 0 if it is not numeric.

    >>> version_number("1234567890123456789")
    567890123456789.0
    """
    return float(version[-_VERSION_DIGITS:]) if version.isascii() and version.isdigit() else 0.0
