"""The body of a webhook's response as Go decodes it: an AdmissionReview, or the decoder's error. Pure.

Guarantees: the first mistake in the order of the document is reported; this module ignores unknown fields. Source: k8s.io/api
`admission/v1/types.go`, k8s.io/apimachinery `pkg/runtime/serializer/{json,recognizer}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.base64s import wrong_base64
from konverge_testing.apiserver.statuses import StatusError

__all__ = ["API", "UndecodableError", "body_of", "reviewed"]

API: Final = "admission.k8s.io/v1"
_BETA: Final = "admission.k8s.io/v1beta1"
_SCHEME: Final = 'in scheme "pkg/runtime/scheme.go:111"'

_STRUCTS: Final[dict[str, dict[str, str]]] = {
    "AdmissionReview": {"request": "v1.AdmissionRequest", "response": "v1.AdmissionResponse"},
    "AdmissionResponse": {
        "uid": "types.UID",
        "allowed": "bool",
        "status": "v1.Status",
        "patch": "[]uint8",
        "patchType": "v1.PatchType",
        "auditAnnotations": "map[string]string",
        "warnings": "[]string",
    },
    "Status": {
        "kind": "string",
        "apiVersion": "string",
        "metadata": "v1.ListMeta",
        "status": "string",
        "message": "string",
        "reason": "v1.StatusReason",
        "details": "v1.StatusDetails",
        "code": "int32",
    },
    "StatusDetails": {
        "name": "string",
        "group": "string",
        "kind": "string",
        "uid": "types.UID",
        "causes": "[]v1.StatusCause",
        "retryAfterSeconds": "int32",
    },
    "StatusCause": {"reason": "v1.CauseType", "message": "string", "field": "string"},
    "AdmissionRequest": {},
    "ListMeta": {},
}
"""The fields of Go's structs, with their types as reflection prints them. The parts that echo the request are not checked."""


class UndecodableError(Exception):
    """A body or a document cannot be decoded into an AdmissionReview; the text is the decoder's."""


def body_of(body: bytes, content_type: str) -> dict[str, Any]:
    """Return the document of a body, which is JSON if it begins like an object and YAML otherwise."""
    if not body:
        raise UndecodableError(f"0-length response with status code: 200 and content type: {content_type}")
    if body.strip() == b"null":
        return {}
    media_type = "application/json" if body.lstrip().startswith(b"{") else "application/yaml"
    try:
        return schemas.decode(body, media_type).data
    except StatusError as error:
        words = error.message.partition("(must be of type ): ")[2].rpartition(" (")[0]
        raise UndecodableError(words or error.message) from None


def reviewed(document: Any) -> dict[str, Any]:
    """Return a document that decodes into an AdmissionReview of v1; a missing kind or version stays missing."""
    if not isinstance(document, dict):
        raise UndecodableError("the response is not a JSON object")
    kind = document.get("kind") or "AdmissionReview"
    api_version = document.get("apiVersion") or API
    if (api_version, kind) not in ((API, "AdmissionReview"), (_BETA, "AdmissionReview"), ("v1", "Status")):
        raise UndecodableError(f'no kind "{kind}" is registered for version "{api_version}" {_SCHEME}')
    if (api_version, kind) == (API, "AdmissionReview"):
        _struct("AdmissionReview", document, ())
        return document
    version = api_version.rpartition("/")[2]
    raise UndecodableError(f"converting ({version}.{kind}) to (v1.AdmissionReview): unknown conversion")


def _struct(name: str, data: Mapping[str, Any], path: tuple[str, ...]) -> None:
    fields = _STRUCTS[name]
    for key, value in data.items():
        if key in fields and value is not None:
            _value(fields[key], value, name, (*path, key))


def _value(type_: str, value: Any, struct: str, path: tuple[str, ...]) -> None:
    name = type_.rpartition(".")[2]
    if type_ == "[]uint8":
        if not isinstance(value, str):
            raise _cannot(value, type_, struct, path)
        if wrong := wrong_base64(value):
            raise UndecodableError(wrong)
    elif type_.startswith(("[]", "map[string]")):
        if not isinstance(value, list if type_.startswith("[]") else dict):
            raise _cannot(value, type_, struct, path)
        _elements(type_.partition("]")[2], value.values() if isinstance(value, dict) else value, struct, path)
    elif name in _STRUCTS:
        if not isinstance(value, dict):
            raise _cannot(value, type_, struct, path)
        _struct(name, value, path)
    elif type_ == "int32":
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
            raise _cannot(value, type_, struct, path)
    elif not isinstance(value, bool if type_ == "bool" else str):
        raise _cannot(value, type_, struct, path)


def _elements(type_: str, values: Iterable[Any], struct: str, path: tuple[str, ...]) -> None:
    for value in values:
        if value is not None:
            _value(type_, value, struct, path)


def _cannot(value: Any, type_: str, struct: str, path: tuple[str, ...]) -> UndecodableError:
    shown = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    if type_ == "int32" and shown == "number":
        shown += f" {value}"
    return UndecodableError(
        f"json: cannot unmarshal {shown} into Go struct field {struct}.{'.'.join(path)} of type {type_}"
    )
