"""clusterctl itself reads the components of the provider from a repository in a folder, and a real API server accepts its output."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterctl_runner import PROVIDER, Clusterctl, container_of
from go_programs import CLUSTERCTL, go_program
from machines_crd_cases import KINDS

from konverge.crds import crd
from konverge_testing import ControlPlane, Lab
from konverge_testing.failures import BinariesMissing

VALUES = Path(__file__).parents[3] / "deploy/cluster-api/values.yaml"
IMAGE = yaml.safe_load(VALUES.read_text())["image"]["repository"]


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return go_program(CLUSTERCTL, os.environ, tell=None)
    except BinariesMissing:
        pytest.skip("no clusterctl in the cache: python tools/go_programs.py clusterctl")


@pytest.fixture
def clusterctl(program: Path, tmp_path: Path) -> Clusterctl:
    return Clusterctl(program, tmp_path)


def environment_of(text: str) -> dict[str, Any]:
    return {one["name"]: one.get("value", "") for one in container_of(text)["env"]}


async def test_the_components_need_no_variable(clusterctl: Clusterctl) -> None:
    text = await clusterctl.generate()
    environment = environment_of(text)
    assert environment["KONVERGE_MACHINES__CLUSTER_ID"] == "nstance"
    assert environment["KONVERGE_MACHINES__TENANT"] == "default"
    assert environment["KONVERGE_MACHINES__WATCH_FILTER"] == ""
    assert "nstance--default-kubeconfig" in text
    assert "${" not in text
    found = [one for one in yaml.safe_load_all(text) if one["kind"] == "CustomResourceDefinition"]
    assert {one["metadata"]["name"]: one["spec"] for one in found} == {
        made["metadata"]["name"]: made["spec"] for made in (crd(model) for model in KINDS)
    }, "patterns with a dollar sign stay as they are"
    for one in yaml.safe_load_all(text):
        assert one["metadata"]["labels"]["cluster.x-k8s.io/provider"] == PROVIDER


@pytest.mark.parametrize("value", ["blue", "123", "yes"])
async def test_variables_reach_the_operator_as_text(clusterctl: Clusterctl, value: str) -> None:
    names = {"NSTANCE_CLUSTER_ID": "acme", "NSTANCE_TENANT": value, "NSTANCE_WATCH_FILTER": value}
    text = await clusterctl.generate(**names)
    environment = environment_of(text)
    assert environment["KONVERGE_MACHINES__CLUSTER_ID"] == "acme"
    assert environment["KONVERGE_MACHINES__TENANT"] == value
    assert environment["KONVERGE_MACHINES__WATCH_FILTER"] == value
    assert f"acme--{value}-kubeconfig" in text


async def test_it_describes_the_provider_with_its_variables_and_its_image(clusterctl: Clusterctl) -> None:
    text = await clusterctl.generate("--describe")
    for name in ("NSTANCE_CLUSTER_ID", "NSTANCE_TENANT", "NSTANCE_WATCH_FILTER"):
        assert f"- {name}\n" in text
    assert f"- {IMAGE}:{version('konverge')}\n" in text


async def test_another_namespace_and_another_registry_are_put_everywhere(clusterctl: Clusterctl) -> None:
    clusterctl.config["images"] = {PROVIDER: {"repository": "registry.example.com/mirror", "tag": "v9"}}
    text = await clusterctl.generate("--target-namespace", "other")
    assert container_of(text)["image"] == "registry.example.com/mirror/konverge:v9"
    assert "nstance-system" not in text
    objects = list(yaml.safe_load_all(text))
    assert [one["metadata"]["name"] for one in objects if one["kind"] == "Namespace"] == ["other"]
    assert {one["metadata"]["namespace"] for one in objects if "namespace" in one["metadata"]} == {"other"}
    subjects = [subject for one in objects for subject in one.get("subjects", ())]
    assert {subject["namespace"] for subject in subjects} == {"other"}


@pytest.mark.control_plane
async def test_an_api_server_accepts_what_clusterctl_makes(
    clusterctl: Clusterctl, control_plane: ControlPlane, lab: Lab
) -> None:
    text = await clusterctl.generate("--target-namespace", lab.namespace)
    words = ("--server-side", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "--force-conflicts")
    said = await control_plane.kubectl("apply", *words, "-f", "-", stdin=text)
    assert said.count("serverside-applied") == len(list(yaml.safe_load_all(text)))
