"""Role, ClusterRole, RoleBinding and ClusterRoleBinding.

Source: `pkg/apis/rbac/{v1/defaults,validation/validation}.go`, `pkg/registry/rbac/*/strategy.go`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    invalid,
    missing_in,
    not_supported,
    required,
    selector_errors,
    text_errors,
    unreadable,
)

__all__ = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


class Role(BuiltInStrategy):
    """Rules, within a namespace."""

    name_rule = "path"
    allow_create_on_update = True
    namespaced = True

    def _errors(self, new: Data, _old: Data | None) -> Errors:
        errors: Errors = []
        for index, rule in enumerate(new.get("rules") or ()):
            errors += _rule_errors(rule, f"rules[{index}]", self.namespaced)
        return errors


class ClusterRole(Role):
    """Rules, everywhere; maybe gathered from other cluster roles."""

    namespaced = False

    def _errors(self, new: Data, old: Data | None) -> Errors:
        errors = super()._errors(new, old)
        if new.get("aggregationRule") is None:
            return errors
        path, selectors = (
            "aggregationRule.clusterRoleSelectors",
            new["aggregationRule"].get("clusterRoleSelectors") or [],
        )
        if not selectors:
            errors.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
        for index, selector in enumerate(selectors):
            errors += selector_errors(selector, f"{path}[{index}]")
            if unreadable(selector):
                errors.append(invalid(f"{path}[{index}]", None, "invalid label selector."))
        return errors


def _rule_errors(rule: Data, path: str, namespaced: bool) -> Errors:
    errors: Errors = [] if rule.get("verbs") else [required(f"{path}.verbs", "verbs must contain at least one value")]
    urls, where = rule.get("nonResourceURLs"), f"{path}.nonResourceURLs"
    if urls:
        if namespaced:
            errors.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            errors.append(invalid(where, urls, "rules cannot apply to both regular resources and non-resource URLs"))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


class RoleBinding(BuiltInStrategy):
    """RoleBinding: the subjects of a role within a namespace."""

    name_rule = "path"
    allow_create_on_update = True
    namespaced = True
    roles: tuple[str, ...] = ("Role", "ClusterRole")

    def _default(self, new: Data) -> None:
        reference = new.setdefault("roleRef", {})
        reference["apiGroup"] = reference.get("apiGroup") or _GROUP
        for subject in new.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP

    def _errors(self, new: Data, old: Data | None) -> Errors:
        reference = new.get("roleRef") or {}
        errors: Errors = []
        for name, allowed in (("apiGroup", (_GROUP,)), ("kind", self.roles)):
            if reference.get(name, "") not in allowed:
                errors.append(not_supported(f"roleRef.{name}", reference.get(name, ""), allowed))
        errors += missing_in(reference, "roleRef", "name")
        errors += text_errors("roleRef.name", reference.get("name", ""), names.path_segment)
        for index, subject in enumerate(new.get("subjects") or ()):
            errors += _subject_errors(subject, f"subjects[{index}]", self.namespaced)
        if old is not None and reference != (old.get("roleRef") or {}):
            shown = Struct(
                APIGroup=reference.get("apiGroup", ""),
                Kind=reference.get("kind", ""),
                Name=reference.get("name", ""),
            )
            errors.append(invalid("roleRef", shown, "cannot change roleRef"))
        return errors


class ClusterRoleBinding(RoleBinding):
    """ClusterRoleBinding: the subjects of a cluster role in all namespaces."""

    namespaced = False
    roles = ("ClusterRole",)


def _subject_errors(subject: Data, path: str, namespaced: bool) -> Errors:
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    errors = missing_in(subject, path, "name")
    if kind not in _SUBJECTS:
        return [*errors, not_supported(f"{path}.kind", kind, _SUBJECTS)]
    wanted = "" if kind == "ServiceAccount" else _GROUP
    if kind == "ServiceAccount" and subject.get("name"):
        errors += text_errors(f"{path}.name", subject["name"], names.dns1123_subdomain)
    if group != wanted:
        errors.append(not_supported(f"{path}.apiGroup", group, (wanted,)))
    if kind == "ServiceAccount" and not namespaced:
        errors += missing_in(subject, path, "namespace")
    return errors
