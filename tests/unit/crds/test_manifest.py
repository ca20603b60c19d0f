from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from konverge.crds import (
    Column,
    CustomResource,
    Model,
    Scale,
    Status,
    all_manifests,
    crd,
    crd_manifests,
    crd_stub,
    own_resources,
    resource,
    schema_of,
    to_yaml,
)
from konverge.crds import generate as generator
from konverge.errors import UsageError
from konverge.kinds import kind


class SampleSpec(Model):
    size: str


@resource(
    "example.com/v1",
    kind="Sample",
    short_names=("smp",),
    categories=("all",),
    columns=(
        Column("Size", ".spec.size", priority=1, description="How big.", format="byte"),
        Column("Age", ".spec.size"),
    ),
    scale=Scale(".spec.replicas", ".status.replicas"),
)
class Sample(CustomResource[SampleSpec, Status]):
    """A sample."""


def version(name: str, **options: Any) -> type[CustomResource[SampleSpec, Status]]:
    class Other(CustomResource[SampleSpec, Status]):
        pass

    return resource(f"example.com/{name}", **{"kind": "Other", **options})(Other)


# -- the committed files ----------------------------------------------------------------------------------------------


def test_the_committed_manifests_are_what_the_models_say() -> None:
    assert generator.outdated(generator.expected(), generator.stored()) == [], "run: python -m konverge.crds.generate"


def test_each_own_resource_has_its_manifest() -> None:
    assert {manifest["metadata"]["name"] for manifest in all_manifests()} == {
        path.stem for path in generator.FOLDER.glob("*.yaml")
    }
    assert len(own_resources()) >= 1


def test_generating_writes_files_that_differ_and_removes_those_without_a_definition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "manifests"
    assert generator.main([], folder) == 0
    names = sorted(generator.expected())
    assert sorted(path.name for path in folder.iterdir()) == names
    (folder / names[0]).write_text("changed", encoding="utf-8")
    (folder / "left.yaml").write_text("behind", encoding="utf-8")
    assert generator.main(["--check"], folder) == 1
    assert (folder / names[0]).read_text(encoding="utf-8") == "changed"
    assert capsys.readouterr().err.count("differs from the models") == 2
    assert generator.main([], folder) == 0
    assert generator.stored(folder) == generator.expected()
    assert generator.main(["--check"], folder) == 0


def test_an_unknown_argument_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generator.main(["--chekc"], tmp_path) == 2
    assert "usage: python -m konverge.crds.generate [--check]" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_generator_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "konverge.crds.generate", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- definitions ------------------------------------------------------------------------------------------------------


def test_a_definition_says_everything_once() -> None:
    assert crd(Sample) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "samples.example.com"},
        "spec": {
            "group": "example.com",
            "names": {
                "kind": "Sample",
                "listKind": "SampleList",
                "plural": "samples",
                "singular": "sample",
                "shortNames": ["smp"],
                "categories": ["all"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {
                            "name": "Size",
                            "type": "string",
                            "jsonPath": ".spec.size",
                            "format": "byte",
                            "priority": 1,
                            "description": "How big.",
                        },
                        {"name": "Age", "type": "string", "jsonPath": ".spec.size"},
                    ],
                    "schema": {"openAPIV3Schema": schema_of(Sample)},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                }
            ],
        },
    }


def test_a_definition_without_columns_leaves_them_to_kubectl() -> None:
    assert "additionalPrinterColumns" not in crd(version("v1"))["spec"]["versions"][0]


def test_changing_a_returned_manifest_does_not_change_the_next_one() -> None:
    crd(Sample)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clear()
    assert "spec" in crd(Sample)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def test_the_versions_of_a_kind_are_ordered_as_kubectl_prefers_them() -> None:
    names = ["v1alpha2", "v1beta1", "v10", "v1alpha10", "v2", "v2beta1"]
    made = crd(*(version(name, storage=name == "v2") for name in names))
    assert [found["name"] for found in made["spec"]["versions"]] == [
        "v10",
        "v2",
        "v2beta1",
        "v1beta1",
        "v1alpha10",
        "v1alpha2",
    ]
    assert [found["name"] for found in made["spec"]["versions"] if found["storage"]] == ["v2"]


def test_an_old_version_warns_its_users() -> None:
    made = crd(version("v1"), version("v1beta1", storage=False, deprecated="use v1"))
    assert made["spec"]["versions"][1]["deprecated"] is True
    assert made["spec"]["versions"][1]["deprecationWarning"] == "use v1"
    assert "deprecated" not in made["spec"]["versions"][0]


def test_definitions_are_grouped_by_kind_and_sorted() -> None:
    made = crd_manifests([Sample, version("v1beta1", storage=False), version("v1")])
    assert [manifest["metadata"]["name"] for manifest in made] == ["others.example.com", "samples.example.com"]
    assert len(made[0]["spec"]["versions"]) == 2


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ((), "at least one class"),
        ((version("v1"), version("v2")), "Other is stored in v2, v1; exactly one of its versions has storage=True"),
        ((version("v1", storage=False),), "Other is stored in no version"),
        ((version("v1"), version("v1", storage=False)), "declared twice in one version"),
        ((version("v1"), version("v2", storage=False, scope="Cluster")), "disagree on scope: 'Cluster' and 'Namespaced'"),
        ((version("v1"), version("v2", storage=False, short_names=("o",))), "disagree on short_names"),
        ((version("v1"), Sample), "disagree on kind"),
    ],
    ids=["none", "two stored", "none stored", "twice", "scope", "short names", "two kinds"],
)  # fmt: skip
def test_versions_that_contradict_each_other_are_refused(classes: tuple[Any, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        crd(*classes)


def test_a_stub_accepts_anything_of_a_kind_that_is_not_ours() -> None:
    made = crd_stub(kind("velero.io/v1", "Backup"), status=False)
    assert made["spec"]["names"]["plural"] == "backups"
    assert made["spec"]["versions"][0] == {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    assert crd_stub(kind("a.b/v1", "Thing", plural="thingies"))["metadata"]["name"] == "thingies.a.b"
    assert crd_stub(kind("a.b/v1", "Thing", namespaced=False))["spec"]["scope"] == "Cluster"
    assert crd_stub(kind("a.b/v1", "Thing"))["spec"]["versions"][0]["subresources"] == {"status": {}}


# -- YAML -------------------------------------------------------------------------------------------------------------


def test_written_yaml_reads_back_as_the_same_data() -> None:
    shared = {"a": [1, 2]}
    text = to_yaml({"one": shared, "two": shared, "yes": "no", "n": "1"}, {"three": None}, comment="Two\nlines")
    assert text.startswith("# Two\n# lines\n---\none:\n")
    assert "&" not in text
    assert list(yaml.safe_load_all(text)) == [{"one": shared, "two": shared, "yes": "no", "n": "1"}, {"three": None}]


def test_yaml_is_the_same_each_time_and_says_what_the_data_says() -> None:
    manifests = all_manifests()
    assert to_yaml(*manifests) == to_yaml(*all_manifests())
    assert list(yaml.safe_load_all(to_yaml(*manifests))) == manifests


def test_labels_are_those_of_the_definition_and_all_versions_share_them() -> None:
    labels = {"example.com/contract": "v1", "team": ""}

    @resource("example.com/v1", kind="Labelled", labels=labels)
    class Labelled(CustomResource[SampleSpec, Status]):
        """Has labels."""

    @resource("example.com/v1alpha1", kind="Labelled", storage=False)
    class Older(CustomResource[SampleSpec, Status]):
        """Has none."""

    assert crd(Labelled)["metadata"]["labels"] == labels
    with pytest.raises(UsageError, match="labels"):
        crd(Labelled, Older)


@pytest.mark.parametrize("labels", [{"a b": "c"}, {"a": "b c"}, {"/a": ""}, {"a" * 64: ""}, {"a": "b" * 64}])
def test_label_that_the_api_server_refuses_is_a_declaration_error(labels: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is not valid"):

        @resource("example.com/v1", labels=labels)
        class Wrong(CustomResource[SampleSpec, Status]):
            """Has a wrong label."""


def test_a_conversion_webhook_is_in_its_definition_only() -> None:
    client = {"service": {"namespace": "web", "name": "hooks", "path": "/convert", "port": 443}}
    other, sample = crd_manifests([Sample, version("v1")], webhooks={"samples.example.com": client})
    assert sample["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    assert "conversion" not in other["spec"]
