"""Fields that a cache leaves out: paths, bodies, reads, intents and models."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import Field

import konverge as kv
from konverge.crds.partial import PartialModel, PartialResource
from konverge.dropped import DroppedFields, PartialObject
from konverge.errors import FieldDropped, UsageError
from konverge.objects import Metadata

NOTES = "metadata.annotations['example.com/notes']"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "annotations": {"example.com/notes": "long", "keep": "me"}},
    "spec": {"containers": [{"name": "a", "env": [{"name": "X"}]}, {"name": "b"}], "nodeName": "n"},
    "status": {"images": ["x"], "phase": "Running"},
}


def dropping(*paths: str) -> DroppedFields:
    dropped = DroppedFields.of(paths, "the cache of Pod")
    assert dropped is not None
    return dropped


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        (["status.images"], {**POD, "status": {"phase": "Running"}}),
        ([".status"], {key: value for key, value in POD.items() if key != "status"}),
        (["status.images", "status"], {key: value for key, value in POD.items() if key != "status"}),
        (
            ["spec.containers[*].env"],
            {**POD, "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n"}},
        ),
        ([NOTES], {**POD, "metadata": {"name": "a", "annotations": {"keep": "me"}}}),
        (["spec.absent.deeper", "status.phase.deeper", "status[*].x", "spec.nodeName[*].y"], POD),
    ],
    ids=["field", "member", "a field of a dropped member", "items of a list", "annotation", "no such field"],
)
def test_only_the_named_fields_are_dropped(paths: list[str], left: dict[str, Any]) -> None:
    dropped = dropping(*paths)
    assert msgspec.json.decode(dropped.strip(msgspec.json.encode(POD))) == left
    assert dropped.strip_data(POD) == left
    metadata = msgspec.convert(POD["metadata"], Metadata)
    assert dropped.strip_metadata(metadata).annotations == left["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("metadata.managedFields", "no cache holds managedFields; leave the path out"),
        ("metadata", "only single annotations can be dropped"),
        ("metadata.labels", "only single annotations can be dropped"),
        ("metadata.annotations", "only single annotations can be dropped"),
        ("metadata.annotations['konverge.dev/owner']", "the runtime reads it"),
        ("kind", "the runtime reads it"),
        ("", "write a path as status.images"),
        ("spec.containers[*]", "write a path as status.images"),
        ("spec..x", "write a path as status.images"),
        ("spec.containers[0].env", "write a path as status.images"),
    ],
)
def test_a_path_that_cannot_be_dropped_is_refused_with_the_remedy(path: str, remedy: str) -> None:
    with pytest.raises(UsageError) as refused:
        dropping(path)
    assert str(refused.value).startswith(f"the cache of Pod: drop of {path!r}: ")
    assert remedy in str(refused.value)


def test_one_text_in_place_of_paths_is_refused() -> None:
    with pytest.raises(UsageError, match=r'give a list of paths, drop=\("status.images",\)'):
        DroppedFields.of("status.images", "the cache of Pod")


def test_equal_paths_are_equal_and_no_path_drops_nothing() -> None:
    assert dropping("status.images", "spec.x") == dropping("spec.x", "status.images")
    assert hash(dropping("spec.x")) == hash(dropping("spec.x"))
    assert dropping("spec.x") != dropping("spec.y")
    assert DroppedFields.of((), "the cache of Pod") is None


@pytest.mark.parametrize(
    ("path", "dropped"),
    [
        (("status", "images"), True),
        (("status", "images", 0, "names"), True),
        (("spec", "containers", 1, "env"), True),
        (("status",), False),
        (("status", "phase"), False),
        (("spec", "containers", 1, "name"), False),
    ],
)
def test_a_read_of_a_dropped_field_raises_and_other_reads_do_not(path: tuple[str | int, ...], dropped: bool) -> None:
    view = dropping("status.images", "spec.containers[*].env").decode(kv.kind("v1", "Pod"), {"metadata": {"name": "a"}})
    assert isinstance(view, PartialObject)
    if dropped:
        with pytest.raises(FieldDropped, match=r"its cache drops spec.containers\[\*\].env, status.images: .*ctx.live"):
            view.get(*path)
    else:
        assert view.get(*path, default="absent") == "absent"


def test_a_copy_without_fields_cannot_be_written_back() -> None:
    view = dropping("spec.x").decode(kv.kind("v1", "Pod"), {"metadata": {"name": "a"}})
    with pytest.raises(FieldDropped, match="a write of this copy would remove these fields: read it live"):
        view.to_dict()


@pytest.mark.parametrize(
    ("intent", "named"),
    [
        ({"status": {"images": []}}, "status.images"),
        ({"spec": {"containers": [{"name": "a"}, {"env": []}]}}, "spec.containers[*].env"),
        ({"metadata": {"annotations": {"example.com/notes": "x"}}}, "metadata.annotations.example.com/notes"),
        ({"status": {"phase": "x"}, "spec": {"containers": [{"name": "a"}]}, "metadata": {"annotations": {}}}, ""),
        ({"spec": None, "status": [1]}, ""),
    ],
)
def test_an_intent_that_sets_a_dropped_field_is_found(intent: dict[str, Any], named: str) -> None:
    assert dropping("status.images", "spec.containers[*].env", NOTES).named_in(intent) == named


class Container(PartialModel):
    name: str = ""
    env: list[dict[str, str]] = Field(default_factory=list)


class PodSpec(PartialModel):
    containers: list[Container] | None = None
    free: dict[str, Container] = Field(default_factory=dict)
    node_name: str = ""


class Pod(PartialResource):
    spec: PodSpec = Field(default_factory=PodSpec)


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("spec", True),
        ("spec.nodeName", True),
        ("spec.containers[*].env", True),
        ("spec.containers[*].env[*].name", True),
        ("spec.free.any", True),
        ("spec.containers[*].image", False),
        ("spec.volumes", False),
        ("status.images", False),
        (NOTES, False),
    ],
)
def test_a_model_that_has_a_dropped_field_is_refused(path: str, refused: bool) -> None:
    kind, data = kv.kind("v1", "Pod", model=Pod), {"metadata": {"name": "a"}}
    if refused:
        with pytest.raises(UsageError, match="Pod has this field, which would read as absent"):
            dropping(path).check_model(kind)
    else:
        dropping(path).check_model(kind)
        assert dropping(path).decode(kind, data).name == "a"
