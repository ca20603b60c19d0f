"""The rules of the ClusterRoles for users: who may read and who may write each kind of an operator. Pure.

Guarantees: a kind is in the role `edit` only if its declaration names tenants as its writers, so a new kind is closed to them. The role
`view` leaves out kinds whose spec may hold a secret. No role allows writes of a status or of another subresource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from konverge.crds.declaration import Declaration

__all__ = ["user_rules"]

_READ: Final = ["get", "list", "watch"]
_WRITE: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def user_rules(declarations: Iterable[Declaration]) -> Mapping[str, list[dict[str, Any]]]:
    """Return the rules by role: `view`, `edit`, `admin`, and `cluster`, the part of `edit` and `admin` about cluster-scoped kinds.

    >>> from konverge.crds.ops_v1alpha1 import Cluster, Operation
    >>> from konverge.crds.resource import declaration_of
    >>> rules = user_rules(declaration_of(model) for model in (Cluster, Operation))
    >>> [[rule["resources"] for rule in rules[role]] for role in ("view", "edit", "admin", "cluster")]
    [[['operations', 'operations/status']], [['operations']], [['clusters']], [['clusters']]]
    """
    kinds = sorted({(kind.group, kind.plural): kind for kind in declarations}.items())
    declared = [declaration for _, declaration in kinds]
    return {
        "view": [_rule(kind, (kind.plural, f"{kind.plural}/status"), _READ) for kind in declared if kind.viewable],
        "edit": [_rule(kind, (kind.plural,), _WRITE) for kind in declared if kind.written_by == "tenants"],
        "admin": [_rule(kind, (kind.plural,), _WRITE) for kind in declared if kind.written_by == "administrators"],
        "cluster": [_rule(kind, (kind.plural,), _WRITE) for kind in declared if not kind.namespaced],
    }


def _rule(declaration: Declaration, resources: Iterable[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [declaration.group], "resources": list(resources), "verbs": list(verbs)}
