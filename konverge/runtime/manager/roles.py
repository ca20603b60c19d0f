"""The roles with a process's rules: `konverge rbac` prints them, and the lab grants them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from konverge.rbac import Rule, cluster_role, narrowed_roles

__all__ = ["roles_for"]


_OF_THE_PROCESS: Final = ("apps", "coordination.k8s.io", "events.k8s.io")
"""The groups of a process's own objects: the StatefulSet of its pods, its Leases, and Events about them."""


def roles_for(name: str, rules: Iterable[Rule], namespace: str = "") -> list[dict[str, Any]]:
    """Return the roles of a process that watches one namespace, or the whole cluster ("")."""
    needed = tuple(rules)
    roles = [cluster_role(name, needed, namespace=namespace)]
    if namespace and (of_cluster := [rule for rule in needed if rule.cluster_wide]):
        roles.append(cluster_role(name, of_cluster))
    # A process that watches one namespace reads nothing in other namespaces, but its Lease and its certificates may be there.
    elsewhere = (rule for rule in needed if not namespace or (rule.namespace != namespace and _of_its_own(rule)))
    return roles + narrowed_roles(name, elsewhere)


def _of_its_own(rule: Rule) -> bool:
    """Whether a rule is about objects of the process itself; the rules of its certificates and Leases have names."""
    return bool(rule.names) or rule.group in _OF_THE_PROCESS
