"""The check against privilege escalation on writes of Roles and bindings: a user can grant only rights that the user holds.

Guarantees: pure apart from reading roles. Raises the server's 403 with its list of missing rights. The rules are those of Kubernetes'
`pkg/registry/rbac/escalation_check.go`, `pkg/registry/rbac/*/policybased/storage.go` and `pkg/registry/rbac/validation/rule.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.auth.attributes import Attributes
from konverge_testing.apiserver.auth.rbac import GROUP, MASTERS, Rbac, listed
from konverge_testing.apiserver.auth.rules import EVERYTHING, PolicyRule, compacted, uncovered
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.requests import User
from konverge_testing.apiserver.statuses import forbidden, not_found

__all__ = ["GUARDED", "require_no_escalation"]

Data: TypeAlias = dict[str, Any]

GUARDED: Final = frozenset({"clusterrolebindings", "clusterroles", "rolebindings", "roles"})
"""The resources of the group rbac.authorization.k8s.io whose writes are checked."""

_UNGUARDED_METADATA: Final = ("finalizers", "managedFields", "ownerReferences")


def require_no_escalation(
    rbac: Rbac, user: User, plural: str, namespace: str, new: Data, old: Data | None, name: str = ""
) -> None:
    """Raise 403 if a write of a Role or binding would grant more than the writer's rights.

    `name` is the name in the request's path, "" for a POST. `new` is the object to be stored, `old` the stored object; None at creation.
    """
    if MASTERS in user.groups or (old is not None and _only_collector_fields(new, old)):
        return
    if plural in ("roles", "clusterroles"):
        _check_role(rbac, user, plural, namespace, new, old, name)
    elif plural in GUARDED:
        _check_binding(rbac, user, plural, namespace, new)


def _check_role(rbac: Rbac, user: User, plural: str, namespace: str, new: Data, old: Data | None, name: str) -> None:
    if rbac.allows(user, Attributes("escalate", GROUP, "*", plural, namespace=namespace, name=name)).allowed:
        return
    own = str(new["metadata"].get("name", ""))
    if missing := _missing(rbac, user, namespace, [PolicyRule.of(rule) for rule in new.get("rules") or ()]):
        raise forbidden(GROUP, plural, own, missing)
    if (_aggregates(new) or _aggregates(old)) and _missing(rbac, user, namespace, EVERYTHING):
        raise forbidden(GROUP, plural, own, "must have cluster-admin privileges to use the aggregationRule")


def _check_binding(rbac: Rbac, user: User, plural: str, namespace: str, new: Data) -> None:
    reference = new["roleRef"]
    group, kind = str(reference.get("apiGroup", GROUP)), reference.get("kind")
    if kind in ("ClusterRole", "Role"):
        wanted = Attributes("bind", group, "*", f"{kind.lower()}s", namespace=namespace, name=str(reference["name"]))
        if rbac.allows(user, wanted).allowed:
            return
    rules, problem = rbac.rules_of(reference, namespace)
    if problem:
        # The registry reports an absent role as an absent binding.
        raise not_found(GROUP, plural, str(reference.get("name", "")))
    if missing := _missing(rbac, user, namespace, rules):
        raise forbidden(GROUP, plural, str(new["metadata"].get("name", "")), missing)


def _missing(rbac: Rbac, user: User, namespace: str, wanted: Sequence[PolicyRule]) -> str:
    """Return the server's list of the wanted rights that the user does not hold, or ""."""
    owned, problems = rbac.rules_for(user, namespace)
    lacking = uncovered(owned, wanted)
    if not lacking:
        return ""
    lines = sorted({str(rule) for rule in compacted(lacking)})
    text = (
        f"user {quoted(user.name)} (groups={quoted(user.groups)}) is attempting to grant RBAC permissions not currently held:\n"
        + "\n".join(lines)
    )
    return f"{text}; resolution errors: [{listed(problems)}]" if problems else text


def _aggregates(role: Data | None) -> bool:
    return bool(role and (role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_collector_fields(new: Data, old: Data) -> bool:
    """Tell whether a write changes only what the garbage collector changes: such a write needs no further rights."""

    def kept(role: Data) -> Data:
        metadata = {key: value for key, value in role["metadata"].items() if key not in _UNGUARDED_METADATA}
        return {**role, "metadata": metadata}

    return kept(new) == kept(old)
