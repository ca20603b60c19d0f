"""The metrics of the quota family that queries may name: `words.py` declares their names, labels, and the values of some labels."""

from __future__ import annotations

from promql import Declared

from konverge.reconcilers.quota.words import METRICS, MetricLabel, QuotaCondition, QuotaReason

__all__ = ["DECLARED"]

DECLARED = Declared(
    {metric.name: metric.labels for metric in METRICS},
    {
        MetricLabel.CONDITION: {
            QuotaCondition.ASSIGNED,
            QuotaCondition.BOUND,
            QuotaCondition.READY,
            QuotaCondition.EXHAUSTED,
        },
        MetricLabel.STATUS: {"True", "False", "Unknown"},
        MetricLabel.REASON: {value for name, value in vars(QuotaReason).items() if name.isupper()},
    },
)
