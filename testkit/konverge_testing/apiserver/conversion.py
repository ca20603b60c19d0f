"""ConversionReview: the request that a conversion webhook gets, and the checks of its response. Pure.

Guarantees: a converted object keeps the metadata of the given object, except labels and annotations; messages are the server's. Source:
apiextensions `pkg/apiserver/conversion/{converter,webhook_converter}.go`.

Caveats: a body that cannot be read as JSON is refused with a shorter message than the server's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.names import label_key, label_value
from konverge_testing.apiserver.resources import Resource
from konverge_testing.apiserver.statuses import FieldError, StatusError

__all__ = ["ConversionWebhook", "converted", "failed", "review_for", "unknown_version"]

Data = dict[str, Any]

_GROUP: Final = "apiextensions.k8s.io"
_SECONDS: Final = 30
_IDENTITY: Final = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))


@dataclass(frozen=True, slots=True)
class ConversionWebhook:
    """The conversion webhook of a custom resource, as `calling` needs it."""

    name: str
    data: Data
    review_version: str
    seconds: int = _SECONDS

    @classmethod
    def of(cls, resource: Resource) -> ConversionWebhook:
        """Return the conversion webhook of a resource, which must have one."""
        found = dict(resource.conversion or {})
        version = next(one for one in found["conversionReviewVersions"] if one in ("v1", "v1beta1"))
        return cls(f"conversion_webhook_for_{resource.qualified}", found, f"{_GROUP}/{version}")


def review_for(webhook: ConversionWebhook, given: Data, wanted: str, uid: str) -> Data:
    """Return the ConversionReview for one object and the desired apiVersion."""
    request = {"uid": uid, "desiredAPIVersion": wanted, "objects": [given]}
    return {"kind": "ConversionReview", "apiVersion": webhook.review_version, "request": request}


def unknown_version(api_version: str) -> StatusError:
    """500: an object is stored in a version that its definition no longer has."""
    return StatusError(500, "", f"request to convert CR from an invalid group/version: {api_version}")


def failed(given: Data, why: str) -> StatusError:
    """500: the webhook could not be called, or refused the conversion."""
    return _error(given, f"failed: {why}")


def _error(given: Data, why: str) -> StatusError:
    return StatusError(500, "", f"conversion webhook for {given['apiVersion']}, Kind={given['kind']} {why}")


def converted(webhook: ConversionWebhook, answer: Any, uid: str, given: Data, wanted: str) -> Data:
    """Return the converted object of a response; raises StatusError (500) if the response has none."""
    objects = _objects(webhook, answer, uid, given)
    if len(objects) != 1:
        raise _error(given, f"returned {len(objects)} objects, expected 1")
    found = objects[0]
    if found is None:
        raise StatusError(500, "", "unexpected end of JSON input")
    if not isinstance(found, dict):
        words = f"json: cannot unmarshal {_json_type(found)} into Go value of type map[string]interface {{}}"
        raise StatusError(500, "", words)
    invalid = "returned invalid object"
    if found.get("apiVersion", "") != wanted:
        words = f"invalid groupVersion (expected {wanted}, received {found.get('apiVersion', '')})"
        raise _error(given, f"{invalid} at index 0: {words}")
    if found.get("kind", "") != given["kind"]:
        words = f"invalid kind (expected {given['kind']}, received {found.get('kind', '')})"
        raise _error(given, f"{invalid} at index 0: {words}")
    before, after = given["metadata"], found.get("metadata")
    for field, shown in _IDENTITY:
        expected, got = before.get(field, ""), after.get(field, "") if isinstance(after, dict) else ""
        if expected != got:
            raise _error(given, f"{invalid}: must have the same {shown}: {expected} != {got}")
    metadata = copy.deepcopy(before)
    for field in ("labels", "annotations"):
        if wrong := _restore(metadata, after, field):
            raise _error(given, f"returned invalid metadata: {wrong}")
    return {**found, "metadata": metadata}


def _objects(webhook: ConversionWebhook, answer: Any, uid: str, given: Data) -> list[Any]:
    """Return the objects of a successful response."""
    if not isinstance(answer, Mapping):
        raise failed(given, "couldn't get version/kind; json parse error")
    version, kind = answer.get("apiVersion", ""), answer.get("kind", "")
    if kind != "ConversionReview" or version not in (f"{_GROUP}/v1", f"{_GROUP}/v1beta1"):
        words = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        raise failed(given, words)
    if version != webhook.review_version:
        one, other = (name.rpartition("/")[2] for name in (version, webhook.review_version))
        words = f"converting ({one}.ConversionReview) to ({other}.ConversionReview): unknown conversion"
        raise failed(given, words)
    response = answer.get("response")
    if not isinstance(response, Mapping):
        raise failed(given, "no response provided")
    if version.endswith("/v1") and response.get("uid", "") != uid:
        raise failed(given, f"expected response.uid={quoted(uid)}, got {quoted(response.get('uid', ''))}")
    result = response.get("result") or {}
    status = result.get("status", "")
    if status != "Success":
        raise failed(given, result.get("message") or f"response.result.status was '{status}', not 'Success'")
    return list(response.get("convertedObjects") or ())


def _restore(metadata: Data, after: Any, field: str) -> str:
    """Put the labels or annotations of the response into the metadata, in place; returns their errors."""
    found = after.get(field)
    before = metadata.pop(field, None)
    if found is None:
        return ""
    if not isinstance(found, dict):
        return f"invalid metadata.{field} of type {_go_type(found)} in converted object"
    for key, value in found.items():
        if not isinstance(value, str):
            return f"metadata.{field}[{key}] must be a string, but is {_go_type(value)} in converted object"
    metadata[field] = found
    errors = [] if found == before else _RULES[field](found)
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


def _label_errors(labels: Mapping[str, str]) -> list[FieldError]:
    path = "metadata.labels"
    return [
        FieldError("Invalid", path, shown, words)
        for key, value in labels.items()
        for shown, found in ((key, label_key(key)), (value, label_value(value)))
        for words in found
    ]


def _annotation_errors(annotations: Mapping[str, str]) -> list[FieldError]:
    return [
        FieldError("Invalid", "metadata.annotation", key, words)
        for key in annotations
        for words in label_key(key.lower())
    ]


_RULES: Final[Mapping[str, Callable[[Mapping[str, str]], list[FieldError]]]] = {
    "labels": _label_errors,
    "annotations": _annotation_errors,
}


def _go_type(value: Any) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}", type(None): "<nil>"}
    return names.get(type(value), "map[string]interface {}")


def _json_type(value: Any) -> str:
    return {bool: "bool", str: "string", list: "array"}.get(type(value), "number")
