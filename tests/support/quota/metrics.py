"""The metrics that queries about the quota family may name: the family's own from `words.py`, with labels and the values of some labels."""

from promql import Declared

from konverge.reconcilers.quota.words import METRICS, MetricLabel, QuotaCondition, QuotaReason

OF_THE_LIBRARY: dict[str, tuple[str, ...]] = {
    "controller_runtime_reconcile_total": ("controller", "result"),
    "controller_runtime_reconcile_time_seconds_bucket": ("controller", "le"),
}
"""Metrics of its two controllers."""

DECLARED = Declared(
    {metric.name: metric.labels for metric in METRICS} | OF_THE_LIBRARY,
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
