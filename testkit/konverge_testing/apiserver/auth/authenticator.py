"""Authentication: the server's static tokens, ServiceAccount tokens that it issued itself, else anonymous; and impersonation.

Guarantees: synchronous and without I/O; the time is `wall_clock`. A token of a ServiceAccount is valid while it has not expired, the
account (and the Pod, Node or Secret that it is bound to) exists under the same uid, and its audience is the API's. A wrong token is a 401
even if the same request without a token would have been served as anonymous. Headers that were sent more than once (Impersonate-Group) are
expected as one value joined by commas or line feeds, so a group with a comma in its name cannot be impersonated. The rules are those of
Kubernetes' `pkg/serviceaccount/claims.go`, `pkg/registry/core/serviceaccount/storage/token.go` and
`pkg/registry/authentication/tokenreview/storage.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from konverge.clock import WallClock, from_rfc3339, rfc3339, wall_clock
from konverge_testing.apiserver.auth.attributes import Attributes, attributes_of
from konverge_testing.apiserver.auth.impersonation import impersonated, wanted_user
from konverge_testing.apiserver.auth.rbac import Rbac
from konverge_testing.apiserver.auth.tokens import ISSUER, Bound, Signer, claims_for
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.objects import Objects
from konverge_testing.apiserver.requests import ANONYMOUS, Call, User
from konverge_testing.apiserver.statuses import (
    FieldError,
    StatusError,
    bad_request,
    conflict,
    invalid,
    not_found,
    unauthorized,
)

__all__ = ["API_AUDIENCES", "Authenticator", "user_info"]

API_AUDIENCES: Final = (ISSUER,)

Data: TypeAlias = dict[str, Any]

_ACCOUNTS: Final = ("", "serviceaccounts")
_GROUP: Final = "authentication.k8s.io"
_EXTRA: Final = "authentication.kubernetes.io"
_LEEWAY: Final = 60
_SHORTEST: Final = 600
_REMEMBERED: Final = 4096


class _InvalidTokenError(Exception):
    """A token that this server issued is no longer valid; the text is the server's."""


class Authenticator:
    """Authenticates calls. `tokens` are the static tokens; `key` signs the tokens that this server issues."""

    def __init__(
        self,
        objects: Objects,
        rbac: Rbac,
        *,
        tokens: Mapping[str, User],
        key: bytes,
        uid: Callable[[], str],
        clock: WallClock = wall_clock,
        anonymous: bool = True,
    ) -> None:
        self._objects = objects
        self._rbac = rbac
        self._tokens = dict(tokens)
        self._signer = Signer(key)
        self._uid = uid
        self._clock = clock
        self._anonymous = anonymous
        self._read: dict[str, Data] = {}
        self._modes: dict[str, str] = {}

    def authenticate(self, call: Call, attributes: Attributes | None = None) -> User:
        """Return the user of a call, impersonation included; raises 401, or 403 if the user may not impersonate.

        `attributes` are the call's attributes, if they are already known.
        """
        user = call.user if call.user is not None else self._by_header(call.headers.get("authorization", ""))
        wanted = wanted_user(call.headers)
        if wanted is None:
            return user
        return impersonated(self._rbac, user, wanted, attributes or attributes_of(call), self._modes)

    def _by_header(self, header: str) -> User:
        scheme, _, token = header.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            if self._anonymous:
                return ANONYMOUS
            raise unauthorized()
        try:
            user, _ = self._by_token(token, API_AUDIENCES)
        except _InvalidTokenError as error:
            raise unauthorized() from error
        return user

    # -- tokens ------------------------------------------------------------------------------------------------------

    def _by_token(self, token: str, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        """Return the user of a token, and the requested audiences that the token is valid for."""
        if token in self._tokens:
            return self._tokens[token], tuple(audiences)
        claims = self._read.get(token) or self._signer.read(token)
        if claims is None:
            forged = self._signer.resembles(token)
            words = "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"
            raise _InvalidTokenError(words if forged else "invalid bearer token")
        if len(self._read) >= _REMEMBERED:
            self._read.clear()
        self._read[token] = claims
        meant = tuple(audience for audience in claims["aud"] if audience in audiences)
        if not meant:
            raise _InvalidTokenError(
                f"[invalid bearer token, token audiences {quoted(claims['aud'])} is invalid for the target audiences "
                f"{quoted(list(audiences))}]"
            )
        self._check_claims(claims)
        return _account_user(claims), meant

    def _check_claims(self, claims: Data) -> None:
        now = self._clock()
        moment = now.timestamp()
        if moment > claims["exp"] + _LEEWAY:
            raise _InvalidTokenError("[invalid bearer token, service account token has expired]")
        if moment < claims["nbf"] - _LEEWAY:
            raise _InvalidTokenError("[invalid bearer token, service account token is not valid yet]")
        own = claims["kubernetes.io"]
        self._check_account(own["namespace"], own["serviceaccount"], now)
        for kind, plural in (("pod", "pods"), ("secret", "secrets"), ("node", "nodes")):
            if kind in own and not (kind == "node" and "pod" in own):
                namespace = "" if kind == "node" else own["namespace"]
                found = self._objects.get(("", plural), namespace, own[kind]["name"])
                if (
                    found is None
                    or found["metadata"].get("uid", "") != own[kind].get("uid", "")
                    or _is_deleted(found, now)
                ):
                    raise _InvalidTokenError("[invalid bearer token, service account token has been invalidated]")

    def _check_account(self, namespace: str, reference: Mapping[str, str], now: datetime) -> None:
        name = reference["name"]
        found = self._objects.get(_ACCOUNTS, namespace, name)
        if found is None:
            raise _InvalidTokenError(f"[invalid bearer token, serviceaccounts {quoted(name)} not found]")
        uid = found["metadata"].get("uid", "")
        if uid != reference.get("uid", ""):
            words = f"service account UID ({uid}) does not match claim ({reference.get('uid', '')})"
            raise _InvalidTokenError(f"[invalid bearer token, {words}]")
        if _is_deleted(found, now):
            raise _InvalidTokenError(f"[invalid bearer token, service account {namespace}/{name} has been deleted]")

    # -- responses -----------------------------------------------------------------------------------------------------

    def issue_token(self, namespace: str, name: str, body: Data) -> Data:
        """Serve a TokenRequest for a ServiceAccount; raises the server's refusals."""
        account = self._objects.get(_ACCOUNTS, namespace, name)
        _check_place(body.get("metadata") or {}, namespace, name)
        if account is None:
            raise not_found("", "serviceaccounts", name)
        spec: Data = {"expirationSeconds": 3600, **(body.get("spec") or {})}
        spec["audiences"] = spec.get("audiences") or list(API_AUDIENCES)
        uid = (body.get("metadata") or {}).get("uid", "")
        own = account["metadata"].get("uid", "")
        if uid and uid != own:
            why = f"the UID in the token request ({uid}) does not match the UID of the service account ({own})"
            raise conflict(_GROUP, "TokenRequest", name, why)
        _check_seconds(spec["expirationSeconds"])
        bound = self._bound(spec.get("boundObjectRef"), namespace, name)
        now = self._clock()
        token = self._signer.sign(
            claims_for(account, spec["audiences"], now, spec["expirationSeconds"], self._uid(), bound)
        )
        given = {"name": name, "namespace": namespace, "uid": own, "creationTimestamp": rfc3339(now)}
        expiry = rfc3339(now + timedelta(seconds=spec["expirationSeconds"]))
        return {
            "kind": "TokenRequest",
            "apiVersion": body.get("apiVersion", f"{_GROUP}/v1"),
            "metadata": {**(body.get("metadata") or {}), **{key: value for key, value in given.items() if value}},
            "spec": {"audiences": spec["audiences"], "expirationSeconds": spec["expirationSeconds"],
                     "boundObjectRef": spec.get("boundObjectRef")},
            "status": {"token": token, "expirationTimestamp": expiry},
        }  # fmt: skip

    def _bound(self, reference: Data | None, namespace: str, account: str) -> Bound | None:
        if reference is None:
            return None
        kind, name = reference.get("kind", ""), str(reference.get("name", ""))
        version = reference.get("apiVersion", "")
        plural = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}.get(kind)
        if plural is None or version not in ("v1", ""):
            group, _, version = version.rpartition("/")
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        found = self._objects.get(("", plural), "" if kind == "Node" else namespace, name)
        if found is None:
            raise not_found("", plural, name)
        node = ("", "")
        if kind == "Pod":
            spec = found.get("spec") or {}
            if spec.get("serviceAccountName", "") != account:
                raise bad_request(
                    f"cannot bind token for serviceaccount {quoted(account)} to pod running with different "
                    "serviceaccount name."
                )
            node = self._node(spec.get("nodeName", ""))
        uid = found["metadata"].get("uid", "")
        if reference.get("uid") and reference["uid"] != uid:
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise conflict("", kind, name, why)
        return Bound(kind, name, uid, node)

    def _node(self, name: str) -> tuple[str, str]:
        node = self._objects.get(("", "nodes"), "", name) if name else None
        return name, str(node["metadata"].get("uid", "")) if node else ""

    def review_token(self, body: Data) -> Data:
        """Serve a TokenReview."""
        spec = body.get("spec") or {}
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        audiences = spec.get("audiences") or API_AUDIENCES
        try:
            user, meant = self._by_token(spec["token"], audiences)
        except _InvalidTokenError as error:
            return {**body, "status": {"user": {}, "error": str(error)}}
        return {**body, "status": {"authenticated": True, "user": user_info(user), "audiences": list(meant)}}

    def review_self(self, user: User, body: Data) -> Data:
        """Serve a SelfSubjectReview."""
        metadata = {**(body.get("metadata") or {}), "creationTimestamp": rfc3339(self._clock())}
        return {**body, "metadata": metadata, "status": {"userInfo": user_info(user)}}


def user_info(user: User) -> Data:
    """Return a user as `authentication.k8s.io/v1` UserInfo."""
    info: Data = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {key: list(values) for key, values in sorted(user.extra.items())}
    return {key: value for key, value in info.items() if value}


def _account_user(claims: Data) -> User:
    own = claims["kubernetes.io"]
    extra = {f"{_EXTRA}/credential-id": (f"JTI={claims['jti']}",)}
    for kind in ("node", "pod"):
        if kind in own:
            extra[f"{_EXTRA}/{kind}-name"] = (own[kind]["name"],)
            if own[kind].get("uid"):
                extra[f"{_EXTRA}/{kind}-uid"] = (own[kind]["uid"],)
    namespace = own["namespace"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(claims["sub"], groups, own["serviceaccount"].get("uid", ""), extra)


def _is_deleted(found: Data, now: datetime) -> bool:
    marked = found["metadata"].get("deletionTimestamp")
    return marked is not None and from_rfc3339(marked) < now - timedelta(seconds=_LEEWAY)


def _check_place(metadata: Data, namespace: str, name: str) -> None:
    for field, own in (("name", name), ("namespace", namespace)):
        given = metadata.get(field)
        if given and given != own:
            error = FieldError(
                "Invalid", f"metadata.{field}", given, f"must match the service account {field} if specified"
            )
            raise _invalid(name, error)


def _check_seconds(seconds: int) -> None:
    where = "spec.expirationSeconds"
    if seconds < _SHORTEST:
        raise _invalid("", FieldError("Invalid", where, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        words = "may not specify a duration larger than 2^32 seconds"
        raise _invalid("", FieldError("Invalid", where, seconds, words))


def _invalid(name: str, error: FieldError) -> StatusError:
    return invalid(_GROUP, "TokenRequest", name, [error])
