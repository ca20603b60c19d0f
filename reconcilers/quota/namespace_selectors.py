"""Which namespaces a pool selects.

Guarantees: pure. Selectors are ORed, the parts of one selector are ANDed. An empty selector selects nothing
(docs/reference/capsule.md#objects; elsewhere in Kubernetes it selects everything), and so does a pool without selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from konverge.crds.quota_v1beta2 import LabelSelector, LabelSelectorRequirement

__all__ = ["selects"]


def selects(selectors: Iterable[LabelSelector], labels: Mapping[str, str]) -> bool:
    """Whether one of the selectors matches these labels.

    >>> selects([LabelSelector()], {"a": "b"}), selects([LabelSelector(match_labels={"a": "b"})], {"a": "b"})
    (False, True)
    """
    return any(_matches(selector, labels) for selector in selectors)


def _matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    if not selector.match_labels and not selector.match_expressions:
        return False
    return all(labels.get(name) == value for name, value in selector.match_labels.items()) and all(
        _holds(requirement, labels) for requirement in selector.match_expressions
    )


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
