"""Which namespaces may take an instance. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from konverge.crds.pools_v1alpha1 import AllowedNamespaces
from konverge.selectors import Operator, Requirement

__all__ = ["ANY_NAMESPACE", "allowed", "allows", "may_create"]

ANY_NAMESPACE: Final = "*"
_OPERATORS: Final[dict[str, Operator]] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def allowed(stored: Any) -> AllowedNamespaces | None:
    """Return the field allowedNamespaces of a stored object; None if it is missing or unreadable, which allows no namespace."""
    try:
        return AllowedNamespaces.model_validate(stored) if isinstance(stored, Mapping) else None
    except ValueError:
        return None


def allows(rule: AllowedNamespaces | None, namespace: str, labels: Mapping[str, str] | None) -> bool:
    """Whether a namespace with these labels is allowed; without a rule none is, and a selector allows none whose labels are unknown.

    >>> allows(AllowedNamespaces.model_validate({"from": "Names", "names": ["a"]}), "a", {}), allows(None, "a", {})
    (True, False)
    """
    if rule is None:
        return False
    if rule.from_ == "All":
        return True
    if rule.from_ == "Names":
        return namespace in (rule.names or ())
    if rule.selector is None or labels is None:
        return False
    equal = [Requirement(key, "in", frozenset({value})) for key, value in rule.selector.match_labels.items()]
    more = [
        Requirement(clause.key, _OPERATORS[clause.operator], frozenset(clause.values))
        for clause in rule.selector.match_expressions
    ]
    return bool(equal or more) and all(requirement.matches(labels) for requirement in (*equal, *more))


def may_create(namespaces: Collection[str], namespace: str) -> bool:
    """Whether a Nextcloud of a namespace may have a new instance without a pool.

    >>> may_create(("*",), "a"), may_create(("a",), "a"), may_create((), "a")
    (True, True, False)
    """
    return ANY_NAMESPACE in namespaces or namespace in namespaces
