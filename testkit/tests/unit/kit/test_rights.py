from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from konverge_testing.rights import documents_for, probe_of

READ = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}


def test_rules_become_a_role_and_its_binding_in_the_namespace() -> None:
    made = dict(documents_for("web", "reader", [READ], []))
    base = "/apis/rbac.authorization.k8s.io/v1/namespaces/web"
    assert list(made) == [f"{base}/roles", f"{base}/rolebindings"]
    assert made[f"{base}/roles"]["rules"] == [READ]
    binding = made[f"{base}/rolebindings"]
    assert (binding["kind"], binding["metadata"]["name"]) == ("RoleBinding", "reader")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "reader", "namespace": "web"}]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}


def test_cluster_rule_names_include_the_namespace_so_tests_do_not_collide() -> None:
    made = dict(documents_for("web", "reader", [], [READ]))
    base = "/apis/rbac.authorization.k8s.io/v1"
    assert list(made) == [f"{base}/clusterroles", f"{base}/clusterrolebindings"]
    assert {document["metadata"]["name"] for document in made.values()} == {"web-reader"}
    assert made[f"{base}/clusterrolebindings"]["roleRef"]["kind"] == "ClusterRole"


def test_no_rules_make_no_documents() -> None:
    assert list(documents_for("web", "nobody", [], [])) == []


@pytest.mark.parametrize(
    ("rule", "namespace", "probe"),
    [
        (READ, "web", {"resourceAttributes": {"namespace": "web", "verb": "get", "resource": "secrets"}}),
        (READ, "", {"resourceAttributes": {"verb": "get", "resource": "secrets"}}),
        (
            {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["update"], "resourceNames": ["one"]},
            "web",
            {
                "resourceAttributes": {
                    "namespace": "web",
                    "verb": "update",
                    "group": "apps",
                    "resource": "deployments",
                    "subresource": "scale",
                    "name": "one",
                }
            },
        ),
        (
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            "",
            {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
        ),
    ],
)
def test_the_probe_of_a_rule_is_its_first_verb_and_resource(
    rule: Mapping[str, Sequence[str]], namespace: str, probe: dict[str, Any]
) -> None:
    assert probe_of(rule, namespace) == probe
