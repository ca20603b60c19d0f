"""Plain counters and histograms show the samples of prometheus_client."""

import math

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from konverge.tallies import LoopCounter, LoopHistogram

BOUNDS = (0.005, 0.1, 1, 60)


def exposed(registry: CollectorRegistry) -> str:
    """Return what a scrape shows, without the moments of creation."""
    return "\n".join(line for line in generate_latest(registry).decode().splitlines() if "_created" not in line)


@pytest.mark.parametrize("labels", [{}, {"host": "a"}])
@pytest.mark.parametrize("amounts", [[], [0.0, 0.005, 0.0050001, 1, 59.9, 60, 61, math.inf], [0.25] * 1000])
def test_histogram_shows_the_samples_of_prometheus_client(amounts: list[float], labels: dict[str, str]) -> None:
    scrapes = []
    for of in (Histogram, LoopHistogram):
        registry = CollectorRegistry()
        parent = of("wait_seconds", "Waits", tuple(labels), registry=registry, buckets=BOUNDS)
        histogram = parent.labels(**labels) if labels else parent
        for amount in amounts:
            histogram.observe(amount)
        histogram.observe(3, {"trace": "7"})
        scrapes.append(exposed(registry))
    assert scrapes[0] == scrapes[1]


def test_counter_shows_the_sum_of_its_plain_count_and_its_increments() -> None:
    scrapes = []
    for of in (Counter, LoopCounter):
        registry = CollectorRegistry()
        counter = of("things", "Things", ("host",), registry=registry).labels(host="a")
        counter.inc(2)
        if isinstance(counter, LoopCounter):
            counter.count += 1
        else:
            counter.inc()
        scrapes.append(exposed(registry))
    assert scrapes[0] == scrapes[1]
    assert 'things_total{host="a"} 3.0' in scrapes[1]
