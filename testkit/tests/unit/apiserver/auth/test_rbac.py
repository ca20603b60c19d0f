"""RBAC beyond the recordings: freshness, the check on updates, aggregation, and the cost of a decision."""

import time
from typing import Any

import pytest
from record.admission.world import binding, role, rule
from stored_objects import Stored

from konverge_testing.apiserver import auth
from konverge_testing.apiserver.auth import Attributes
from konverge_testing.apiserver.requests import Call, User
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

ANN = User("ann")
LIST = Attributes("list", resource="pods", version="v1", namespace="rights")


def test_a_right_holds_from_the_moment_of_its_binding_to_its_end() -> None:
    objects = Stored([role("reader", rule("core", "pods", "list"))])
    rbac = auth.Rbac(objects)
    assert not rbac.allows(ANN, LIST).allowed
    objects.put(binding("reader", "Role/reader", "User:ann"))
    assert rbac.allows(ANN, LIST).allowed
    objects.put(role("reader", rule("core", "pods", "get")))
    assert not rbac.allows(ANN, LIST).allowed
    objects.put(role("reader", rule("core", "pods", "list")))
    assert rbac.allows(ANN, LIST).allowed
    objects.remove(("rbac.authorization.k8s.io", "rolebindings"), "rights", "reader")
    assert not rbac.allows(ANN, LIST).allowed


def test_aggregated_rules_follow_the_roles_that_are_selected() -> None:
    selector = {"matchExpressions": [{"key": "part-of", "operator": "In", "values": ["sum"]}]}
    whole = role("sum", cluster=True, aggregationRule={"clusterRoleSelectors": [selector]})
    objects = Stored([whole, binding("sum", "ClusterRole/sum", "User:ann")])
    rbac = auth.Rbac(objects)
    assert not rbac.allows(ANN, LIST).allowed
    part = role("part", rule("core", "pods", "list"), cluster=True, metadata={"labels": {"part-of": "sum"}})
    objects.put(part)
    assert rbac.allows(ANN, LIST).allowed
    assert auth.aggregated(whole, [whole, part]) == part["rules"]
    assert auth.aggregated(part, [whole, part]) is None


def test_the_bootstrap_roles_make_an_administrator_and_a_viewer() -> None:
    objects = Stored(auth.bootstrap_objects())
    objects.put(binding("root", "ClusterRole/cluster-admin", "User:root", cluster=True))
    objects.put(binding("view", "ClusterRole/view", "User:vera"))
    rbac = auth.Rbac(objects)
    assert rbac.allows(User("root"), Attributes("delete", group="apps", resource="deployments")).allowed
    assert rbac.allows(User("root"), Attributes("post", path="/anything")).allowed
    assert rbac.allows(User("vera"), LIST).allowed
    assert not rbac.allows(User("vera"), Attributes("delete", resource="pods", namespace="rights")).allowed
    assert rbac.allows(ANN, Attributes("get", path="/version")).allowed


def _escalate(new: Data, old: Data | None = None, **user: Any) -> None:
    objects = Stored([role("own", rule("core", "pods", "get")), binding("own", "Role/own", "User:ann")])
    auth.require_no_escalation(auth.Rbac(objects), User("ann", **user), "roles", "rights", new, old, "r")


def test_an_update_that_adds_rights_is_an_escalation() -> None:
    small, large = role("r", rule("core", "pods", "get")), role("r", rule("core", "secrets", "get"))
    _escalate(small, large)
    with pytest.raises(StatusError, match="not currently held"):
        _escalate(large, small)


def test_update_of_an_unheld_role_is_refused_even_without_rule_changes() -> None:
    large = role("r", rule("core", "secrets", "get"))
    labelled = role("r", rule("core", "secrets", "get"), metadata={"labels": {"a": "b"}})
    with pytest.raises(StatusError, match="not currently held"):
        _escalate(labelled, large)


def test_the_garbage_collector_may_change_its_own_fields() -> None:
    large = role("r", rule("core", "secrets", "get"))
    _escalate(role("r", rule("core", "secrets", "get"), metadata={"finalizers": ["example.com/x"]}), large)


def test_a_member_of_the_masters_may_grant_anything() -> None:
    _escalate(role("r", rule("*", "*", "*")), groups=("system:masters",))


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/api/v1/namespaces/n/pods/p/log", Attributes("get", "", "v1", "pods", "log", "n", "p")),
        ("POST", "/api/v1/namespaces/n/pods/p/eviction", Attributes("create", "", "v1", "pods", "eviction", "n", "p")),
        ("GET", "/api/v1/namespaces", Attributes("list", "", "v1", "namespaces")),
        ("GET", "/api/v1/namespaces/n", Attributes("get", "", "v1", "namespaces", "", "n", "n")),
        ("PUT", "/api/v1/namespaces/n/finalize", Attributes("update", "", "v1", "namespaces", "finalize", "n", "n")),
        ("GET", "/apis/apps/v1/deployments?watch=1", Attributes("watch", "apps", "v1", "deployments")),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/n/deployments",
            Attributes("deletecollection", "apps", "v1", "deployments", "", "n"),
        ),
        ("GET", "/apis/apps/v1", Attributes("get", path="/apis/apps/v1")),
        ("HEAD", "/healthz", Attributes("head", path="/healthz")),
    ],
)
def test_attributes_are_parsed_from_method_and_path(method: str, path: str, wanted: Attributes) -> None:
    assert auth.attributes_of(Call.of(method, path)) == wanted


def test_a_cached_decision_costs_microseconds() -> None:
    rbac = auth.Rbac(Stored([*auth.bootstrap_objects(), binding("view", "ClusterRole/view", "User:ann")]))
    assert rbac.allows(ANN, LIST).allowed
    start = time.process_time()
    for _ in range(10_000):
        rbac.allows(ANN, LIST)
    assert time.process_time() - start < 0.25
