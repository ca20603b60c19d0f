"""Policy rules: what they allow, whether they cover other rules, how they aggregate, how they are printed. Pure.

The rules are those of Kubernetes' `pkg/apis/rbac/v1/evaluation_helpers.go`, of k8s.io/component-helpers `auth/rbac/validation`, of
`pkg/registry/rbac/validation/policy_compact.go` and of the aggregation controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from konverge_testing.apiserver.auth.attributes import Attributes
from konverge_testing.apiserver.golang import quoted

__all__ = ["EVERYTHING", "PolicyRule", "aggregated", "compacted", "selects", "uncovered"]

Data: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One PolicyRule, its lists as tuples in their written order."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> PolicyRule:
        """Read a rule from a Role."""
        keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(data.get(key) or ()) for key in keys))

    def allows(self, wanted: Attributes) -> bool:
        """Tell whether the rule allows something."""
        if not _has(self.verbs, wanted.verb):
            return False
        if not wanted.is_resource:
            return any(_url_covers(url, wanted.path) for url in self.urls)
        if self.names and wanted.name not in self.names:
            return False
        return _has(self.groups, wanted.group) and self._names_resource(wanted.resource, wanted.subresource)

    def _names_resource(self, resource: str, subresource: str) -> bool:
        if not subresource:
            return _has(self.resources, resource)
        return _has(self.resources, f"{resource}/{subresource}") or f"*/{subresource}" in self.resources

    def parts(self) -> Iterable[PolicyRule]:
        """Split the rule into rules of one verb, one group, one resource and at most one name, or of one URL."""
        for group, resource, verb in product(self.groups, self.resources, self.verbs):
            for name in self.names or ("",):
                yield PolicyRule((verb,), (group,), (resource,), (name,) if name else ())
        for url, verb in product(self.urls, self.verbs):
            yield PolicyRule((verb,), urls=(url,))

    def covers(self, part: PolicyRule) -> bool:
        """Tell whether the rule allows everything that a part (see `parts`) allows."""
        return (
            ("*" in self.verbs or set(part.verbs) <= set(self.verbs))
            and ("*" in self.groups or set(part.groups) <= set(self.groups))
            and all(self._covers_resource(resource) for resource in part.resources)
            and (not self.names or (bool(part.names) and set(part.names) <= set(self.names)))
            and all(any(_url_covers(own, url) for own in self.urls) for url in part.urls)
        )

    def _covers_resource(self, resource: str) -> bool:
        if _has(self.resources, resource):
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def __str__(self) -> str:
        named = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.urls,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in named.items() if values) + "}"


EVERYTHING = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), urls=("*",)))


def _has(values: Sequence[str], wanted: str) -> bool:
    return wanted in values or "*" in values


def _url_covers(own: str, url: str) -> bool:
    return own == url or own == "*" or (own.endswith("*") and url.startswith(own.rstrip("*")))


def uncovered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the parts of the wanted rules that no owned rule covers."""
    parts = (part for rule in wanted for part in rule.parts())
    return [part for part in parts if not any(rule.covers(part) for rule in owned)]


def compacted(parts: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merge parts that differ only in their verbs."""
    joined: dict[tuple[object, ...], PolicyRule] = {}
    for part in parts:
        # Rules for URLs are not merged with other rules.
        key = (part.verbs, part.urls) if part.urls else (part.groups, part.resources, part.names)
        found = joined.get(key)
        verbs = part.verbs if found is None else found.verbs + part.verbs
        joined[key] = PolicyRule(verbs, part.groups, part.resources, part.names, part.urls)
    return list(joined.values())


# -- aggregation ------------------------------------------------------------------------------------------------------


def aggregated(role: Data, roles: Sequence[Data]) -> list[Data] | None:
    """Return the rules that aggregation gives a ClusterRole among all of them; None if it has no aggregationRule.

    The rules are in the order of the roles' names, each role with its own aggregated rules; equal rules appear once.
    """
    return _aggregated(role, sorted(roles, key=_name), frozenset())


def _aggregated(role: Data, roles: Sequence[Data], above: frozenset[str]) -> list[Data] | None:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return None
    rules: list[Data] = []
    above |= {_name(role)}
    for other in roles:
        labels = other["metadata"].get("labels") or {}
        if _name(other) not in above and any(selects(selector, labels) for selector in selectors):
            # The controller needs several writes for this; here a role that itself aggregates is resolved at once.
            found = _aggregated(other, roles, above)
            own = found if found is not None else other.get("rules") or ()
            rules += [rule for rule in own if rule not in rules]
    return rules


def _name(role: Data) -> str:
    return str(role["metadata"]["name"])


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Tell whether a `metav1.LabelSelector` matches; an empty one matches everything."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(clause, labels) for clause in selector.get("matchExpressions") or ())


def _holds(clause: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(clause["key"]), clause.get("values") or ()
    match clause["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
