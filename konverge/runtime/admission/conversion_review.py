"""ConversionReview: decoding the request and encoding the response. Pure.

Guarantees: `apiextensions.k8s.io/v1` and nothing else; unknown fields of a newer server are ignored. Any other body raises `NoReview`
with a message for the API server's log. The response has the uid of the request.

The shape: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/v1/types.go` (ConversionRequest, ConversionResponse),
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from konverge.runtime.admission.review import NoReview, too_deep

__all__ = ["ConversionRequest", "decode_conversion", "encode_converted", "encode_refusal"]

_API: Final = "apiextensions.k8s.io/v1"
_KIND: Final = "ConversionReview"


class ConversionRequest(msgspec.Struct, frozen=True):
    """The `request` of a review: these objects, and the version to convert them into."""

    uid: str
    desired: str = msgspec.field(name="desiredAPIVersion")
    objects: list[dict[str, Any]]


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""
    request: ConversionRequest | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)


def decode_conversion(body: bytes) -> ConversionRequest:
    """Decode a review; raises NoReview, which names the problem."""
    if not body:
        raise NoReview(f"the request has no body; a ConversionReview of {_API} is expected")
    try:
        review = _REVIEW.decode(body)
    except RecursionError:
        raise too_deep() from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NoReview(f"the body is no ConversionReview: {error}") from error
    if (review.api_version, review.kind) != (_API, _KIND):
        raise NoReview(
            f"the body is {review.kind or 'nothing'} of {review.api_version or 'no version'}; a ConversionReview of {_API} is expected"
        )
    if review.request is None:
        raise NoReview("the review has no request")
    return review.request


def encode_converted(uid: str, objects: Sequence[dict[str, Any]]) -> bytes:
    """Return the review with converted objects, in the order of the request."""
    return _encoded(uid, {"result": {"status": "Success"}, "convertedObjects": objects})


def encode_refusal(uid: str, message: str) -> bytes:
    """Return the review of a failed conversion; the API server shows the message to its client."""
    return _encoded(uid, {"result": {"status": "Failure", "message": message}, "convertedObjects": []})


def _encoded(uid: str, response: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": _API, "kind": _KIND, "response": {"uid": uid, **response}})
