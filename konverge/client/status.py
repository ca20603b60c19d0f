"""Unsuccessful responses as typed errors.

Guarantees: pure. A `Status` object (the body of a response, or the object of a watch's ERROR event) and any other body, for instance from
a proxy or a dying server, become one of the errors of `konverge.errors`. The server's message is kept; a body other than a Status is
quoted only if it is short plain text.

Source of the rules: k8s.io/apimachinery `pkg/apis/meta/v1` (Status, StatusDetails, StatusReason), `pkg/api/errors`; the text of a 403 is
from k8s.io/apiserver `endpoints/handlers/responsewriters`, and the causes of an apply conflict are from its
`pkg/endpoints/handlers/fieldmanager`.
https://github.com/kubernetes/apimachinery/blob/master/pkg/api/errors/errors.go
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from konverge.errors import (
    AlreadyExists,
    ApiError,
    ApplyConflict,
    BadRequest,
    Conflict,
    EvictionRefused,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
)

__all__ = ["deleted_uid", "exit_code", "missing_rule", "namespace_is_ending", "retry_after_seconds", "status_error"]

_MAX_QUOTE = 200
_FIELD_CONFLICT = "FieldManagerConflict"
_BUDGET = "DisruptionBudget"


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct, rename="camel"):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[_Cause] | None = None
    retry_after_seconds: int = 0


class _Status(msgspec.Struct):
    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None
    code: int = 0


_DECODE: Callable[[bytes | msgspec.Raw], _Status] = msgspec.json.Decoder(_Status, strict=False).decode


def _read(raw: bytes | msgspec.Raw) -> _Status | None:
    try:
        status = _DECODE(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def deleted_uid(raw: bytes | msgspec.Raw) -> str | None:
    """Return the uid in the Status that responds to a deletion ("" if it names none); None for any other body."""
    status = _read(raw)
    if status is None:
        return None
    return status.details.uid if status.details else ""


def exit_code(raw: bytes, request: str = "") -> int:
    """Return the exit code in the Status that ends a command in a container; raises the error of a command that could not run.

    The kubelet sends this Status without its kind, and encodes an exit code as the cause of a failure:
    https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go

    >>> exit_code(b'{"status":"Success"}')
    0
    """
    try:
        body = _DECODE(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ApiError(_quoted(raw, "text/plain"), request=request) from None
    if body.status == "Success":
        return 0
    causes = (body.details.causes if body.details else None) or []
    codes = [cause.message for cause in causes if cause.reason == "ExitCode" and cause.message.isdigit()]
    if codes:
        return int(codes[0])
    message = body.message or body.reason or "the command did not run"
    raise _class_of(body.code, body.reason)(message, status=body.code, reason=body.reason, request=request)


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Read a Retry-After header, in seconds or as a date; None if it is absent or unreadable."""
    if not header:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, (moment - now).total_seconds())
    except (TypeError, ValueError):
        return None


def _quoted(raw: bytes | msgspec.Raw, content_type: str) -> str:
    """Describe a body other than a Status: short plain text is quoted, of anything else only size and type are given."""
    body = bytes(raw)
    if content_type.startswith("text/plain"):
        text = body[: _MAX_QUOTE + 1].decode("utf-8", "replace").strip()
        if text:
            return text if len(text) <= _MAX_QUOTE else text[: _MAX_QUOTE - 1] + "…"
    return f"{len(body)} bytes of {content_type or 'unknown type'} that are no Status object"


_MANAGER = re.compile(r'^conflict with ("(?:[^"\\]|\\.)*")')


def _field_conflict(cause: _Cause) -> FieldConflict:
    match = _MANAGER.match(cause.message)
    if match is None:
        return FieldConflict(manager=cause.message, field=cause.field)
    try:
        manager = str(json.loads(match[1]))
    except ValueError:
        manager = match[1].strip('"')
    return FieldConflict(manager=manager, field=cause.field)


_BY_REASON: dict[str, type[ApiError]] = {
    "Expired": Expired,
    "Gone": Expired,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "TooManyRequests": TooManyRequests,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def _class_of(code: int, reason: str) -> type[ApiError]:
    if code in {409, 410} or not code:
        by_reason = _BY_REASON.get(reason)
        if by_reason is not None:
            return by_reason
    return ServerFailure if code >= 500 else _BY_CODE.get(code, ApiError)


def status_error(
    raw: bytes | msgspec.Raw,
    request: str = "",
    *,
    code: int = 0,
    retry_after: float | None = None,
    content_type: str = "",
) -> ApiError:
    """Return the typed error for a Status object (an error body, the object of an ERROR event) or for any other error body.

    `code` is the HTTP status, which wins over the body's code (0 for the object of a watch event); `retry_after` is the header's seconds.
    A patch or an apply that names another uid than the object's is a Conflict, as such an update and deletion are, although
    kube-apiserver refuses it with 422 because "metadata.uid" is immutable: nothing is wrong with what was sent.

    >>> status_error(b'{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}')
    Expired('too old resource version')
    """
    body = _read(raw)
    if body is None:
        return _class_of(code, "")(
            f"HTTP {code}: {_quoted(raw, content_type)}", status=code, retry_after=retry_after, request=request
        )
    status = code or body.code
    details = body.details or _Details()
    causes = details.causes or []
    message = body.message or body.reason or f"HTTP {status}"
    conflicts = [_field_conflict(cause) for cause in causes if cause.reason == _FIELD_CONFLICT]
    if conflicts and status == 409:
        return ApplyConflict(message, conflicts=conflicts, status=status, request=request)
    refused = status == 429 and any(cause.reason == _BUDGET for cause in causes)
    other = status == 422 and any(cause.field == "metadata.uid" for cause in causes)
    error_class = EvictionRefused if refused else Conflict if other else _class_of(status, body.reason)
    return error_class(
        message,
        status=status,
        reason=body.reason,
        causes=[(cause.field, cause.message) for cause in causes],
        retry_after=retry_after if retry_after is not None else float(details.retry_after_seconds) or None,
        request=request,
    )


_DENIED = re.compile(
    r' cannot (?P<verb>\S+) (?:resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"|path "(?P<path>[^"]*)")'
)


def namespace_is_ending(error: BaseException) -> bool:
    """Return whether a creation was refused because its namespace is being deleted; after the deletion, creations get NotFound.

    >>> namespace_is_ending(Forbidden('unable to create new content in namespace web because it is being terminated'))
    True
    """
    return isinstance(error, Forbidden) and "being terminated" in error.message


def missing_rule(error: BaseException | None) -> dict[str, Any] | None:
    """Return the RBAC rule that is missing according to a 403, as a Role or ClusterRole spells it; None for other refusals.

    Quota, admission webhooks and Pod Security also refuse with 403, and a rule does not help there. Server-side apply of an
    object that may not exist yet needs `create` beside `patch`, so both are named. So are both rights of a websocket: since Kubernetes 1.35
    it needs `create` beside `get`, and the refusal of `create` has no reason.

    >>> missing_rule(Forbidden('pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope'))
    {'apiGroups': [''], 'resources': ['pods'], 'verbs': ['list']}
    """
    if not isinstance(error, Forbidden):
        return None
    denied = _DENIED.search(error.message)
    if error.request.startswith("connect ") and (denied or error.message.endswith("is forbidden: ")):
        return {"apiGroups": [""], "resources": [error.request.split()[1]], "verbs": ["create", "get"]}
    if denied is None:
        return None
    if denied["path"] is not None:
        return {"nonResourceURLs": [denied["path"]], "verbs": [denied["verb"]]}
    applied = error.request.startswith("apply ") and "/" not in denied["resource"]
    verbs = ["create", "patch"] if applied else [denied["verb"]]
    return {"apiGroups": [denied["group"]], "resources": [denied["resource"]], "verbs": verbs}
