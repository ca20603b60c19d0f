"""AdmissionReview on the wire: valid and invalid requests, and the responses."""

import base64
import json
from typing import Any

import pytest

from konverge.runtime.admission.review import NoReview, decode_review, encode_review, request_of, seconds_of
from konverge.runtime.admission.verdicts import Allow, Deny

WHOLE: dict[str, Any] = {
    "kind": "AdmissionReview",
    "apiVersion": "admission.k8s.io/v1",
    "request": {
        "uid": "u1",
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "subResource": "scale",
        "requestKind": {"group": "autoscaling", "version": "v2", "kind": "Scale"},
        "requestResource": {"group": "apps", "version": "v1beta1", "resource": "deployments"},
        "requestSubResource": "scale",
        "name": "shop",
        "namespace": "web",
        "operation": "UPDATE",
        "userInfo": {"username": "jane", "uid": "7", "groups": ["dev", "ops"], "extra": {"scopes": ["a", "b"]}},
        "object": {"spec": {"replicas": 2}},
        "oldObject": {"spec": {"replicas": 1}},
        "dryRun": True,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
        "aFieldOfALaterServer": {"x": 1},
    },
}


def review(**changes: Any) -> bytes:
    return json.dumps({**WHOLE, **changes}).encode()


def test_everything_that_a_request_has_is_decoded() -> None:
    request = request_of(decode_review(review()), webhook="/x")
    assert (request.uid, request.operation, request.name, request.namespace) == ("u1", "UPDATE", "shop", "web")
    assert request.kind == ("autoscaling", "v1", "Scale")
    assert request.requested_kind == ("autoscaling", "v2", "Scale")
    assert request.resource == ("apps", "v1", "deployments")
    assert request.requested_resource == ("apps", "v1beta1", "deployments")
    assert (request.subresource, request.requested_subresource) == ("scale", "scale")
    user = request.user
    assert (user.name, user.uid, user.groups, user.extra) == ("jane", "7", ("dev", "ops"), {"scopes": ("a", "b")})
    assert request.dry_run
    assert request.options["fieldManager"] == "kubectl"


def test_fields_that_a_request_leaves_out_have_their_zero_values() -> None:
    request = request_of(decode_review(review(request={"uid": "u", "operation": "DELETE"})), webhook="/x")
    assert (request.name, request.user.name, request.user.groups, request.dry_run, request.options) == (
        "",
        "",
        (),
        False,
        {},
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "has no body"),
        (b"nonsense", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"{}", "no apiVersion, no kind is not spoken here"),
        (review(apiVersion="admission.k8s.io/v1beta1"), "admission.k8s.io/v1beta1, AdmissionReview is not spoken here"),
        (review(kind="ConversionReview"), "ConversionReview is not spoken here"),
        (review(request=None), "no request with a uid"),
        (review(request={"uid": "", "operation": "CREATE"}), "no request with a uid"),
        (review(request={"uid": "u", "operation": "PATCH"}), "cannot be read: Invalid enum value 'PATCH'"),
        (review(request={"uid": 7, "operation": "CREATE"}), "cannot be read: Expected `str`"),
    ],
)
def test_a_body_other_than_a_review_is_refused_in_words(body: bytes, words: str) -> None:
    with pytest.raises(NoReview, match=words) as refused:
        decode_review(body)
    assert refused.value.status == 400


def answered(*given: Any) -> dict[str, Any]:
    found = json.loads(encode_review("u1", *given))
    assert (found["apiVersion"], found["kind"], found["response"].pop("uid")) == (
        "admission.k8s.io/v1",
        "AdmissionReview",
        "u1",
    )
    response: dict[str, Any] = found["response"]
    return response


def test_a_patch_goes_back_encoded_and_named() -> None:
    response = answered(Allow(), [{"op": "remove", "path": "/a"}])
    assert json.loads(base64.b64decode(response.pop("patch"))) == [{"op": "remove", "path": "/a"}]
    assert response == {"allowed": True, "patchType": "JSONPatch"}


def test_an_allowance_without_a_change_has_no_patch() -> None:
    assert answered(Allow()) == {"allowed": True}


def test_warnings_lose_their_line_breaks_and_audit_annotations_go_along() -> None:
    response = answered(Allow(warnings=("one\n two",), audit={"why": "x"}))
    assert response == {"allowed": True, "warnings": ["one two"], "auditAnnotations": {"why": "x"}}


def test_a_refusal_carries_words_code_reason_and_fields() -> None:
    assert answered(Deny("no", code=422, fields={"spec.a": "is bad"})) == {
        "allowed": False,
        "status": {
            "status": "Failure",
            "message": "no",
            "code": 422,
            "reason": "Invalid",
            "details": {"causes": [{"reason": "FieldValueInvalid", "field": "spec.a", "message": "is bad"}]},
        },
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10.0), ("1m30s", 90.0), ("500ms", 0.5), ("", None), ("0s", None), ("-3s", None), ("x", None)],
)
def test_the_timeout_of_the_server_is_read_as_go_writes_it(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
