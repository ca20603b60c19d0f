"""AdmissionReview: decoding the request and encoding the response. Pure.

Guarantees: `admission.k8s.io/v1` and nothing else; all of a request is decoded; unknown fields of a newer server are ignored. Any
other body raises `NoReview`, whose message is for the log of the API server. So does a review with an object that is nested too
deeply, unless the object is stored already or is being deleted: its finalizers can be removed. The response has the uid of the
request.

The shape: k8s.io/api `admission/v1/types.go`, https://github.com/kubernetes/api/blob/master/admission/v1/types.go
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from konverge.client import LEFT_OUT, flattened
from konverge.client.depth import LEVELS
from konverge.errors import KonvergeError
from konverge.objects import Metadata
from konverge.runtime.admission.request import AdmissionRequest, Name, Operation, User
from konverge.runtime.admission.verdicts import Allow, Deny, Verdict

__all__ = [
    "NoReview",
    "ReviewRequest",
    "decode_review",
    "encode_review",
    "flattened_review",
    "nests_deeply",
    "object_of",
    "request_of",
    "seconds_of",
    "too_deep",
]

API: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_NULL: Final = b"null"
_BRACKETS: Final = 20_000
"""Brackets in a body that is searched for deep parts; the search takes some 20 ms. Any caller in the cluster can send a body of 8 MB."""

_DECODED: Final = 9_000
"""The deepest body that is decoded whole on any Python. The API server's limit is 10,000 levels. Decoders of Python 3.11 end at about
1,000, of 3.12 and 3.13 right below 10,000, and of 3.14 only at the end of the stack."""


class NoReview(KonvergeError):
    """A request that is not an AdmissionReview of version v1; `status` is the HTTP status of the response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The `request` of a review; its objects are not decoded yet."""

    uid: str
    operation: Operation
    kind: _Kind = _Kind()
    resource: _Resource = _Resource()
    sub_resource: str = ""
    request_kind: _Kind | None = None
    request_resource: _Resource | None = None
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: _User = _User()
    object: msgspec.Raw = msgspec.Raw(_NULL)
    old_object: msgspec.Raw = msgspec.Raw(_NULL)
    dry_run: bool | None = None
    options: dict[str, Any] | None = None

    @property
    def path(self) -> str:
        """`namespace/name` of the request's object, for logs."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Head(msgspec.Struct):
    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""


class _Review(msgspec.Struct):
    request: ReviewRequest | None = None


_HEAD: Final = msgspec.json.Decoder(_Head)
_REVIEW: Final = msgspec.json.Decoder(_Review)


def decode_review(body: bytes) -> ReviewRequest:
    """Decode a review; raises NoReview, which names the problem."""
    if not body:
        raise NoReview("the request has no body; an AdmissionReview of admission.k8s.io/v1 is expected")
    try:
        if _is_deeper(body, _DECODED):
            raise RecursionError
        return _decoded(body)
    except RecursionError:
        return _unless_kept(_decoded(_flattened(body)))


def flattened_review(request: ReviewRequest) -> ReviewRequest:
    """Return a request without the parts of its objects that are nested too deeply.

    Raises NoReview if its object has such parts, unless the object is being deleted. Python 3.12 and newer decode objects of several
    thousand levels, which functions written in Python cannot follow.
    """
    objects = {name: msgspec.Raw(_flattened(bytes(getattr(request, name)))) for name in ("object", "old_object")}
    return _unless_kept(msgspec.structs.replace(request, **objects))


def _unless_kept(request: ReviewRequest) -> ReviewRequest:
    """Return a flattened request; raises NoReview if the write would keep parts that were left out."""
    if LEFT_OUT in bytes(request.object) and not _is_deleting(request.object):
        raise too_deep()
    return request


def nests_deeply(request: ReviewRequest) -> bool:
    """Return whether an object of a request is nested deeper than a handler has to follow."""
    try:
        return any(LEFT_OUT in _flattened(bytes(raw)) for raw in (request.object, request.old_object))
    except NoReview:
        return True


def too_deep() -> NoReview:
    """Return the refusal of an object that is nested too deeply."""
    return NoReview(f"the request is nested deeper than {LEVELS} levels; make the object flatter")


def _flattened(body: bytes) -> bytes:
    """Return a review without the parts that are nested too deeply; raises NoReview if the search would take long."""
    if body.count(b"{") + body.count(b"[") > _BRACKETS:
        raise too_deep()
    return flattened(body)


def _is_deeper(body: bytes, levels: int) -> bool:
    """Return whether a body is nested deeper; it is decoded only if it has so many brackets. False for a body that is not JSON."""
    if body.count(b"{") + body.count(b"[") <= levels:
        return False
    try:
        containers: list[Any] = [[msgspec.json.decode(body)]]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    for _ in range(levels + 1):
        members = (each.values() if isinstance(each, dict) else each for each in containers)
        containers = [value for values in members for value in values if isinstance(value, dict | list)]
        if not containers:
            return False
    return True


def _is_deleting(raw: msgspec.Raw) -> bool:
    metadata = (object_of(raw) or {}).get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _decoded(body: bytes) -> ReviewRequest:
    try:
        head = _HEAD.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NoReview(f"the request is no JSON object: {_problem(error)}") from error
    if (head.api_version, head.kind) != (API, KIND):
        received = f"{head.api_version or 'no apiVersion'}, {head.kind or 'no kind'}"
        raise NoReview(
            f"{received} is not spoken here: {API}, {KIND} is; write admissionReviewVersions: [v1] into the configuration"
        )
    try:
        request = _REVIEW.decode(body).request
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NoReview(f"the AdmissionReview cannot be read: {_problem(error)}") from error
    if request is None or not request.uid:
        raise NoReview("the AdmissionReview has no request with a uid")
    return request


def object_of(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Decode an object of a request, None if there is none; raises NoReview."""
    try:
        document: dict[str, Any] | None = msgspec.json.decode(raw, type=dict[str, Any] | None)
        if document is not None and document.get("metadata") is not None:
            msgspec.convert(document["metadata"], Metadata)  # later reads rely on the form of the metadata
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NoReview(f"an object of the AdmissionReview cannot be read: {_problem(error)}") from error
    return document


def _problem(error: Exception) -> str:
    """Return the problem of a body; the message of a UnicodeDecodeError would quote a byte of the body."""
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def request_of(request: ReviewRequest, **more: Any) -> AdmissionRequest[Any]:
    """Return the handler's view of a request; `more` are the objects, the caches and the client."""
    kind, resource, user = request.kind, request.resource, request.user_info
    first_kind, first_resource = request.request_kind or kind, request.request_resource or resource
    return AdmissionRequest(
        uid=request.uid,
        operation=request.operation,
        kind=Name(kind.group, kind.version, kind.kind),
        resource=Name(resource.group, resource.version, resource.resource),
        subresource=request.sub_resource,
        requested_kind=Name(first_kind.group, first_kind.version, first_kind.kind),
        requested_resource=Name(first_resource.group, first_resource.version, first_resource.resource),
        requested_subresource=request.request_sub_resource,
        name=request.name,
        namespace=request.namespace,
        user=User(user.username, user.uid, user.groups or (), user.extra or {}),
        dry_run=bool(request.dry_run),
        options=request.options or {},
        **more,
    )


def encode_review(uid: str, verdict: Verdict, patch: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """Return the AdmissionReview with the response to a request; only an Allow has a patch."""
    response: dict[str, Any] = {"uid": uid, "allowed": isinstance(verdict, Allow)}
    if isinstance(verdict, Deny):
        response["status"] = _status(verdict)
    elif patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(list(patch))).decode()
    if verdict.warnings:
        # The API server drops a warning with a line break in it.
        response["warnings"] = [" ".join(text.split()) for text in verdict.warnings]
    if verdict.audit:
        response["auditAnnotations"] = dict(verdict.audit)
    return msgspec.json.encode({"apiVersion": API, "kind": KIND, "response": response})


def _status(deny: Deny) -> dict[str, Any]:
    status: dict[str, Any] = {"status": "Failure", "message": deny.message, "code": deny.code}
    if deny.reason:
        status["reason"] = deny.reason
    if deny.fields:
        causes = [{"reason": "FieldValueInvalid", "field": name, "message": text} for name, text in deny.fields.items()]
        status["details"] = {"causes": causes}
    return status


def seconds_of(timeout: str) -> float | None:
    """Read the query parameter `timeout` (`10s`) that the API server sends; None if it is not a duration."""
    from konverge.crds.durations import parse_duration

    try:
        return parse_duration(timeout).total_seconds() or None
    except ValueError:
        return None
