"""How a proxy forwards a request; its behaviour on a real API server is in tests/e2e/faults/test_proxies.py."""

import pytest

from konverge_testing.proxy import ProxiedRequest, is_write

CALLS = [
    (ProxiedRequest("GET", "/api/v1/namespaces/web/secrets/x"), "secrets", False),
    (ProxiedRequest("GET", "/api/v1/namespaces"), "namespaces", False),
    (ProxiedRequest("DELETE", "/api/v1/namespaces/web"), "namespaces", True),
    (ProxiedRequest("POST", "/api/v1/namespaces/events/secrets"), "secrets", True),
    (ProxiedRequest("PATCH", "/apis/apps/v1/namespaces/web/deployments/x/scale"), "deployments", True),
    (ProxiedRequest("PATCH", "/apis/apps/v1/namespaces/web/deployments/x", {"dryRun": "All"}), "deployments", False),
    (ProxiedRequest("PUT", "/apis/coordination.k8s.io/v1/namespaces/web/leases/x"), "leases", False),
    (ProxiedRequest("POST", "/apis/events.k8s.io/v1/namespaces/web/events"), "events", False),
    (
        ProxiedRequest("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        "selfsubjectaccessreviews",
        False,
    ),
    (ProxiedRequest("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"), "selfsubjectrulesreviews", False),
    (ProxiedRequest("POST", "/apis/authentication.k8s.io/v1/tokenreviews"), "tokenreviews", False),
    (ProxiedRequest("POST", "/api/v1/namespaces/web/serviceaccounts/x/token"), "serviceaccounts", False),
    (ProxiedRequest("GET", "/apis/apps/v1"), "", False),
    (ProxiedRequest("GET", "/version"), "", False),
]


@pytest.mark.parametrize(("call", "resource", "write"), CALLS, ids=[str(call) for call, _, _ in CALLS])
def test_a_proxied_request_knows_its_resource_and_whether_it_writes(
    call: ProxiedRequest, resource: str, write: bool
) -> None:
    assert call.resource == resource
    assert is_write(call) is write


@pytest.mark.parametrize(
    ("query", "watches"), [({"watch": "1"}, True), ({"watch": "true"}, True), ({"watch": "0"}, False), ({}, False)]
)
def test_a_watch_is_known_by_its_parameter(query: dict[str, str], watches: bool) -> None:
    assert ProxiedRequest("GET", "/api/v1/secrets", query).watches is watches
