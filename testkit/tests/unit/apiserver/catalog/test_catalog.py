"""The catalog equals a real server's, is complete in itself, and is loaded only on use."""

from collections.abc import Iterator
from typing import Any

import pytest

from konverge_testing.apiserver.catalog import (
    Subresource,
    builtin,
    definition_of,
    definitions,
    reachable,
    returns_deleted,
    schema_node,
    schemas,
    storage_hash,
    subresources,
    verbs,
)
from konverge_testing.apiserver.catalog.descriptions import SENTENCES
from konverge_testing.apiserver.discovery.documents import references
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Strategy, Version

KINDS = {resource.id: resource for resource in builtin({})}


def place(kind: tuple[str, str], *path: str) -> Node:
    """Return the schema at a path; `*` selects the items of a list."""
    node: Node | None = KINDS[kind].storage.schema
    for name in path:
        assert node is not None
        node = node.items if name == "*" else node.child(name)
    assert node is not None
    return node


@pytest.fixture
def unread() -> Iterator[None]:
    kept = (definitions, schema_node)
    for one in kept:
        one.cache_clear()
    yield
    for one in kept:
        one.cache_clear()


def test_making_the_resources_does_not_read_the_schemas(unread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def files(self, package: str) -> Any:
            raise AssertionError(package)

    monkeypatch.setattr(schemas, "resources", Closed())
    [pods] = [resource for resource in builtin({}) if resource.id == ("", "pods")]
    with pytest.raises(AssertionError):
        _ = pods.storage.schema.properties


def test_a_strategy_is_found_by_group_and_plural_and_is_plain_elsewhere() -> None:
    class Mine(Strategy):
        pass

    mine = Mine()
    found = {resource.id: resource.strategy for resource in builtin({("apps", "deployments"): mine})}
    assert found["apps", "deployments"] is mine
    assert type(found["", "pods"]) is Strategy


def test_every_reference_of_every_schema_is_there() -> None:
    known = definitions()
    assert {name for name in references(dict(known)) if name not in known} == set()
    assert {version.schema.reference for kind in KINDS.values() for version in kind.versions} <= set(known)


def test_every_kind_has_the_schema_of_its_own_kind() -> None:
    for kind in KINDS.values():
        for version in kind.versions:
            gvk = {"group": kind.group, "version": version.name, "kind": kind.kind}
            assert gvk in version.schema.schema["x-kubernetes-group-version-kind"]
            assert definition_of(kind.group, version.name, kind.kind) == version.schema.reference


def test_catalog_drops_upstream_descriptions_and_keeps_fields_named_description() -> None:
    def described(schema: Any) -> bool:
        if isinstance(schema, list):
            return any(map(described, schema))
        if not isinstance(schema, dict):
            return False
        return isinstance(schema.get("description"), str) or any(map(described, schema.values()))

    assert [name for name, schema in definitions().items() if described(schema)] == []
    assert "description" in place(("apiextensions.k8s.io", "customresourcedefinitions"), *_PROPS).properties


_PROPS = ("spec", "versions", "*", "schema", "openAPIV3Schema")


def test_a_recursive_schema_can_be_followed_for_ever() -> None:
    node = place(("apiextensions.k8s.io", "customresourcedefinitions"), *_PROPS)
    for _ in range(50):
        node = node.properties["properties"].additional or node
    assert node.properties["type"].type == "string"


POD = ("spec", "template", "spec")
DEPLOYMENT = ("apps", "deployments")


@pytest.mark.parametrize(
    ("kind", "path", "keys"),
    [
        (DEPLOYMENT, (*POD, "containers"), ("name",)),
        (DEPLOYMENT, (*POD, "containers", "*", "ports"), ("containerPort", "protocol")),
        (DEPLOYMENT, (*POD, "containers", "*", "env"), ("name",)),
        (DEPLOYMENT, (*POD, "volumes"), ("name",)),
        (DEPLOYMENT, (*POD, "imagePullSecrets"), ("name",)),
        (DEPLOYMENT, (*POD, "hostAliases"), ("ip",)),
        (DEPLOYMENT, (*POD, "topologySpreadConstraints"), ("topologyKey", "whenUnsatisfiable")),
        (DEPLOYMENT, ("status", "conditions"), ("type",)),
        (DEPLOYMENT, ("metadata", "ownerReferences"), ("uid",)),
        (("", "services"), ("spec", "ports"), ("port", "protocol")),
        (("apiextensions.k8s.io", "customresourcedefinitions"), (*_PROPS, "x-kubernetes-validations"), ("rule",)),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_a_list_that_is_a_map_has_its_keys(kind: tuple[str, str], path: tuple[str, ...], keys: tuple[str, ...]) -> None:
    node = place(kind, *path)
    assert (node.list_type, node.list_keys, node.atomic) == ("map", keys, False)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (DEPLOYMENT, (*POD, "tolerations")),
        (DEPLOYMENT, (*POD, "containers", "*", "command")),
        (DEPLOYMENT, (*POD, "nodeSelector")),
        (DEPLOYMENT, ("spec", "selector")),
        (("", "services"), ("spec", "selector")),
        (("rbac.authorization.k8s.io", "roles"), ("rules",)),
        (("rbac.authorization.k8s.io", "rolebindings"), ("roleRef",)),
        (("", "pods"), ("status", "containerStatuses")),
    ],
    ids=".".join,
)
def test_fields_that_are_owned_as_one_are_atomic(kind: tuple[str, str], path: tuple[str, ...]) -> None:
    assert place(kind, *path).atomic


def test_finalizers_are_a_set_and_data_a_map() -> None:
    assert place(("", "configmaps"), "metadata", "finalizers").list_type == "set"
    data = place(("", "configmaps"), "data")
    assert data.additional is not None
    assert data.additional.type == "string"
    assert not data.atomic


def test_lists_have_their_patch_keys_and_strategies() -> None:
    containers = place(DEPLOYMENT, *POD, "containers")
    assert (containers.merge_key, containers.merge_strategy) == ("name", ("merge",))
    assert place(DEPLOYMENT, *POD, "volumes").merge_strategy == ("merge", "retainKeys")
    assert place(DEPLOYMENT, "spec", "strategy").merge_strategy == ("retainKeys",)
    assert place(DEPLOYMENT, *POD, "containers", "*", "ports").merge_key == "containerPort"


def test_defaults_formats_and_enums_are_kept() -> None:
    port = place(DEPLOYMENT, *POD, "containers", "*", "ports", "*")
    assert port.properties["protocol"].default == "TCP"
    assert port.properties["protocol"].schema["enum"] == ["SCTP", "TCP", "UDP"]
    assert port.properties["containerPort"].schema["format"] == "int32"
    assert place(("policy", "poddisruptionbudgets"), "spec", "minAvailable").int_or_string
    assert set(port.schema["required"]) == {"containerPort"}


def test_review_kinds_are_not_stored() -> None:
    assert {kind.plural for kind in KINDS.values() if not kind.stored} == {
        "bindings",
        "componentstatuses",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }


def test_subresources_know_the_kinds_that_they_speak() -> None:
    pods = KINDS["", "pods"]
    found = {each.name: each for each in subresources(pods, pods.storage)}
    assert set(found) == pods.subresources
    assert found["eviction"] == Subresource("eviction", "Eviction", "policy", "v1", ("create",))
    assert found["exec"].verbs == ("create", "get")
    assert found["status"] == Subresource("status", "Pod", verbs=("get", "patch", "update"))
    assert definition_of("policy", "v1", "Eviction") == "io.k8s.api.policy.v1.Eviction"
    assert {kind.plural for kind in KINDS.values() if "scale" in kind.subresources} == {
        "deployments",
        "replicasets",
        "replicationcontrollers",
        "statefulsets",
    }
    assert all(
        (version.scale is not None) == ("scale" in kind.subresources)
        for kind in KINDS.values()
        for version in kind.versions
    )


def test_a_custom_kind_has_its_verbs_hash_and_subresources_by_rule() -> None:
    version = Version("v1", Node({}), has_status=True, scale={"specReplicasPath": ".spec.replicas"})
    gadget = Resource(group="probe.example.com", plural="gadgets", kind="Gadget", versions=(version,), custom=True)
    assert storage_hash(gadget) == "NKmluV7+z/g="
    assert verbs(gadget) == ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
    assert [(each.name, each.kind, each.group) for each in subresources(gadget, version)] == [
        ("status", "Gadget", "probe.example.com"),
        ("scale", "Scale", "autoscaling"),
    ]
    assert not returns_deleted(gadget)


def test_deleting_a_pod_answers_the_pod_and_deleting_a_deployment_a_status() -> None:
    assert returns_deleted(KINDS["", "pods"])
    assert not returns_deleted(KINDS[DEPLOYMENT])


def test_deprecated_kinds_warn_their_users() -> None:
    assert {kind.plural: kind.storage.deprecated for kind in KINDS.values() if kind.storage.deprecated} == {
        "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
        "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    }


def test_the_reachable_definitions_refer_only_to_each_other() -> None:
    found = reachable([schema_node("io.k8s.api.apps.v1.Deployment").reference])
    assert list(found) == sorted(found)
    assert set(references(dict(found))) <= set(found)
    assert "io.k8s.api.core.v1.Service" not in found


def test_every_description_is_of_an_existing_kind() -> None:
    assert set(SENTENCES) <= set(definitions())
