"""Access to metrics as the API server grants it: authentication by TokenReview, authorization by SubjectAccessReview. Pure.

Semantics, rights and durations are the same as in controller-runtime's filter, so ClusterRoles for that filter fit. Two differences: a
token that the API server refuses is a 401 (there it is a 500, since the review names an error), and it is remembered as long as a
denial.

Sources: https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/metrics/filters/filters.go and, of
https://github.com/kubernetes/apiserver/tree/v0.36.3, pkg/authentication/request/bearertoken, pkg/authentication/group,
pkg/authentication/token/cache, plugin/pkg/authorizer/webhook.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from konverge.rbac import Rule

__all__ = [
    "ALLOWED",
    "ALLOWED_SECONDS",
    "DENIED_SECONDS",
    "KNOWN_SECONDS",
    "REVIEW_RULES",
    "SUBJECT_ACCESS_REVIEWS",
    "TOKEN_REVIEWS",
    "UNKNOWN",
    "Access",
    "Caller",
    "Remembered",
    "access_review",
    "bearer_token",
    "caller_in",
    "is_allowed",
    "refusal",
    "token_review",
]

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  # a path
SUBJECT_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_RULES: Final = (
    Rule("authentication.k8s.io", ("tokenreviews",), ("create",), cluster_wide=True),
    Rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",), cluster_wide=True),
)
"""The rights that the reviews need; the ClusterRole system:auth-delegator has them."""

KNOWN_SECONDS: Final = 60.0
"""Seconds that a token's user is remembered."""
ALLOWED_SECONDS: Final = 300.0
"""Seconds that an allowance is remembered."""
DENIED_SECONDS: Final = 30.0
"""Seconds that a denial and a refused token are remembered."""

_BEARER: Final = re.compile(r"(?i:bearer) ([A-Za-z0-9._~+/-]+=*)")
"""RFC 6750, section 2.1."""
_ANONYMOUS: Final = "system:anonymous"
_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"

V = TypeVar("V")


class Access(msgspec.Struct, frozen=True):
    """A decision: an HTTP status, 200 for access, and the text of a refusal."""

    status: int
    text: str = ""


ALLOWED: Final = Access(200)
UNKNOWN: Final = Access(401, "Unauthorized: send the token of a ServiceAccount, as `Authorization: Bearer TOKEN`\n")


class Caller(msgspec.Struct, frozen=True):
    """An authenticated user."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def bearer_token(headers: Sequence[str]) -> str:
    """Return the token in the values of the header Authorization; "" for a malformed token, for several tokens, and without a token.

    >>> bearer_token(["Bearer abc"]), bearer_token(["bearer  abc"]), bearer_token(["Basic abc"]), bearer_token([])
    ('abc', '', '', '')
    """
    if len(headers) != 1:
        return ""
    match = _BEARER.fullmatch(headers[0].strip())
    return match[1] if match else ""


def token_review(token: str) -> dict[str, Any]:
    """Return the TokenReview of a token, for the audiences of the API server."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def caller_in(review: Mapping[str, Any]) -> Caller | None:
    """Return the user that a reviewed token authenticates; None for an unauthenticated token."""
    status = review.get("status") or {}
    user = status.get("user") or {}
    name = user.get("username") or ""
    if status.get("authenticated") is not True or not name:
        return None
    groups = tuple(user.get("groups") or ())
    if name != _ANONYMOUS and not {_AUTHENTICATED, _UNAUTHENTICATED} & set(groups):
        groups = (*groups, _AUTHENTICATED)
    extra = tuple((key, tuple(values)) for key, values in sorted((user.get("extra") or {}).items()))
    return Caller(name, user.get("uid") or "", groups, extra)


def access_review(caller: Caller, verb: str, path: str) -> dict[str, Any]:
    """Return the SubjectAccessReview of a request for a path."""
    spec: dict[str, Any] = {
        "user": caller.name,
        "uid": caller.uid,
        "groups": list(caller.groups),
        "extra": {key: list(values) for key, values in caller.extra},
        "nonResourceAttributes": {"path": path, "verb": verb},
    }
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def is_allowed(review: Mapping[str, Any]) -> bool:
    """Whether a review allows the request; a denial wins over an allowance."""
    status = review.get("status") or {}
    return status.get("allowed") is True and not status.get("denied")


def refusal(caller: Caller, verb: str, path: str) -> Access:
    """Return the response to a user who lacks the right, with its name."""
    return Access(
        403,
        f"Forbidden: {caller.name} may not {verb} {path}; "
        f"bind it to a ClusterRole with nonResourceURLs: [{path}], verbs: [{verb}]\n",
    )


class Remembered(Generic[V]):
    """Values that are true for a while, at most `size` of them; a further value displaces the least recently read.

    >>> remembered = Remembered[str](1)
    >>> remembered.put("a", "b", now=0, seconds=60)
    >>> remembered.get("a", now=59), remembered.get("a", now=60)
    ('b', None)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: Hashable, value: V, *, now: float, seconds: float) -> None:
        """Remember a value for so many seconds."""
        self._values[key] = (now + seconds, value)
        self._values.move_to_end(key)
        while len(self._values) > self._size:
            self._values.popitem(last=False)

    def get(self, key: Hashable, *, now: float) -> V | None:
        """Return the value; None if it is unknown or expired."""
        until, value = self._values.get(key, (now, None))
        if value is None or now >= until:
            self._values.pop(key, None)
            return None
        self._values.move_to_end(key)
        return value
