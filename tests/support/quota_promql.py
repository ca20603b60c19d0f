"""What an expression of PromQL speaks of, read without an evaluator: metrics, labels, and the values that it asks labels for.

Promises: `strays` names every word of an expression that `words.py` of the quota family does not declare: a metric, a label of a metric in
braces, a label that the metrics in reach of a grouping do not all have, a value of the labels condition, status and reason.

Does not promise: that the expression is legal; promtool says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from konverge.reconcilers.quota.words import METRICS, MetricLabel, Reason, Type

__all__ = ["grouped", "metrics_in", "strays"]

KNOWN = {metric.name: metric for metric in METRICS}
_METRIC = re.compile(r"\b(capsule_\w+)\s*(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_OUTER = re.compile(r"^\s*(?:count\()?\s*\w+ by \(([^)]*)\)")
_VALUES = {
    MetricLabel.CONDITION: {Type.ASSIGNED, Type.BOUND, Type.READY, Type.EXHAUSTED},
    MetricLabel.STATUS: {"True", "False", "Unknown"},
    MetricLabel.REASON: {value for name, value in vars(Reason).items() if name.isupper()},
}


def metrics_in(expression: str) -> set[str]:
    """Return the metrics that an expression names.

    >>> metrics_in('max by (pool) (capsule_pool_usage{pool="a"} / capsule_pool_limit)') == {"capsule_pool_usage", "capsule_pool_limit"}
    True
    """
    return {found[1] for found in _METRIC.finditer(expression)}


def grouped(expression: str) -> tuple[str, ...]:
    """Return the labels that the outermost aggregation of an expression keeps.

    >>> grouped("max by (pool, resource) (capsule_pool_usage) > 0.9")
    ('pool', 'resource')
    """
    found = _OUTER.match(expression)
    return _names(found[1]) if found else ()


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def strays(expression: str) -> list[str]:
    """Return what an expression says that the words do not declare.

    >>> strays('max by (node) (capsule_pool_usage{zone="a"}) > capsule_pool_size')
    ['metric capsule_pool_size', 'label zone of capsule_pool_usage', 'label node in a grouping']
    """
    return [*_metrics(expression), *_matchers(expression), *_groupings(expression)]


def _metrics(expression: str) -> Iterator[str]:
    yield from (f"metric {name}" for name in sorted(metrics_in(expression) - KNOWN.keys()))


def _matchers(expression: str) -> Iterator[str]:
    for found in _METRIC.finditer(expression):
        metric = KNOWN.get(found[1])
        for label, operator, value in _MATCHER.findall(found[2] or ""):
            if metric is not None and label not in metric.labels:
                yield f"label {label} of {metric.name}"
            # An empty value asks for series without the label.
            if operator in {"=", "!="} and value and value not in _VALUES.get(label, {value}):
                yield f"value {value} of label {label}"


def _groupings(expression: str) -> Iterator[str]:
    for found in _GROUPING.finditer(expression):
        reach = _operand(expression, found.end()) or expression
        known = [set(KNOWN[name].labels) for name in metrics_in(reach) if name in KNOWN]
        common = set.intersection(*known) if known else set()
        yield from (f"label {label} in a grouping" for label in _names(found[1]) if label not in common)


def _operand(expression: str, start: int) -> str:
    """Return what stands in parentheses behind a grouping, "" where nothing does."""
    begin = start + len(expression[start:]) - len(expression[start:].lstrip())
    depth = 0
    for position in range(begin, len(expression)):
        depth += {"(": 1, ")": -1}.get(expression[position], 0)
        if depth == 0:
            return expression[begin:position]
    return ""
