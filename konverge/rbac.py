"""RBAC rules as data, and the roles that hold them. Pure.

A plural is the plural that the kind declares, else a guess as in apimachinery `meta.UnsafeGuessKindToResource`; a running manager gets
the plural from discovery.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from konverge.kinds import Kind

__all__ = ["READ", "Rule", "cluster_role", "merged", "narrowed_roles", "plural_of"]

READ: Final = ("get", "list", "watch")
"""The verbs of a controller that reads a kind from a cache and live."""


class Rule(msgspec.Struct, frozen=True):
    """One RBAC rule: these verbs on these resources of this group ("" is the core group), limited to `names` if there are any.

    >>> Rule("", ("secrets",), ("get",)).to_dict()
    {'apiGroups': [''], 'resources': ['secrets'], 'verbs': ['get']}
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str = ""
    """The only namespace of the rule; empty: every namespace that the manager watches."""
    cluster_wide: bool = False
    """Whether the resources belong to no namespace, so that the rule needs a ClusterRole even if one namespace is watched."""

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as rbac.authorization.k8s.io/v1 writes it."""
        rule: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule


def plural_of(kind: Kind[Any]) -> str:
    """Return the plural that a kind declares, else the guess of Kubernetes."""
    if kind.plural:
        return kind.plural
    word = kind.kind.lower()
    if word.endswith("endpoints"):
        return word
    if word.endswith("s"):
        return word + "es"
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + "s"


def merged(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the same rights with one rule for each resource, and resources of equal verbs in one rule; sorted."""
    verbs: dict[tuple[str, str, tuple[str, ...], str, bool], set[str]] = defaultdict(set)
    for rule in rules:
        for resource in rule.resources:
            verbs[rule.group, resource, rule.names, rule.namespace, rule.cluster_wide] |= set(rule.verbs)
    together: dict[tuple[str, tuple[str, ...], tuple[str, ...], str, bool], list[str]] = defaultdict(list)
    for (group, resource, names, namespace, wide), allowed in verbs.items():
        together[group, tuple(sorted(allowed)), names, namespace, wide].append(resource)
    return tuple(
        Rule(group, tuple(sorted(resources)), allowed, names, namespace, wide)
        for (group, allowed, names, namespace, wide), resources in sorted(
            together.items(), key=lambda item: (item[0][0], item[1], item[0])
        )
    )


def cluster_role(name: str, rules: Iterable[Rule], *, namespace: str = "") -> dict[str, Any]:
    """Return a ClusterRole, or a Role if a namespace is given.

    It omits the rules of another namespace, and a Role also omits rules of cluster-wide resources.
    """
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    held = (rule for rule in rules if rule.namespace in ("", namespace) and not (namespace and rule.cluster_wide))
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": metadata,
        "rules": [rule.to_dict() for rule in merged(held)],
    }


def narrowed_roles(name: str, rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Return the namespaced Roles for the rules that `cluster_role` omits."""
    by_namespace: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        if rule.namespace:
            by_namespace[rule.namespace].append(rule)
    return [cluster_role(name, by_namespace[namespace], namespace=namespace) for namespace in sorted(by_namespace)]
