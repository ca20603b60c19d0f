"""Checks of labels, annotations and label selectors, and how a selector selects.

Guarantees: pure. Source: k8s.io/apimachinery `pkg/apis/meta/v1/validation`, `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.errors import Errors, forbidden, invalid, required, too_long
from konverge_testing.apiserver.strategies.rules import Rule, at, each, given, struct, text

__all__ = [
    "annotation_errors",
    "label_errors",
    "operator_errors",
    "requirement",
    "selector_errors",
    "selects",
    "shown_selector",
    "unreadable",
]

_key: Final = text(names.label_key)
_value: Final = text(names.label_value)
_ANNOTATIONS_LIMIT: Final = 256 * 1024
_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def label_errors(labels: Mapping[str, str] | None, path: str) -> Errors:
    """Check keys and values of labels."""
    errors: Errors = []
    for key, value in (labels or {}).items():
        errors += _key(key, path) + _value(value, path)
    return errors


def annotation_errors(annotations: Mapping[str, str] | None, path: str) -> Errors:
    """Check keys and the size of annotations."""
    items = (annotations or {}).items()
    errors = [invalid(path, key, message) for key, _ in items for message in names.label_key(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in items)
    return errors + ([too_long(path, _ANNOTATIONS_LIMIT)] if size > _ANNOTATIONS_LIMIT else [])


def operator_errors(expression: Any, path: str) -> Errors:
    """Check the operator of a requirement, and whether it has values."""
    operator, values = expression.get("operator", ""), expression.get("values")
    if operator in ("In", "NotIn"):
        return [] if values else [required(f"{path}.values", _VALUES)]
    if operator in ("Exists", "DoesNotExist"):
        return [forbidden(f"{path}.values", _NO_VALUES)] if values else []
    return [invalid(f"{path}.operator", operator, "not a valid selector operator")]


def requirement(operator: Rule = operator_errors, *, values: bool = True) -> Rule:
    """Return the rules of a requirement of a selector, with rules for its operator and maybe for its values."""
    table = struct(operator, at("key", _key))
    return struct(table, at("values", each(_value))) if values else table


selector_errors: Final = struct(
    given("matchLabels", label_errors),
    given("matchExpressions", each(requirement())),
)
"""The rules of a label selector."""


def unreadable(selector: Mapping[str, Any] | None) -> bool:
    """Return whether a label selector cannot be evaluated."""
    return bool(selector_errors(selector, ""))


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Return whether a label selector matches; None matches nothing, an empty selector everything."""
    if selector is None:
        return False
    known = labels or {}
    if any(known.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_fulfils(expression, known) for expression in selector.get("matchExpressions") or ())


def _fulfils(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or []
    return {
        "In": labels.get(key) in values,
        "NotIn": key not in labels or labels[key] not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }.get(expression.get("operator", ""), False)


def shown_selector(selector: Mapping[str, Any] | None) -> Struct | None:
    """Return a selector as an error shows it: fields in the order of the Go struct."""
    if selector is None:
        return None
    labels, order = selector.get("matchLabels"), ("key", "operator", "values")
    expressions = [
        Struct({name: expression[name] for name in order if name in expression})
        for expression in selector.get("matchExpressions") or ()
    ]
    shown = Struct({"matchLabels": labels} if labels else {})
    shown.update({"matchExpressions": expressions} if expressions else {})
    return shown
