"""PromQL in tests: the metrics and labels that an expression names, read without an evaluator, and its value, by promtool.

Guarantees: `Declared.strays` names every word of an expression that is not declared: a metric, a label of a metric in braces, a label that
the metrics in reach of a grouping do not all have, a label value where all values are known. `evaluate` returns what Prometheus computes.

Caveats: `strays` does not say whether the expression is legal; promtool does. A metric is recognised by its first word (`konverge_`), so a
metric without the first word of a declared metric is not noticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from prometheus_client import CollectorRegistry
from promtool import run_promtool

_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_CHOICE = re.compile(r"\b(?:and|unless) on \([^()]*\) \w+(?:\{[^}]*\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[(){}\[\]]|\b(?P<operator>and|or|unless)\b')
_COMPARISON = re.compile(r"\s*(?:==|!=|[<>]=?)\s*-?[0-9.e]+\s*$")
_OUTER = re.compile(r"^\s*(?:count\()?\s*\w+ by \(([^)]*)\)")


def grouped(expression: str) -> tuple[str, ...]:
    """Return the labels that the outermost aggregation of an expression keeps.

    >>> grouped("max by (pool, resource) (capsule_pool_usage) > 0.9")
    ('pool', 'resource')
    """
    found = _OUTER.match(expression)
    return _names(found[1]) if found else ()


def kept(expression: str) -> set[str]:
    """Return the labels that any part of an expression aggregates by.

    >>> sorted(kept("sum by (method, code) (rate(a[5m])) / sum by (code) (b)"))
    ['code', 'method']
    """
    return {label for found in _BY.finditer(expression) for label in _names(found[1])}


def filled(expression: str) -> str:
    """Return an expression as Grafana sends it if every value of each variable is chosen."""
    return re.sub(r"\$\w+", ".*", expression)


def operands(expression: str) -> list[str]:
    """Return the operands of an alert: its parts between and, or and unless, each without its comparison with a number.

    An alert is empty if all is well; its operands have values then too, unless a metric or label does not exist. Comparisons inside of
    parentheses stay, since they select series.

    >>> operands("max by (pool) (usage / (limit > 0)) > 0.9")
    ['max by (pool) (usage / (limit > 0))']
    >>> operands('sum(depth) > 100 and sum(deriv(depth[15m])) > 0 or a{b="c or d"} == 1')
    ['sum(depth)', 'sum(deriv(depth[15m]))', 'a{b="c or d"}']
    """
    parts, start, depth = [], 0, 0
    for token in _TOKEN.finditer(expression):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0 and token["operator"]:
            parts.append(expression[start : token.start()])
            start = token.end()
    return [_COMPARISON.sub("", part).strip() for part in (*parts, expression[start:])]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True)
class Declared:
    """The existing metrics: their labels by name, the known values of some labels, and the labels that Prometheus adds itself.

    >>> known = Declared({"capsule_pool_usage": {"pool"}, "capsule_pool_limit": {"pool"}})
    >>> known.metrics_in('max by (pool) (capsule_pool_usage{pool="a"} / capsule_pool_limit)') == known.labels.keys()
    True
    >>> known.strays('max by (node) (capsule_pool_usage{zone="a"}) > capsule_pool_size')
    ['metric capsule_pool_size', 'label zone of capsule_pool_usage', 'label node in a grouping']
    """

    labels: Mapping[str, Collection[str]]
    values: Mapping[str, Collection[str]] = field(default_factory=dict)
    scraped: Collection[str] = ()

    @cached_property
    def _metric(self) -> re.Pattern[str]:
        words = "|".join(sorted({name.partition("_")[0] for name in self.labels}))
        return re.compile(rf"\b((?:{words})_\w+)\s*(?:\{{([^}}]*)\}})?")

    def metrics_in(self, expression: str) -> set[str]:
        """Return the metrics that an expression names, declared or not."""
        return {found[1] for found in self._metric.finditer(expression)}

    def strays(self, expression: str) -> list[str]:
        """Return the words of an expression that are not declared."""
        unknown = (f"metric {name}" for name in sorted(self.metrics_in(expression) - self.labels.keys()))
        return [*unknown, *self._matchers(expression), *self._groupings(expression)]

    def _matchers(self, expression: str) -> Iterator[str]:
        for found in self._metric.finditer(expression):
            labels = self.labels.get(found[1])
            for label, operator, value in _MATCHER.findall(found[2] or ""):
                if labels is not None and label not in labels and label not in self.scraped:
                    yield f"label {label} of {found[1]}"
                # An empty value selects series without the label.
                if operator in {"=", "!="} and value and value not in self.values.get(label, {value}):
                    yield f"value {value} of label {label}"

    def _groupings(self, expression: str) -> Iterator[str]:
        for found in _GROUPING.finditer(expression):
            reach = _operand(expression, found.end()) or expression
            # The right side of `and on (...)` chooses series, and gives them no labels.
            named = self.metrics_in(_CHOICE.sub("", reach))
            known = [set(self.labels[name]) for name in named if name in self.labels]
            common = (set.intersection(*known) if known else set()) | set(self.scraped)
            yield from (f"label {label} in a grouping" for label in _names(found[1]) if label not in common)


def _operand(expression: str, start: int) -> str:
    """Return the labels in parentheses after a grouping, "" without parentheses."""
    begin = start + len(expression[start:]) - len(expression[start:].lstrip())
    depth = 0
    for position in range(begin, len(expression)):
        depth += {"(": 1, ")": -1}.get(expression[position], 0)
        if depth == 0:
            return expression[begin:position]
    return ""


class Scrapes:
    """Scrapes of a registry at equal intervals, as promtool reads series."""

    def __init__(self, registry: CollectorRegistry, **labels: str) -> None:
        self._registry = registry
        self._labels = labels
        self._series: dict[str, list[str]] = {}
        self._taken = 0

    def take(self) -> None:
        """Scrape once."""
        for family in self._registry.collect():
            for sample in family.samples:
                labels = ",".join(
                    f"{name}={json.dumps(value)}" for name, value in (sample.labels | self._labels).items()
                )
                values = self._series.setdefault(f"{sample.name}{{{labels}}}", [])
                values += ["_"] * (self._taken - len(values)) + [repr(float(sample.value))]
        self._taken += 1

    @property
    def series(self) -> dict[str, str]:
        """The values of each series, "_" for each scrape that it was not in."""
        return {
            name: " ".join([*values, *["_"] * (self._taken - len(values))]).replace("inf", "Inf").replace("nan", "NaN")
            for name, values in self._series.items()
        }


_LABELS = r'\w+="(?:[^"\\]|\\.)*"'
_SAMPLE = re.compile(rf"\{{((?:{_LABELS}(?:, )?)*)\}} ([^\s,]+)")
_NO_RESULT = {"labels": '{of="no result"}', "value": 0}
"""promtool prints the results that were not expected: this one never is the right one."""


def evaluate(
    expressions: Sequence[str], series: Mapping[str, str], *, at: str, interval: str, folder: Path
) -> list[dict[str, float]]:
    """Return the result of each expression at a time, its values by labels: `{'{pool="a"}': 1.0}`; {} is an empty result.

    `series` holds values at the interval, as in the unit tests of promtool, which computes the results.
    """
    test = {
        "interval": interval,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": one, "eval_time": at, "exp_samples": [_NO_RESULT]} for one in expressions],
    }
    path = folder / "evaluate.yaml"
    path.write_text(json.dumps({"tests": [test]}))
    done = run_promtool("test", "rules", path)
    told = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    found = [line.removeprefix("got:") for line in told if line.startswith("got:")]
    if len(found) != len(expressions):
        raise AssertionError(f"promtool computed {len(found)} of {len(expressions)} expressions:\n" + "\n".join(told))
    return [{f"{{{labels}}}": float(value) for labels, value in _SAMPLE.findall(line)} for line in found]
