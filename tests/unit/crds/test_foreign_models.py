"""Generated models of foreign kinds: the annotation and default of each schema, names, selections, and whole modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from konverge.crds.foreign.documents import ForeignKind, find_kind, kinds_in, parsed
from konverge.crds.foreign.drift import differences
from konverge.crds.foreign.rendering import command_in, generated
from konverge.errors import InvalidObject, UsageError
from konverge.kinds import Kind
from konverge_testing.apiserver.catalog import definitions

TEXT = {"type": "string"}
OBJECT = {"type": "object", "properties": {"size": TEXT}}
DEMANDING = {**OBJECT, "required": ["size"]}
KINDS = list(kinds_in({"openapi": "3.0.0", "components": {"schemas": definitions()}}, "the catalog"))
PREAMBLE = "from __future__ import annotations\n"


def kind_with(**properties: Any) -> ForeignKind:
    """Return a kind whose spec has these fields, `name!` for a required field."""
    required = [name.removesuffix("!") for name in properties if name.endswith("!")]
    spec = {
        "type": "object",
        "properties": {name.removesuffix("!"): schema for name, schema in properties.items()},
        "required": required,
    }
    return ForeignKind("example.com/v1", "Tank", {"type": "object", "properties": {"spec": spec}})


def built_in(api_version: str, name: str) -> ForeignKind:
    return find_kind(KINDS, api_version, name, "the catalog")


def lines_of(text: str, class_name: str) -> list[str]:
    """Return the body of a class in a module."""
    body = text.partition(f"class {class_name}(")[2].partition("\n\n\n")[0]
    return [line.strip() for line in body.splitlines()[1:]]


def loaded(text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names of a module; pydantic looks up forward references in it."""
    module = ModuleType("generated_models")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(text, module.__name__, "exec"), module.__dict__)
    return module.__dict__


@pytest.mark.parametrize(
    ("name", "schema", "line"),
    [
        ("size", TEXT, "size: str | None = None"),
        ("size!", TEXT, "size: str"),
        ("size!", {**TEXT, "default": ""}, "size: str"),
        ("size", {**TEXT, "default": 'a "b"'}, r'size: str = "a \"b\""'),
        ("size", {**TEXT, "nullable": True, "default": "a"}, "size: str | None = None"),
        ("size!", {**TEXT, "nullable": True}, "size: str | None"),
        ("count", {"type": "integer", "default": 3}, "count: int = 3"),
        ("ratio", {"type": "number"}, "ratio: int | float | None = None"),
        ("open", {"type": "boolean", "default": False}, "open: bool = False"),
        ("mode", {**TEXT, "enum": ["A", "B"], "default": "A"}, 'mode: Literal["A", "B"] | str = "A"'),
        ("mode", {**TEXT, "enum": ["A", None], "nullable": True}, 'mode: Literal["A"] | str | None = None'),
        ("at", {**TEXT, "format": "date-time"}, "at: AwareDatetime | None = None"),
        ("at!", {**TEXT, "format": "date-time"}, "at: AwareDatetime"),
        ("data", {**TEXT, "format": "byte"}, "data: str | None = None"),
        ("port", {"x-kubernetes-int-or-string": True, "default": 80}, "port: int | str = 80"),
        ("port", {**TEXT, "format": "int-or-string"}, "port: int | str | None = None"),
        ("cpu", {"oneOf": [TEXT, {"type": "number"}]}, "cpu: int | float | str | None = None"),
        ("any", {}, "any: Any = None"),
        ("any!", {"x-kubernetes-preserve-unknown-fields": True}, "any: Any"),
        ("values", {"type": "object"}, "values: dict[str, Any] | None = None"),
        ("values", {"type": "object", "additionalProperties": TEXT}, "values: dict[str, str] | None = None"),
        ("values!", {"type": "object", "additionalProperties": True}, "values: dict[str, Any]"),
        ("parts", {"type": "array", "items": TEXT, "default": []}, "parts: list[str] = Field(default_factory=list[str])"),
        ("parts", {"type": "array", "items": TEXT, "default": ["a"]}, "parts: list[str] | None = None"),
        ("parts!", {"type": "array"}, "parts: list[Any]"),
        ("rows", {"type": "array", "items": {"type": "array", "items": {**TEXT, "nullable": True}}}, "rows: list[list[str | None]] | None = None"),
        ("door", OBJECT, "door: TankSpecDoor | None = None"),
        ("door!", OBJECT, "door: TankSpecDoor"),
        ("door", {**OBJECT, "default": {}}, "door: TankSpecDoor = Field(default_factory=TankSpecDoor)"),
        ("door", {**DEMANDING, "default": {}}, "door: TankSpecDoor | None = None"),
        ("template", {**DEMANDING, "default": {}}, "template: TankSpecTemplate"),
        ("door", {**OBJECT, "default": {"size": "a"}}, "door: TankSpecDoor | None = None"),
        ("door", {**OBJECT, "x-kubernetes-preserve-unknown-fields": True}, "door: TankSpecDoor | None = None"),
        ("door", {**OBJECT, "x-kubernetes-embedded-resource": True}, "door: dict[str, Any] | None = None"),
        ("doors", {"type": "array", "items": OBJECT}, "doors: list[TankSpecDoors] | None = None"),
        ("doors", {"type": "object", "additionalProperties": OBJECT}, "doors: dict[str, TankSpecDoors] | None = None"),
        ("clusterIP", TEXT, 'cluster_ip: Annotated[str | None, Field(alias="clusterIP")] = None'),
        ("keepCopies", TEXT, "keep_copies: str | None = None"),
        ("from", TEXT, "from_: str | None = None"),
        ("copy", TEXT, "copy_: str | None = None"),
        ("schema", TEXT, "schema_: str | None = None"),
        ("$ref", TEXT, 'ref: Annotated[str | None, Field(alias="$ref")] = None'),
        ("int", {"type": "integer"}, "int_: int | None = None"),
    ],
)  # fmt: skip
def test_a_field_has_the_annotation_and_default_of_its_schema(
    name: str, schema: Any, line: str, monkeypatch: Any
) -> None:
    text = generated([kind_with(**{name: schema})])
    assert lines_of(text, "TankSpec") == [line]
    loaded(text, monkeypatch)["TANK"].new("a")


def test_spec_and_status_are_empty_objects_by_default() -> None:
    properties = {"spec": OBJECT, "status": {"type": "object"}, "data": OBJECT}
    text = generated([ForeignKind("v1", "Tank", {"properties": properties})])
    assert lines_of(text, "Tank") == [
        "data: TankData | None = None",
        "spec: TankSpec = Field(default_factory=TankSpec)",
        "status: dict[str, Any] = Field(default_factory=dict[str, Any])",
    ]
    demanding = generated([ForeignKind("v1", "Tank", {"properties": {"spec": DEMANDING}})])
    assert lines_of(demanding, "Tank") == ["spec: TankSpec | None = None"]


def test_a_kind_without_declared_fields_is_a_class_with_its_metadata() -> None:
    assert lines_of(generated([ForeignKind("v1", "Tank", {"type": "object"})]), "Tank") == ["pass"]


def test_fields_of_an_object_that_models_use_themselves_get_an_underscore() -> None:
    properties = {"conditions": {"type": "array"}, "labels": TEXT, "metadata": OBJECT, "kind": TEXT}
    assert lines_of(generated([ForeignKind("v1", "Tank", {"properties": properties})]), "Tank") == [
        "conditions_: list[Any] | None = None",
        "labels_: str | None = None",
    ]


SELECTED = """\
class ContainerPort(PartialModel):
    container_port: int
    host_ip: Annotated[str | None, Field(alias="hostIP")] = None
    protocol: Literal["SCTP", "TCP", "UDP"] | str = "TCP"


class Container(PartialModel):
    image: str | None = None
    name: str
    ports: list[ContainerPort] | None = None


class PodSpec(PartialModel):
    containers: list[Container]
    init_containers: list[Container] | None = None


class PodTemplateSpec(PartialModel):
    spec: PodSpec


class JobSpec(PartialModel):
    suspend: bool | None = None
    template: PodTemplateSpec


class Job(PartialResource):
    spec: JobSpec


JOB = kv.kind("batch/v1", "Job", model=Job)
"""


def test_only_selected_fields_and_the_keys_of_list_items_are_written() -> None:
    fields = ["spec.template.spec.containers.ports.hostIP,Job.spec.suspend", ".spec.template.spec.initContainers.image"]
    text = generated([built_in("batch/v1", "Job")], fields)
    assert text.partition("Field\n\n\n")[2] == SELECTED


def test_a_selected_beginning_of_other_paths_selects_everything_below_it() -> None:
    [job] = [built_in("batch/v1", "Job")]
    assert generated([job], ["status", "status.active"]) == generated([job], ["status.active", "status"])
    assert "succeeded: int" in generated([job], ["status.active,status"])


def test_a_path_applies_to_named_kinds_or_kinds_with_the_field() -> None:
    kinds = [built_in("apps/v1", "Deployment"), built_in("batch/v1", "Job"), built_in("apps/v1", "StatefulSet")]
    text = generated(kinds, ["spec.replicas", "Job.spec.suspend", "Deployment.spec.paused"])
    assert [lines_of(text, name) for name in ("DeploymentSpec", "JobSpec", "StatefulSetSpec")] == [
        ["paused: bool | None = None", "replicas: int | None = None"],
        ["suspend: bool | None = None"],
        ["replicas: int | None = None"],
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("spec.suspnd", "batch/v1 Job has no field spec.suspnd; spec: did you mean suspend?"),
        ("Spec.suspend", "batch/v1 Job has no field Spec.suspend; the kind: did you mean spec?"),
        ("status.active.x", "batch/v1 Job has no field status.active.x; status.active: no field below it is declared"),
        ("spec.template.spec.containers.img", "batch/v1 Job has no field spec.template.spec.containers.img; spec.template.spec.containers: did you mean "),
        ("spec..x", "--fields 'spec..x': write paths such as spec.template.spec.containers.image, with commas between"),
        ("Job", "--fields 'Job': write paths such as "),
    ],
)  # fmt: skip
def test_a_path_of_no_field_is_an_error_with_similar_names(fields: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        generated([built_in("batch/v1", "Job")], [fields])
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("api_version", "kind", "hint"),
    [
        ("batch/v1", "Jobs", "did you mean Job?"),
        ("apps/v1", "Job", "Job is in batch/v1"),
        ("apps/v2", "Job", "Job is in batch/v1"),
        ("apps/v2", "Thing", "did you mean apps/v1?"),
        ("x", "Thing", "it has admissionregistration.k8s.io/v1, "),
    ],
)
def test_an_unknown_kind_is_an_error_with_similar_names(api_version: str, kind: str, hint: str) -> None:
    with pytest.raises(UsageError, match="the catalog has no ") as caught:
        built_in(api_version, kind)
    assert str(caught.value).partition("; ")[2].startswith(hint)


def test_two_definitions_of_one_name_are_two_classes() -> None:
    kinds = [built_in("v1", "Event"), built_in("events.k8s.io/v1", "Event")]
    text = generated(kinds, ["note", "reason"])
    assert lines_of(text, "EventV1") == ["note: str | None = None", "reason: str | None = None"]
    assert 'EVENT_V1 = kv.kind("events.k8s.io/v1", "Event", model=EventV1)' in text


def test_recursive_schemas_are_classes_that_name_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition")]
    definition = loaded(generated(kinds), monkeypatch)["CUSTOM_RESOURCE_DEFINITION"]
    schema = {"$ref": "#/x", "properties": {"a": {"type": "object", "not": {"x-kubernetes-map-type": "atomic"}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    data = {"metadata": {"name": "a"}, "spec": {"group": "", "names": {"kind": "A", "plural": "as"}, "scope": "Cluster", "versions": [version]}}  # fmt: skip
    stored = definition.decode(data)
    inner = stored.spec.versions[0].schema_.open_apiv3_schema
    assert (inner.ref, inner.properties["a"].not_.x_kubernetes_map_type) == ("#/x", "atomic")
    assert stored.to_dict()["spec"] == data["spec"]


COMMAND = [
    "batch/v1",
    "Job",
    "--fields",
    "spec." + "x" * 60,
    "--fields",
    "status",
    "--from",
    "a  b" * 15,
    "-o",
    "a b.py",
]


def test_all_built_in_kinds_are_formatted_and_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = generated(KINDS, (), COMMAND)
    (tmp_path / "models.py").write_text(text)
    kinds = [value for value in loaded(text, monkeypatch).values() if isinstance(value, Kind)]
    assert len(kinds) == len(KINDS) > 60
    assert command_in("# A license.\n\n" + text) == COMMAND
    pytest.importorskip("ruff", reason="the environment of the wheel has no ruff")
    ruff = [str(Path(sys.executable).with_name("ruff")), "--isolated", "--quiet"]
    for words in (["format", "--diff"], ["check", "--select", "A,B,E4,E7,E9,F,N,PIE,RUF,UP"]):
        run = subprocess.run([ruff[0], *words, *ruff[1:], str(tmp_path)], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout) == (0, "")


def test_descriptions_become_docstrings_of_one_sentence() -> None:
    words = generated([ForeignKind("v1", "Tank", {"description": f"One of: Any, Field. {'More. ' * 9}"})])
    assert (words.count("Any"), words.count("Field"), '"""One of: Any, Field."""' in words) == (1, 1, True)
    long = 'Whether it\'s "open", e.g. Wide. More info: https://example.com\n\nSecond.'
    spec = {
        **OBJECT,
        "description": "The \\d spec: a list\n of words. Second.",
        "properties": {"size": {**TEXT, "description": long}},
    }
    text = generated([ForeignKind("v1", "Tank", {"description": "A " + "long " * 60, "properties": {"spec": spec}})])
    assert '"""The \\\\d spec: a list of words."""' in text
    assert '"""Whether it\'s "open", e.g. Wide."""' in text
    assert all(len(line) <= 88 for line in text.splitlines())
    assert 'long ....\n    """' in text


OLD = generated([kind_with(size=TEXT, gone=TEXT)])


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (kind_with(size=TEXT, gone=TEXT), []),
        (kind_with(size={**TEXT, "description": "Words."}, gone=TEXT), []),
        (kind_with(size={"type": "integer"}, gone=TEXT), ["TankSpec.size: str | None = None is now int | None = None"]),
        (kind_with(size=TEXT), ["TankSpec.gone: str | None = None is no longer in the API"]),
        (kind_with(size=TEXT, gone=TEXT, new=TEXT), ["TankSpec.new: str | None = None is new"]),
    ],
)
def test_drift_is_a_line_for_each_field_and_no_matter_of_layout(kind: ForeignKind, lines: list[str]) -> None:
    for before in (
        OLD,
        OLD.replace("size: str | None = None", "size: (\n        str  # ours\n        | None\n    ) = None"),
    ):
        assert differences(before, generated([kind])) == lines


DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: example.com
  scope: Cluster
  names: {kind: Tank, plural: tanks}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}
  - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
---
kind: List
items:
- kind: CustomResourceDefinition
  spec: {group: b.com, scope: Namespaced, names: {kind: B, plural: bs}, versions: [{name: v1, storage: true, schema: {openAPIV3Schema: {}}}]}
"""


def test_definitions_in_yaml_have_their_scope_and_plural() -> None:
    kinds = [kind for document in parsed(DEFINITION, "a.yaml") for kind in kinds_in(document, "a.yaml")]
    assert [(each.api_version, each.kind, each.namespaced, each.plural) for each in kinds] == [
        ("example.com/v1", "Tank", False, "tanks"),
        ("b.com/v1", "B", True, "bs"),
    ]
    assert 'TANK = kv.kind("example.com/v1", "Tank", model=Tank, namespaced=False, plural="tanks")' in " ".join(
        generated(kinds[:1]).split()
    ).replace("( ", "(").replace(", )", ")")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: Pod", "a.yaml holds Pod; give an OpenAPI document"),
        ("[]", "a.yaml holds list; give"),
        ("a: [", "a.yaml is neither JSON nor YAML: "),
    ],
)
def test_another_document_is_an_error_that_names_what_to_give(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        [list(kinds_in(document, "a.yaml")) for document in parsed(text, "a.yaml")]
    assert str(caught.value).startswith(problem)


def test_a_null_in_a_required_list_or_map_reads_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, values = {"type": "array", "items": {"type": "array"}}, {"type": "object"}
    tanks = loaded(generated([kind_with(**{"parts!": parts, "values!": values, "doors": parts})]), monkeypatch)["TANK"]
    stored = tanks.decode({"spec": {"parts": [[1], None], "values": None, "doors": None}})
    assert (stored.spec.parts, stored.spec.values, stored.spec.doors) == ([[1], []], {}, None)
    assert stored.to_dict()["spec"] == {"parts": [[1], []], "values": {}, "doors": None}
    with pytest.raises(InvalidObject, match=r"\.spec\.values: write an object"):
        tanks.decode({"spec": {"parts": None, "values": 7}})
