"""The `capsule_*` metrics: the state of each pool and claim at its last reconcile, collected at scrape time.

Guarantees: names, labels and help are declared in `words`. The series of a pool or claim replace all of its earlier series, so none remains
of a deleted namespace, claim or pool (X15); a process that does not lead any more shows none at all. Installations that share one `Metrics`
share one collector. A percentage with a zero divisor is omitted. `pool_series` and `claim_series` are pure.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, TypeAlias

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from konverge.metrics import Metrics
from konverge.quantities import WHOLE
from konverge.reconcilers.quota import words
from konverge.reconcilers.quota.claims.conditions import CONDITION_TYPES, condition_fields
from konverge.reconcilers.quota.claims.decision import ClaimDecision
from konverge.reconcilers.quota.claims.queue import place_after
from konverge.reconcilers.quota.pools.account import NamespaceAllocation
from konverge.reconcilers.quota.pools.allocate import PoolAllocation
from konverge.reconcilers.quota.pools.ledger import SLICE
from konverge.reconcilers.quota.pools.release import summed
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView, PoolView
from konverge.reconcilers.quota.words import METRICS, METRICS_OF_V014, Metric, QuotaCondition, Semantics
from konverge.runtime import ConditionUpdate

__all__ = ["QuotaMetrics", "claim_series", "namespace_series", "pool_series"]

Series: TypeAlias = dict[tuple[Metric, tuple[str, ...]], float]
"""Values by metric and label values."""


def pool_series(pool: PoolView, allocation: PoolAllocation, conditions: Iterable[ConditionUpdate]) -> Series:
    """Return the series of a pool, the use of its namespaces aside."""
    name, series = pool.name, Series()
    for resource, quantity in pool.hard.items():
        hard, used = quantity.billionths, allocation.used[resource]
        labels = (name, resource)
        series[words.POOL_LIMIT, labels] = float(quantity)
        series[words.POOL_AVAILABLE, labels] = allocation.available[resource] / WHOLE
        series[words.POOL_USAGE, labels] = used / WHOLE
        series[words.POOL_RESOURCE, labels] = 1.0
        if hard:
            series[words.POOL_USAGE_PERCENTAGE, labels] = used / hard * 100
    for resource, (available, requesting) in allocation.exhaustions.items():
        series[words.POOL_EXHAUSTION, (name, resource)] = requesting / WHOLE
        if 0 < available < requesting:
            series[words.POOL_EXHAUSTION_PERCENTAGE, (name, resource)] = (requesting - available) / available * 100
    for condition in conditions:
        series[words.POOL_CONDITION, (name, condition.type)] = float(bool(condition.status))
    return series


def namespace_series(pool: PoolView, namespace: str, entries: Iterable[AllocatedClaim]) -> Series:
    """Return the series of a namespace's use of a pool."""
    series = Series()
    for resource, amount in summed(entries).items():
        labels = (pool.name, namespace, resource)
        series[words.POOL_NAMESPACE_USAGE, labels] = amount / WHOLE
        total = pool.hard.get(resource)
        if total is not None and total.billionths:
            series[words.POOL_NAMESPACE_USAGE_PERCENTAGE, labels] = amount / total.billionths * 100
    return series


def claim_series(claim: ClaimView, decision: ClaimDecision, pool: str, semantics: str = Semantics.V012) -> Series:
    """Return the series of a claim.

    One series for each condition type: 1 on Bound if the claim is allocated, otherwise 1 on Assigned, so that a sum over
    `condition="Bound"` counts the bound claims, as Capsule's dashboards do; with the semantics of v0.14, 1 on each type that is True.
    """
    series = Series()
    path = (claim.name, claim.namespace)
    for resource, amount in claim.amounts.items():
        series[words.CLAIM_RESOURCE, (*path, resource)] = amount / WHOLE
    if semantics == Semantics.V014:
        shown = {type_: status for type_, status, *_ in condition_fields(decision)}
        for type_ in CONDITION_TYPES:
            series[words.CLAIM_CONDITION_OF_V014, (*path, type_)] = float(shown.get(type_, False))
        if pool:
            series[words.CLAIM_POOL, (*path, pool)] = 1.0
        return series
    for type_ in (QuotaCondition.ASSIGNED, QuotaCondition.BOUND):
        labels = (*path, type_, str(decision.status), decision.reason, pool)
        series[words.CLAIM_CONDITION, labels] = float(decision.bound == (type_ == QuotaCondition.BOUND))
    return series


class PoolShown:
    """The series of a pool, and the allocations that they show."""

    def __init__(self, pool: PoolView, claims: dict[str, set[tuple[str, str]]]) -> None:
        self.pool = pool
        self.series = Series()
        self.namespaces: dict[str, NamespaceAllocation] = {}
        self.usage: dict[str, Series] = {}
        self.claims = claims
        """By namespace the claims that the pool had last."""


class QuotaMetrics(Collector):
    """The collector of the family's metrics."""

    def __init__(self, semantics: str = Semantics.V012) -> None:
        self._semantics = semantics
        self._metrics = METRICS_OF_V014 if semantics == Semantics.V014 else METRICS
        self._pools: dict[str, PoolShown] = {}
        self._claims: dict[tuple[str, str], tuple[Any, Series]] = {}

    @classmethod
    def within(cls, metrics: Metrics, semantics: str = Semantics.V012) -> QuotaMetrics:
        """Return the collector of a `Metrics`, registered on first use."""
        collector = metrics.shared.get(cls)
        if not isinstance(collector, cls):
            collector = metrics.shared[cls] = cls(semantics)
            metrics.registry.register(collector)
        return collector

    def set_pool(
        self, pool: PoolView, allocation: PoolAllocation, conditions: Iterable[ConditionUpdate]
    ) -> Generator[None, None, list[tuple[str, str]]]:
        """Replace the series of a pool and of its claims that changed; returns the claims that it no longer has. Yields between slices."""
        shown = self._pools.get(pool.name)
        if shown is None or shown.pool != pool:
            shown = PoolShown(pool, {} if shown is None else shown.claims)
            self._pools[pool.name] = shown
        shown.series = pool_series(pool, allocation, conditions)
        now, before = allocation.namespaces, shown.namespaces
        left = [*shown.claims.keys() - now.keys()]
        changed = [(name, each) for name, each in now.items() if before.get(name) is not each]
        gone: list[tuple[str, str]] = []
        for namespace in left:
            gone += shown.claims.pop(namespace)
        for namespace in before.keys() - now.keys():
            del shown.namespaces[namespace], shown.usage[namespace]
        for number, (namespace, allocated) in enumerate(changed):
            if number and number % SLICE == 0:
                yield
            shown.usage[namespace] = namespace_series(pool, namespace, allocated.entries)
            for claim in allocated.claims:
                decision = allocated.decisions.get(claim.uid)
                if decision is not None:
                    self.set_claim(claim, decision, place_after(claim, decision, pool).name)
            paths = {(claim.namespace, claim.name) for claim in allocated.claims}
            gone += shown.claims.get(namespace, set()) - paths
            shown.claims[namespace] = paths
            shown.namespaces[namespace] = allocated
        return gone

    def remove_pool(self, pool: str) -> None:
        """Remove the series of a pool."""
        self._pools.pop(pool, None)

    def set_claim(self, claim: ClaimView, decision: ClaimDecision, pool: str) -> None:
        """Replace the series of a claim."""
        path = (claim.namespace, claim.name)
        state = (decision, pool, claim.version)
        known = self._claims.get(path)
        if known is None or known[0] != state:
            self._claims[path] = (state, claim_series(claim, decision, pool, self._semantics))

    def remove_claim(self, namespace: str, name: str) -> None:
        """Remove the series of a claim."""
        self._claims.pop((namespace, name), None)

    def clear(self) -> None:
        """Remove all series: the process does not lead any more."""
        self._pools.clear()
        self._claims.clear()

    def describe(self) -> list[GaugeMetricFamily]:
        """Return the metric families without values."""
        return list(self._families().values())

    def collect(self) -> list[GaugeMetricFamily]:
        """Return the metric families with their present values."""
        families = self._families()
        all_series: list[Mapping[tuple[Metric, tuple[str, ...]], float]] = []
        for shown in self._pools.values():
            all_series += [shown.series, *shown.usage.values()]
        all_series += [series for _, series in self._claims.values()]
        for series in all_series:
            for (metric, labels), value in series.items():
                families[metric.name].add_metric(labels, value)
        return list(families.values())

    def _families(self) -> dict[str, GaugeMetricFamily]:
        return {
            metric.name: GaugeMetricFamily(metric.name, metric.help, labels=metric.labels) for metric in self._metrics
        }
