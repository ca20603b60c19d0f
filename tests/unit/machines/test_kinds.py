"""The definitions of the kinds of Nstance: names, labels of the contract, columns, and the API server's validation by the definitions only.

The same table runs on kube-apiserver in tests/e2e/machines/test_kinds_on_a_server.py.
"""

import json
import re
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from crd_cases import Answer
from machines_crd_cases import CASES, CHANGES, KINDS, TABLE

from konverge.crds import crd, declaration_of
from konverge.crds.machines_v1beta1 import CONTRACT_LABELS, NstanceMachinePoolSpec, NstanceMachineSpec

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return TABLE.on_memory()


@pytest.mark.parametrize("name", CASES)
def test_the_definition_decides_what_may_be_written(answers: dict[str, Answer], name: str) -> None:
    case, answer = CASES[name], answers[name]
    assert answer.status in ({422} if case.words else {200, 201}), answer.message
    assert case.words in answer.message
    if not case.words:
        assert answer.document["spec"] == case.before["spec"], "no field is pruned or filled in"
        assert answer.document.get("status", {}) == case.status


@pytest.mark.parametrize("name", CHANGES)
def test_the_definition_decides_what_may_be_changed(answers: dict[str, Answer], name: str) -> None:
    case, answer = CHANGES[name], answers[name]
    assert answer.status == (422 if case.words else 200), answer.message
    assert case.words in answer.message
    if not case.words:
        assert case.after is not None
        assert answer.document["spec"] == case.after["spec"]


def test_names_and_columns_are_those_of_the_original() -> None:
    found = {kind.__name__: [column.name for column in declaration_of(kind).all_columns()] for kind in KINDS}
    assert found == {
        "NstanceCluster": ["Provisioned", "Age"],
        "NstanceControlPlane": ["Initialized", "Age"],
        "NstanceMachine": ["Group", "InstanceID", "ProviderID", "Ready", "Age"],
        "NstanceMachinePool": ["Group", "Static", "Ready", "Age"],
        "NstanceMachineTemplate": ["Group", "Age"],
        "NstanceShardGroup": ["Group", "Shard", "Size", "Static", "Ready", "Age"],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_definition_fulfils_the_contract_of_cluster_api(kind: Any) -> None:
    made = crd(kind)
    assert made["metadata"] == {
        "name": f"{kind.__name__.lower()}s.infrastructure.cluster.x-k8s.io",
        "labels": {
            "cluster.x-k8s.io/v1beta1": "v1beta1",
            "cluster.x-k8s.io/v1beta2": "v1beta1",
            "cluster.x-k8s.io/provider": "infrastructure-nstance",
        },
    }
    assert made["spec"]["scope"] == "Namespaced"
    assert made["spec"]["names"]["categories"] == ["cluster-api"]
    assert [version["name"] for version in made["spec"]["versions"]] == ["v1beta1"]


@pytest.mark.parametrize(
    ("reference", "group"),
    [("workers", "workers"), ({"name": "workers"}, "workers"), ({}, ""), (7, ""), ({"name": 7}, "")],
)
def test_a_reference_to_a_group_is_a_name_or_an_object(reference: object, group: str) -> None:
    assert NstanceMachineSpec.model_validate({"groupRef": reference}).group == group


def test_the_provider_ids_are_written_as_cluster_api_reads_them() -> None:
    spec = NstanceMachinePoolSpec.model_validate({"group": "g", "shards": ["a"], "providerIDList": ["i-1"]})
    assert spec.provider_id_list == ("i-1",)
    assert spec.wire()["providerIDList"] == ["i-1"]


def test_clusterctl_finds_the_contract_of_the_present_version() -> None:
    file = ROOT / "deploy" / "cluster-api" / "metadata.yaml"
    if not file.exists():
        pytest.skip("deploy/ is not part of the wheel")
    made = yaml.safe_load(file.read_text())
    assert (made["apiVersion"], made["kind"]) == ("clusterctl.cluster.x-k8s.io/v1alpha3", "Metadata")
    contracts = {(one["major"], one["minor"]): one["contract"] for one in made["releaseSeries"]}
    major, minor = version("konverge").split(".")[:2]
    assert contracts[int(major), int(minor)] == "v1beta2"
    assert f"cluster.x-k8s.io/{contracts[int(major), int(minor)]}" in CONTRACT_LABELS


# --- the components of clusterctl --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def components() -> list[dict[str, Any]]:
    file = ROOT / "deploy" / "cluster-api" / "infrastructure-components.yaml"
    if not file.exists():
        pytest.skip("deploy/ is not part of the wheel")
    return [one for one in yaml.safe_load_all(file.read_text()) if one]


def test_clusterctl_finds_one_namespace_one_deployment_and_labelled_components(
    components: list[dict[str, Any]],
) -> None:
    kinds = Counter(one["kind"] for one in components)
    assert (kinds["Namespace"], kinds["Deployment"]) == (1, 1)
    for one in components:
        named = f"{one['kind']} {one['metadata']['name']}"
        assert one["metadata"]["labels"]["cluster.x-k8s.io/provider"] == "infrastructure-nstance", named
    [namespace] = [one for one in components if one["kind"] == "Namespace"]
    spaces = {one["metadata"]["namespace"] for one in components if "namespace" in one["metadata"]}
    assert spaces == {namespace["metadata"]["name"]} == {"nstance-system"}
    assert "nstance-system" not in str([one["spec"] for one in components if one["kind"] == "Deployment"]), (
        "clusterctl puts another namespace into metadata and subjects only"
    )


class OneOfEach(yaml.SafeLoader):
    """Rejects a duplicate key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key) for key, _ in node.value]
        assert len(names) == len(set(names)), f"a key stands twice: {names}"
        return super().construct_mapping(node, deep=deep)


def test_no_key_of_the_components_stands_twice(components: list[dict[str, Any]]) -> None:
    text = (ROOT / "deploy" / "cluster-api" / "infrastructure-components.yaml").read_text()
    assert [one for one in yaml.load_all(text, OneOfEach) if one] == components  # a safe loader


def test_the_components_have_the_definitions_of_the_family_and_run_it_alone(components: list[dict[str, Any]]) -> None:
    found = {one["metadata"]["name"]: one["spec"] for one in components if one["kind"] == "CustomResourceDefinition"}
    assert found == {crd(kind)["metadata"]["name"]: crd(kind)["spec"] for kind in KINDS}
    for one in components:
        if one["kind"] == "CustomResourceDefinition":
            assert CONTRACT_LABELS.items() <= one["metadata"]["labels"].items()
    [deployment] = [one for one in components if one["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["KONVERGE_CONTROLLERS"] == "machines"
    image = yaml.safe_load((ROOT / "deploy/cluster-api/values.yaml").read_text())["image"]["repository"]
    assert container["image"].startswith(f"{image}:")
    assert "." in image.partition("/")[0], "clusterctl reads no image without a host"


def test_each_variable_of_the_components_has_a_default_and_reaches_the_operator(
    components: list[dict[str, Any]],
) -> None:
    text = json.dumps(components).replace('\\"', '"')
    variables = set(re.findall(r"\$\{[^}]*\}", text))
    assert variables == {
        "${NSTANCE_CLUSTER_ID:=nstance}",
        "${NSTANCE_TENANT:=default}",
        '${NSTANCE_WATCH_FILTER:=""}',
    }
    [deployment] = [one for one in components if one["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["KONVERGE_MACHINES__CLUSTER_ID"] == "${NSTANCE_CLUSTER_ID:=nstance}"
    assert environment["KONVERGE_MACHINES__WATCH_FILTER"] == '${NSTANCE_WATCH_FILTER:=""}'
    names = [name for one in components for rule in one.get("rules", ()) for name in rule.get("resourceNames", ())]
    assert "${NSTANCE_CLUSTER_ID:=nstance}--${NSTANCE_TENANT:=default}-kubeconfig" in names
