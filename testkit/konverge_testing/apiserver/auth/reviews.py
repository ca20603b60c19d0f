"""Access reviews: SubjectAccessReview and its three relatives, body in and body out.

Guarantees: pure apart from authorization checks. An invalid body is refused with the server's message. Selectors in resourceAttributes are
checked for their shape and otherwise ignored, as RBAC does. The rules are those of Kubernetes' `pkg/registry/authorization` and
`pkg/apis/authorization/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.auth.attributes import Attributes
from konverge_testing.apiserver.auth.rbac import Rbac, listed
from konverge_testing.apiserver.requests import User
from konverge_testing.apiserver.statuses import FieldError, bad_request, invalid

__all__ = ["review_access", "review_local_access", "review_own_access", "review_own_rules"]

Data: TypeAlias = dict[str, Any]

_GROUP: Final = "authorization.k8s.io"
_WHERE: Final = {"resource": "spec.resourceAttributes", "path": "spec.nonResourceAttributes"}


def review_access(rbac: Rbac, body: Data) -> Data:
    """Serve a SubjectAccessReview."""
    return _reviewed(rbac, body, _subject(body), [*_spec_errors(body, whole=True), *_metadata_errors(body, ())])


def review_local_access(rbac: Rbac, body: Data, namespace: str) -> Data:
    """Serve a LocalSubjectAccessReview in a namespace."""
    errors = [*_spec_errors(body, whole=True), *_metadata_errors(body, ("namespace",))]
    spec = body.get("spec") or {}
    resource = spec.get("resourceAttributes")
    if resource is not None and resource.get("namespace", "") != namespace:
        words = "must match metadata.namespace"
        where = "spec.resourceAttributes.namespace"
        errors.append(FieldError("Invalid", where, resource.get("namespace", ""), words))
    if spec.get("nonResourceAttributes") is not None:
        words = "disallowed on this kind of request"
        errors.append(
            FieldError("Invalid", _WHERE["path"], _non_resource_attributes(spec["nonResourceAttributes"]), words)
        )
    return _reviewed(rbac, body, _subject(body), errors)


def review_own_access(rbac: Rbac, user: User, body: Data) -> Data:
    """Serve a SelfSubjectAccessReview."""
    return _reviewed(rbac, body, user, [*_spec_errors(body, whole=False), *_metadata_errors(body, ())])


def review_own_rules(rbac: Rbac, user: User, body: Data) -> Data:
    """Serve a SelfSubjectRulesReview. Rights of the group system:masters are not rules and are not listed."""
    namespace = (body.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise bad_request("no namespace on request")
    rules, problems = rbac.rules_for(user, namespace)
    resource = [
        _present(verbs=rule.verbs, apiGroups=rule.groups, resources=rule.resources, resourceNames=rule.names)
        for rule in rules
        if rule.resources
    ]
    urls = [_present(verbs=rule.verbs, nonResourceURLs=rule.urls) for rule in rules if rule.urls]
    status: Data = {"resourceRules": resource, "nonResourceRules": urls, "incomplete": False}
    if problems:
        status["evaluationError"] = listed(problems)
    head = {"kind": body.get("kind"), "apiVersion": body.get("apiVersion")}
    return {**head, "metadata": {}, "spec": {}, "status": status}


def _present(**lists: tuple[str, ...]) -> Data:
    return {name: list(values) for name, values in lists.items() if values}


def _reviewed(rbac: Rbac, body: Data, user: User, errors: list[FieldError]) -> Data:
    if errors:
        # The server's internal type has no kind, and the message shows that type.
        raise invalid(_GROUP, "", "", errors)
    decision = rbac.allows(user, _attributes_of(body["spec"]))
    status: Data = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**body, "status": status}


def _attributes_of(spec: Data) -> Attributes:
    asked = spec.get("resourceAttributes")
    if asked is None:
        other = spec["nonResourceAttributes"]
        return Attributes(other.get("verb", ""), path=other.get("path", ""))
    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(*(str(asked.get(name, "")) for name in names))


def _subject(body: Data) -> User:
    spec = body.get("spec") or {}
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _spec_errors(body: Data, *, whole: bool) -> list[FieldError]:
    spec: Mapping[str, Any] = body.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: list[FieldError] = []
    if resource is not None and path is not None:
        words = "cannot be specified in combination with resourceAttributes"
        errors.append(FieldError("Invalid", _WHERE["path"], _non_resource_attributes(path), words))
    if resource is None and path is None:
        words = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(FieldError("Invalid", _WHERE["resource"], None, words))
    if whole and not spec.get("user") and not spec.get("groups"):
        errors.append(FieldError("Invalid", "spec.user", "", "at least one of user or group must be specified"))
    return errors


def _non_resource_attributes(path: Data) -> Data:
    """Return nonResourceAttributes as the server's internal type prints them."""
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _metadata_errors(body: Data, allowed: tuple[str, ...]) -> list[FieldError]:
    metadata = body.get("metadata") or {}
    if all(key in (*allowed, "managedFields") or not value for key, value in metadata.items()):
        return []
    words = "must be empty except for namespace" if allowed else "must be empty"
    return [FieldError("Invalid", "metadata", metadata, words)]
