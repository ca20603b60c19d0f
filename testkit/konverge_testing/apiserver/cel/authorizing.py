"""The authorizer library: checks of rights in match conditions (`authorizer.group('').resource('pods').check('get').allowed()`).

Guarantees: a check calls the function that `authorizing` sets for an evaluation; without such a function every check fails. Values are
passed through expressions as maps with one entry, the name of the type. Source: k8s.io/apiserver `pkg/cel/library/authz.go`.

Caveats: field and label selectors are ignored, as RBAC ignores them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

__all__ = ["AUTHORIZER", "FUNCTIONS", "Authorize", "authorizer_value", "authorizing", "resource_check_value"]

AUTHORIZER: Final = "kubernetes.authorization.Authorizer"
_PATH: Final = "kubernetes.authorization.PathCheck"
_GROUP: Final = "kubernetes.authorization.GroupCheck"
_RESOURCE: Final = "kubernetes.authorization.ResourceCheck"
_DECISION: Final = "kubernetes.authorization.Decision"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST: Final = 253

Value: TypeAlias = dict[str, Any]
Authorize: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, str]], tuple[bool, str]]
"""Takes userInfo, and the attributes of a request (verb and path, or verb, group, resource and the like); returns whether it is allowed
and why."""

_authorize: ContextVar[Authorize] = ContextVar("authorize")


@contextmanager
def authorizing(authorize: Authorize) -> Iterator[None]:
    """Set the function that decides the checks of expressions, for the duration of the context."""
    token = _authorize.set(authorize)
    try:
        yield
    finally:
        _authorize.reset(token)


def authorizer_value(user: Mapping[str, Any]) -> Value:
    """Return the variable `authorizer` for a user, given as userInfo."""
    return {AUTHORIZER: dict(user)}


def resource_check_value(user: Mapping[str, Any], attributes: Mapping[str, str]) -> Value:
    """Return a check of a resource: group, resource, subresource, namespace and name."""
    return {_RESOURCE: {"user": dict(user), **attributes}}


def _content_of(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise TypeError("no such overload")
    return value[name]


def _path(value: Value, path: str) -> Value:
    if not path.strip():
        raise ValueError("path must not be empty")
    return {_PATH: {"user": _content_of(value, AUTHORIZER), "path": path}}


def _group(value: Value, group: str) -> Value:
    return {_GROUP: {"user": _content_of(value, AUTHORIZER), "group": group}}


def _service_account(value: Value, namespace: str, name: str) -> Value:
    _content_of(value, AUTHORIZER)
    if len(name) > _LONGEST or not _SUBDOMAIN.fullmatch(name):
        raise ValueError("Invalid service account name")
    if not _LABEL.fullmatch(namespace):
        raise ValueError("Invalid service account namespace")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return {AUTHORIZER: {"username": f"system:serviceaccount:{namespace}:{name}", "groups": groups}}


def _resource(value: Value, resource: str) -> Value:
    if not resource.strip():
        raise ValueError("resource must not be empty")
    return {_RESOURCE: {**_content_of(value, _GROUP), "resource": resource}}


def _with(field: str) -> Callable[[Value, str], Value]:
    return lambda value, text: {_RESOURCE: {**_content_of(value, _RESOURCE), field: text}}


def _check(value: Value, verb: str) -> Value:
    asked = dict(_content_of(value, _PATH if _PATH in value else _RESOURCE))
    user = asked.pop("user")
    allowed, reason = _authorize.get()(user, {**asked, "verb": verb})
    return {_DECISION: {"allowed": allowed, "reason": reason}}


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "path": _path,
    "group": _group,
    "serviceAccount": _service_account,
    "resource": _resource,
    "subresource": _with("subresource"),
    "namespace": _with("namespace"),
    "name": _with("name"),
    "fieldSelector": lambda value, _: {_RESOURCE: _content_of(value, _RESOURCE)},
    "labelSelector": lambda value, _: {_RESOURCE: _content_of(value, _RESOURCE)},
    "check": _check,
    "allowed": lambda value: _content_of(value, _DECISION)["allowed"],
    "reason": lambda value: _content_of(value, _DECISION)["reason"],
    "errored": lambda value: not _content_of(value, _DECISION),
    "error": lambda value: "" if _content_of(value, _DECISION) else "unknown",
}
"""The functions by their names. The authorizer of this server never fails, so decisions have no errors."""
