"""Role, ClusterRole, RoleBinding and ClusterRoleBinding.

Source: `pkg/apis/rbac/{v1/defaults,validation/validation}.go`, `pkg/registry/rbac/*/strategy.go`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.errors import Data, Errors, invalid
from konverge_testing.apiserver.strategies.labels import selector_errors, unreadable
from konverge_testing.apiserver.strategies.rules import Rule, Table, among, at, each, filled, given, need, struct, text

__all__ = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]

_GROUP: Final = "rbac.authorization.k8s.io"
_verbs: Final = need("verbs", detail="verbs must contain at least one value")
_resources: Final = struct(
    need("apiGroups", detail="resource rules must supply at least one api group"),
    need("resources", detail="resource rules must supply at least one resource"),
)


def _urls(namespaced: bool) -> Rule:
    def check(rule: Data, path: str) -> Errors:
        urls, where = rule.get("nonResourceURLs"), f"{path}.nonResourceURLs"
        if not urls:
            return _resources(rule, path)
        errors: Errors = []
        if namespaced:
            errors.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            errors.append(invalid(where, urls, "rules cannot apply to both regular resources and non-resource URLs"))
        return errors

    return check


def _readable(selector: Data, path: str) -> Errors:
    return [invalid(path, None, "invalid label selector.")] if unreadable(selector) else []


class Role(BuiltInStrategy):
    """Role: rules within a namespace."""

    name_rule = "path"
    allow_create_on_update = True
    rules = struct(at("rules", each(_verbs, _urls(namespaced=True))))


class ClusterRole(BuiltInStrategy):
    """ClusterRole: rules in all namespaces, maybe aggregated from other cluster roles."""

    name_rule = "path"
    allow_create_on_update = True
    rules = struct(
        at("rules", each(_verbs, _urls(namespaced=False))),
        given(
            "aggregationRule",
            need(
                "clusterRoleSelectors",
                each(selector_errors, _readable),
                detail="at least one clusterRoleSelector required if aggregationRule is non-nil",
            ),
        ),
    )


def _subject(namespaced: bool) -> Rule:
    account = struct(filled("name", text(names.dns1123_subdomain)), at("apiGroup", among("")))
    if not namespaced:
        account = struct(account, need("namespace"))
    user = at("apiGroup", among(_GROUP))
    kind = among("ServiceAccount", "User", "Group")

    def check(subject: Data, path: str) -> Errors:
        wrong = kind(subject.get("kind"), f"{path}.kind")
        return wrong or (account if subject["kind"] == "ServiceAccount" else user)(subject, path)

    return struct(need("name"), check)


def _binding(*kinds: str, namespaced: bool) -> Table:
    reference = struct(at("apiGroup", among(_GROUP)), at("kind", among(*kinds)), need("name"))
    name = at("name", text(names.path_segment))
    return struct(at("roleRef", reference, name), at("subjects", each(_subject(namespaced))))


class RoleBinding(BuiltInStrategy):
    """RoleBinding: the subjects of a role within a namespace."""

    name_rule = "path"
    allow_create_on_update = True
    defaults = (("roleRef.apiGroup+", _GROUP),)
    rules = _binding("Role", "ClusterRole", namespaced=True)

    def _default(self, new: Data) -> None:
        super()._default(new)
        for subject in new.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP

    def _frozen(self, new: Data, old: Data) -> Errors:
        reference = new.get("roleRef") or {}
        if reference == (old.get("roleRef") or {}):
            return []
        group, kind, name = (reference.get(field, "") for field in ("apiGroup", "kind", "name"))
        return [invalid("roleRef", Struct(APIGroup=group, Kind=kind, Name=name), "cannot change roleRef")]


class ClusterRoleBinding(RoleBinding):
    """ClusterRoleBinding: the subjects of a cluster role in all namespaces."""

    rules = _binding("ClusterRole", namespaced=False)
