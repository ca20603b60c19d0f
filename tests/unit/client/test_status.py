import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from konverge import errors
from konverge.client import missing_rule, status_error
from konverge.client.status import deleted_uid, retry_after_seconds

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def body(**fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", **fields}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "wanted"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Expired),
        (410, "Gone", errors.Expired),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerFailure),
        (503, "ServiceUnavailable", errors.ServerFailure),
        (504, "Timeout", errors.ServerFailure),
        (405, "MethodNotAllowed", errors.ApiError),
        (415, "UnsupportedMediaType", errors.ApiError),
    ],
)
def test_each_code_has_its_error(code: int, reason: str, wanted: type[errors.ApiError]) -> None:
    found = status_error(body(code=code, reason=reason, message="words"), "get pods web/a", code=code)
    assert type(found) is wanted
    assert (found.status, found.reason, found.message) == (code, reason, "words")
    assert str(found) == "get pods web/a: words"


def test_the_object_of_an_error_event_is_read_without_an_http_status() -> None:
    raw = msgspec.Raw(body(code=410, reason="Expired", message="too old resource version: 1 (2)"))
    assert type(status_error(raw)) is errors.Expired


def test_an_error_event_without_a_code_goes_by_its_reason() -> None:
    assert type(status_error(body(reason="Expired", message="too old"))) is errors.Expired


def test_the_http_status_wins_over_the_body() -> None:
    found = status_error(body(code=200, reason="", message="odd"), code=503)
    assert isinstance(found, errors.ServerFailure)
    assert found.status == 503


def test_causes_are_kept_by_field() -> None:
    details = {"causes": [{"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.replicas"}]}
    found = status_error(body(code=422, reason="Invalid", message="invalid", details=details))
    assert found.causes == (("spec.replicas", "must be positive"),)


def test_patch_of_a_successor_is_a_conflict_before_any_other_error() -> None:
    causes = [
        {"reason": "FieldValueInvalid", "message": "field is immutable", "field": field}
        for field in ("spec.selector", "metadata.uid")
    ]
    found = status_error(body(code=422, reason="Invalid", message="invalid", details={"causes": causes}), code=422)
    assert type(found) is errors.Conflict
    assert found.status == 422


@pytest.mark.parametrize(
    ("words", "manager"),
    [
        ('conflict with "kubectl" using apps/v1', "kubectl"),
        ('conflict with "kubectl-edit" with subresource "status" using v1 at 2030-01-01T00:00:00Z', "kubectl-edit"),
        ('conflict with "a \\"quoted\\" name" using v1', 'a "quoted" name'),
        ("something else", "something else"),
    ],
)
def test_an_apply_conflict_names_manager_and_field(words: str, manager: str) -> None:
    details = {"causes": [{"reason": "FieldManagerConflict", "message": words, "field": ".spec.replicas"}]}
    found = status_error(body(code=409, reason="Conflict", message="Apply failed", details=details), code=409)
    assert isinstance(found, errors.ApplyConflict)
    assert found.conflicts == (errors.FieldConflict(manager=manager, field=".spec.replicas"),)


def test_plain_text_is_quoted_and_cut() -> None:
    found = status_error(b"apiserver is shutting down " * 100, code=500, content_type="text/plain")
    assert isinstance(found, errors.ServerFailure)
    assert "apiserver is shutting down" in str(found)
    assert len(str(found)) < 250


@pytest.mark.parametrize("content", [b'{"password":"s3cret"}', b"<html>s3cret</html>", b"\xff\xfes3cret", b""])
def test_error_for_a_body_without_a_status_has_size_and_no_content(content: bytes) -> None:
    found = status_error(content, "get secrets web/a", code=502, content_type="application/json")
    assert "s3cret" not in str(found)
    assert f"{len(content)} bytes" in str(found)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("Tue, 01 Jan 2030 00:00:30 GMT", 30.0),
        ("Mon, 31 Dec 2029 00:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, wanted: float | None) -> None:
    assert retry_after_seconds(header, NOW) == wanted


def test_the_delay_comes_from_the_header_or_else_from_the_details() -> None:
    raw = body(code=429, reason="TooManyRequests", message="slow", details={"retryAfterSeconds": 3})
    assert status_error(raw, code=429, retry_after=5.0).retry_after == 5.0
    assert status_error(raw, code=429).retry_after == 3.0
    assert status_error(body(code=429, reason="TooManyRequests"), code=429).retry_after is None


@pytest.mark.parametrize(
    ("words", "request_", "rule"),
    [
        (
            (
                'helmreleases.helm.toolkit.fluxcd.io "shop" is forbidden: User "system:serviceaccount:web:x" cannot get resource '
                '"helmreleases" in API group "helm.toolkit.fluxcd.io" in the namespace "web"'
            ),
            "get helmreleases.helm.toolkit.fluxcd.io web/shop",
            {"apiGroups": ["helm.toolkit.fluxcd.io"], "resources": ["helmreleases"], "verbs": ["get"]},
        ),
        (
            'pods is forbidden: User "u" cannot watch resource "pods" in API group "" at the cluster scope',
            "watch pods",
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch"]},
        ),
        (
            (
                'deployments.apps "a" is forbidden: User "u" cannot patch resource "deployments/status" in API group "apps" in the '
                'namespace "web"'
            ),
            "apply deployments.apps/status web/a",
            {"apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["patch"]},
        ),
        (
            'deployments.apps "a" is forbidden: User "u" cannot patch resource "deployments" in API group "apps" in the namespace "w"',
            "apply deployments.apps w/a",
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch"]},
        ),
        (
            'forbidden: User "system:anonymous" cannot get path "/metrics"',
            "GET /metrics",
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ),
        ('pods "a" is forbidden: exceeded quota: small, requested: pods=1', "create pods web/a", None),
        ('admission webhook "x" denied the request: no', "create pods web/a", None),
    ],
)
def test_a_denial_becomes_the_missing_rule(words: str, request_: str, rule: dict[str, Any] | None) -> None:
    found = status_error(body(code=403, reason="Forbidden", message=words), request_, code=403)
    assert isinstance(found, errors.Forbidden)
    assert missing_rule(found) == rule


@pytest.mark.parametrize("error", [None, ValueError("x"), errors.NotFound("x cannot get resource")])
def test_other_errors_miss_no_rule(error: BaseException | None) -> None:
    assert missing_rule(error) is None


def test_a_deletion_that_is_answered_by_a_status_names_the_uid() -> None:
    assert deleted_uid(b'{"kind":"Status","status":"Success","details":{"name":"a","uid":"u-1"}}') == "u-1"
    assert deleted_uid(b'{"kind":"Status","status":"Success"}') == ""
    assert deleted_uid(b'{"kind":"Pod","status":{"phase":"Running"},"metadata":{}}') is None
