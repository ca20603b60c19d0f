"""Refusals as the API server words them: `StatusError`, one constructor a reason, and the field errors that `Invalid` collects.

Guarantees: pure. `StatusError.body()` is the `metav1.Status` on the wire. Texts, reasons, codes and details follow
k8s.io/apimachinery `pkg/api/errors/errors.go` and `pkg/util/validation/field/errors.go`; the conformance suite compares them with a real
server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from konverge_testing.apiserver.golang import compact, number_text, quote

__all__ = [
    "OMITTED",
    "FieldError",
    "MalformedRequest",
    "PageNotFound",
    "StatusError",
    "already_exists",
    "bad_request",
    "being_deleted",
    "conflict",
    "expired",
    "forbidden",
    "internal",
    "invalid",
    "malformed_request",
    "method_not_allowed",
    "not_acceptable",
    "not_found",
    "not_implemented",
    "page_not_found",
    "path_not_found",
    "qualified",
    "success",
    "timeout",
    "too_large",
    "too_many_requests",
    "unauthorized",
    "unavailable",
    "unsupported_media_type",
]

Kind: TypeAlias = Literal[
    "Required",
    "Invalid",
    "TypeInvalid",
    "NotSupported",
    "Duplicate",
    "NotFound",
    "Forbidden",
    "TooLong",
    "TooMany",
    "Internal",
]

_CAUSES: Final[dict[str, tuple[str, str]]] = {
    "Required": ("FieldValueRequired", "Required value"),
    "Invalid": ("FieldValueInvalid", "Invalid value"),
    "TypeInvalid": ("FieldValueTypeInvalid", "Invalid value"),
    "NotSupported": ("FieldValueNotSupported", "Unsupported value"),
    "Duplicate": ("FieldValueDuplicate", "Duplicate value"),
    "NotFound": ("FieldValueNotFound", "Not found"),
    "Forbidden": ("FieldValueForbidden", "Forbidden"),
    "TooLong": ("FieldValueTooLong", "Too long"),
    "TooMany": ("FieldValueTooMany", "Too many"),
    "Internal": ("InternalError", "Internal error"),
}
OMITTED: Final[Any] = object()
"""The value of a field error that is not shown, such as a CEL rule's value on an object or a list."""
_VALUELESS: Final = frozenset({"Required", "Forbidden", "TooLong", "Internal"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field.

    >>> str(FieldError("Invalid", "spec.replicas", -1, "must be greater than or equal to 0"))
    'spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    >>> str(FieldError("Required", "spec.schedule"))
    'spec.schedule: Required value'
    """

    kind: Kind
    field: str
    value: Any = None
    detail: str = ""

    @property
    def cause(self) -> dict[str, str]:
        """The entry of `status.details.causes`."""
        return {"reason": _CAUSES[self.kind][0], "message": self.message, "field": self.field}

    @property
    def message(self) -> str:
        """The message without the field."""
        words = _CAUSES[self.kind][1]
        if self.kind not in _VALUELESS and self.value is not OMITTED:
            words += f": {_formatted(self.value)}"
        return f"{words}: {self.detail}" if self.detail else words

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def _formatted(value: Any) -> str:
    """Format a value as Go's field errors do: strings quoted, numbers and booleans plain, structures as JSON."""
    if isinstance(value, str):
        return quote(value)
    return number_text(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else compact(value)


class StatusError(Exception):
    """A request is refused; the shell sends `body()` as the response."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        """Seconds for the Retry-After header."""
        self.warnings: list[str] = []
        """Warnings for the client beside the error."""

    def body(self) -> dict[str, Any]:
        """Return the `metav1.Status`."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return {**body, "code": self.code}


def success(**details: Any) -> dict[str, Any]:
    """Return the Status of a completed deletion: `details` has name, group, kind (the plural) and uid."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**body, "details": details} if details else body


def qualified(group: str, plural: str) -> str:
    """Return `plural.group`, or only the plural in the core group."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, plural: str, name: str, **more: Any) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": plural, **more}
    return {key: value for key, value in details.items() if value not in ("", None, [])}


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404: no such object."""
    text = f"{qualified(group, plural)} {quote(name)} not found"
    return StatusError(404, "NotFound", text, details=_details(group, plural, name))


class PageNotFound(StatusError):
    """404 in plain text, as the mux responds outside every served group."""


class MalformedRequest(StatusError):
    """400 in plain text, as Go's HTTP server responds to a request that it cannot read; the API server is not involved."""


def malformed_request() -> StatusError:
    """400: the request's target is not properly encoded."""
    return MalformedRequest(400, "", "400 Bad Request")


def page_not_found() -> StatusError:
    """404: no such path, or no such group; within a served group it is `path_not_found`."""
    return PageNotFound(404, "", "404 page not found")


def path_not_found() -> StatusError:
    """404: nothing is served under this path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(group: str, plural: str, name: str) -> StatusError:
    """409: an object of this name exists."""
    text = f"{qualified(group, plural)} {quote(name)} already exists"
    return StatusError(409, "AlreadyExists", text, details=_details(group, plural, name))


def being_deleted(group: str, plural: str, name: str) -> StatusError:
    """409: an object of this name still exists, under deletion."""
    text = f"object is being deleted: {qualified(group, plural)} {quote(name)} already exists"
    return StatusError(409, "AlreadyExists", text, details=_details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> StatusError:
    """409: a concurrent write, or a precondition failed."""
    text = f"Operation cannot be fulfilled on {qualified(group, plural)} {quote(name)}: {why}"
    return StatusError(409, "Conflict", text, details=_details(group, plural, name))


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422: the object is invalid; lists all errors."""
    texts = _unique(str(error) for error in errors)
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(group, kind, name, causes=[error.cause for error in errors])
    return StatusError(422, "Invalid", f"{qualified(group, kind)} {quote(name)} is invalid: {joined}", details=details)


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def bad_request(text: str) -> StatusError:
    """400: the request itself is invalid."""
    return StatusError(400, "BadRequest", text)


def forbidden(group: str, plural: str, name: str, why: str) -> StatusError:
    """403: not allowed."""
    what = qualified(group, plural)
    text = f"{what} {quote(name)} is forbidden: {why}" if name else f"{what} is forbidden: {why}"
    return StatusError(403, "Forbidden", text, details=_details(group, plural, name))


def unauthorized() -> StatusError:
    """401: the request has no valid credentials."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed(group: str = "", plural: str = "", verb: str = "") -> StatusError:
    """405: this resource does not have this verb; with `verb` (custom resources), the message names verb and resource."""
    if verb:
        text = f'{verb} is not supported on resources of kind "{qualified(group, plural)}"'
        return StatusError(405, "MethodNotAllowed", text, details=_details(group, plural, ""))
    return StatusError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
    )


def not_acceptable(offers: Sequence[str]) -> StatusError:
    """406: the server cannot produce any type that the client accepts."""
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(offers)}")


def unsupported_media_type(offers: Sequence[str]) -> StatusError:
    """415: the server does not read bodies of this type."""
    text = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(offers)
    return StatusError(415, "UnsupportedMediaType", text)


def expired(text: str) -> StatusError:
    """410: this version, or this continue token, is too old."""
    return StatusError(410, "Expired", text)


def too_large(version: int, current: int, retry_after: int = 1) -> StatusError:
    """504: the requested version is newer than this server's."""
    text = f"Timeout: Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": retry_after}
    return StatusError(504, "Timeout", text, details=details, retry_after=retry_after)


def too_many_requests(text: str, retry_after: int = 1) -> StatusError:
    """429: later, please."""
    details = {"retryAfterSeconds": retry_after} if retry_after else {}
    return StatusError(429, "TooManyRequests", text, details=details, retry_after=retry_after or None)


def internal(text: str) -> StatusError:
    """500: the server's own fault."""
    details = {"causes": [{"message": text}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {text}", details=details)


def not_implemented(text: str) -> StatusError:
    """501: deliberately absent in this server, though a real server has it."""
    return StatusError(501, "NotImplemented", f"{text}: not implemented by konverge's in-memory API server")


def unavailable(text: str) -> StatusError:
    """503: not now."""
    return StatusError(503, "ServiceUnavailable", text)


def timeout(text: str) -> StatusError:
    """504: it took too long."""
    return StatusError(504, "Timeout", f"Timeout: {text}", details={})
