"""What a proxy makes of a request; its behaviour on a real API server is in tests/e2e/faults/test_proxies.py."""

from __future__ import annotations

import pytest

from konverge.testing.proxy import Call, is_write

CALLS = [
    (Call("GET", "/api/v1/namespaces/web/secrets/x"), "secrets", False),
    (Call("GET", "/api/v1/namespaces"), "namespaces", False),
    (Call("DELETE", "/api/v1/namespaces/web"), "namespaces", True),
    (Call("POST", "/api/v1/namespaces/events/secrets"), "secrets", True),
    (Call("PATCH", "/apis/apps/v1/namespaces/web/deployments/x/scale"), "deployments", True),
    (Call("PATCH", "/apis/apps/v1/namespaces/web/deployments/x", {"dryRun": "All"}), "deployments", False),
    (Call("PUT", "/apis/coordination.k8s.io/v1/namespaces/web/leases/x"), "leases", False),
    (Call("POST", "/apis/events.k8s.io/v1/namespaces/web/events"), "events", False),
    (Call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), "selfsubjectaccessreviews", False),
    (Call("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"), "selfsubjectrulesreviews", False),
    (Call("POST", "/apis/authentication.k8s.io/v1/tokenreviews"), "tokenreviews", False),
    (Call("POST", "/api/v1/namespaces/web/serviceaccounts/x/token"), "serviceaccounts", False),
    (Call("GET", "/apis/apps/v1"), "", False),
    (Call("GET", "/version"), "", False),
]


@pytest.mark.parametrize(("call", "resource", "write"), CALLS, ids=[str(call) for call, _, _ in CALLS])
def test_a_call_knows_what_it_is_about_and_whether_it_changes_anything(call: Call, resource: str, write: bool) -> None:
    assert call.resource == resource
    assert is_write(call) is write


@pytest.mark.parametrize(
    ("query", "watches"), [({"watch": "1"}, True), ({"watch": "true"}, True), ({"watch": "0"}, False), ({}, False)]
)
def test_a_watch_is_known_by_its_parameter(query: dict[str, str], watches: bool) -> None:
    assert Call("GET", "/api/v1/secrets", query).watches is watches
