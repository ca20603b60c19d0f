"""`Attributes`: a request as authorization sees it (verb, resource or path), and the message of its refusal.

Guarantees: pure. `attributes_of` reads them only from the path and method of a call, without the served resources. The rules are those
of k8s.io/apiserver `pkg/endpoints/request/requestinfo.go`, the messages those of `pkg/endpoints/handlers/responsewriters/errors.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.requests import Call, User
from konverge_testing.apiserver.statuses import StatusError, qualified

__all__ = ["Attributes", "attributes_of", "refusal"]

_METHODS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_BY_PATH: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose attributes depend only on the path, not on parameters."""
_NAMESPACE_PARTS: Final = frozenset({"finalize", "status"})


@dataclass(frozen=True, slots=True)
class Attributes:
    """One action of a user: on a resource, or (`path`) on a non-resource URL."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether the request is for a resource."""
        return not self.path


def attributes_of(call: Call) -> Attributes:
    """Read the attributes of a call."""
    if call.method in _BY_PATH:
        return _attributes(call.method, call.path, False, "")
    return _attributes(call.method, call.path, call.query.flag("watch"), call.query.get("fieldSelector"))


@lru_cache(maxsize=4096)
def _attributes(method: str, path: str, watches: bool, selector: str) -> Attributes:
    parts = path.strip("/").split("/")
    verb = _METHODS.get(method, method.lower())
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Attributes(method.lower(), path=path)
    if rest[0] in ("proxy", "watch") and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[0], (*rest, "", "")[1], (*rest, "", "", "")[2]
    if not name and verb in ("get", "delete"):
        verb = {"get": "list", "delete": "deletecollection"}[verb]
        if verb == "list" and watches:
            verb = "watch"
    if not name and verb in ("list", "watch", "deletecollection"):
        name = _selected_name(selector)
    return Attributes(verb, group, version, resource, subresource, namespace, name)


def _selected_name(selector: str) -> str:
    """Return the name that a field selector selects: a right to that name is enough to list or watch it."""
    for clause in selector.split(","):
        key, equals, value = clause.partition("=")
        if equals and key.strip() == "metadata.name":
            return value.removeprefix("=").strip()
    return ""


def refusal(user: User, attributes: Attributes, reason: str = "", *, why: str | None = None) -> StatusError:
    """Return the 403 for a denied request; `reason` is the authorizer's, `why` replaces the explanation."""
    if why is not None:
        return _forbidden(attributes, why)
    words = _refusal_message(user, attributes).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _forbidden(attributes, f"{words}: {reason}" if reason else words)


def _refusal_message(user: User, attributes: Attributes) -> str:
    who = f"User {quoted(user.name)} cannot {attributes.verb}"
    if not attributes.is_resource:
        return f"{who} path {quoted(attributes.path)}"
    what = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    where = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    return f"{who} resource {quoted(what)} in API group {quoted(attributes.group)} {where}"


def _forbidden(attributes: Attributes, why: str) -> StatusError:
    what = qualified(attributes.group, attributes.resource)
    if not what:
        return StatusError(403, "Forbidden", f"forbidden: {why}", details={})
    named = f'{what} "{attributes.name}"' if attributes.name else what
    details = {"name": attributes.name, "group": attributes.group, "kind": attributes.resource}
    return StatusError(
        403,
        "Forbidden",
        f"{named} is forbidden: {why}",
        details={key: value for key, value in details.items() if value},
    )
