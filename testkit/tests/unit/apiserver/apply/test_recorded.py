"""Replays the recorded responses of a real kube-apiserver to sequences of writes (`tools/record/apply.py`)."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from konverge_testing.apiserver.apply import (
    apply,
    apply_unchanged,
    manager_name,
    require_manager,
    track_update,
    validate_manager,
)
from konverge_testing.apiserver.apply.scaling import from_scale, to_scale
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import StatusError, invalid

Data = dict[str, Any]

FOLDER = Path(__file__).parent
SCHEMAS = json.loads((FOLDER / "schemas.json").read_text())
RESET = {
    ("Widget", ""): (("status",),),
    ("Widget", "status"): (("metadata",), ("spec",)),
    ("Deployment", ""): (("status",),),
    ("Service", ""): (("status",),),
    ("Service", "status"): (("spec",),),
    ("Deployment", "status"): (("spec",), ("metadata", "labels")),
}


def recorded() -> Iterator[tuple[str, str, Data]]:
    for each in json.loads((FOLDER / "recorded.json").read_text()):
        last = None
        for index, step in enumerate(each["steps"]):
            before = step["before"] = last if step["before"] == "same" else step["before"]
            last = step["after"] if step["do"] == "scale" else step["answer"] if step["code"] < 400 else before
            yield each["kind"], f"{each['name'].replace(' ', '-')}-{index}", step


RECORDED = list(recorded())


def steps(*does: str, refused: bool = True) -> pytest.MarkDecorator:
    """The recorded steps of these kinds; without rejected steps if owners are not compared."""
    found = [
        pytest.param(kind, step, id=name)
        for kind, name, step in RECORDED
        if step["do"] in does and (refused or step["code"] < 400)
    ]
    return pytest.mark.parametrize(("kind", "step"), found)


def node_of(kind: str) -> Node:
    found = SCHEMAS[kind]
    if "schema" in found:
        return Node(found["schema"])
    return Node({"$ref": f"#/components/schemas/{found['root']}"}, found["definitions"])


NODES = {kind: node_of(kind) for kind in SCHEMAS}


def owners(object_: Data | None) -> list[Data]:
    found: list[Data] = ((object_ or {}).get("metadata") or {}).get("managedFields") or []
    return found


def body_of(error: StatusError) -> Data:
    return copy.deepcopy(error.body())


def applied(kind: str, step: Data) -> Data:
    wrong = require_manager(step["by"])
    if wrong:
        raise invalid("meta.k8s.io", "PatchOptions", "", wrong)
    reset = RESET.get((kind, step["sub"]), ())
    return apply(
        NODES[kind], step["before"], step["patch"],
        manager=step["by"], force=step["force"], api_version=step["version"], subresource=step["sub"], now=step["now"], reset=reset, kind=kind,
    )  # fmt: skip


@steps("apply")
def test_an_apply_answers_as_the_real_server(kind: str, step: Data) -> None:
    before = copy.deepcopy((step["before"], step["patch"]))
    if step["code"] == 422 and step["answer"]["details"]["kind"] == kind:
        found = applied(kind, step)  # validation follows, and rejects it: it has to find the same nulls
        for cause in step["answer"]["details"]["causes"]:
            if "must be of type" in cause["message"] and cause["message"].endswith('"null"'):
                assert at(found, cause["field"]) is None
        return
    if step["code"] >= 400:
        with pytest.raises(StatusError) as refused:
            applied(kind, step)
        mine, theirs = body_of(refused.value), step["answer"]
        for found in (mine, theirs):
            causes = (found.get("details") or {}).get("causes")
            if causes:
                causes.sort(key=lambda cause: (cause["message"], cause["field"]))
        assert mine == theirs
        return
    found = applied(kind, step)
    assert (step["before"], step["patch"]) == before, "the arguments were changed"
    assert owners(found) == owners(step["answer"])
    if kind not in ("Widget", "Loose"):
        assert json.dumps([entry["fieldsV1"] for entry in owners(found)]) == json.dumps(
            [entry["fieldsV1"] for entry in owners(step["answer"])]
        )
    elif not step["pruned"]:
        assert without_server(found, step) == without_server(step["answer"], step)
        if step["before"] is not None and not step["patch"].get("status" if not step["sub"] else "spec"):
            assert apply_unchanged(step["before"], found) is not step["written"]


def at(object_: Data, path: str) -> Any:
    here: Any = object_
    for name in path.replace("[", ".").replace("]", "").split("."):
        here = here[int(name)] if isinstance(here, list) else here[name]
    return here


def without_server(object_: Data, step: Data) -> Data:
    """Leave out what the registry does after an apply: defaults, resets, generation."""
    out = copy.deepcopy(object_)
    metadata = out["metadata"]
    for name in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        metadata.pop(name, None)
    out["metadata"] = metadata = {name: value for name, value in metadata.items() if value}
    for port in (out.get("spec") or {}).get("ports") or ():
        port.setdefault("protocol", "TCP")
    out.pop("spec" if step["sub"] else "status", None)
    if step["sub"]:
        metadata.pop("labels", None)
    return out


@steps("create", "put", "merge", refused=False)
def test_a_write_is_tracked_as_by_the_real_server(kind: str, step: Data) -> None:
    new = copy.deepcopy(step["answer"])
    metadata = new["metadata"]
    metadata.pop("managedFields", None)
    if kind == "Service" and step["do"] == "create":
        for allocated in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            del new["spec"][allocated]  # the registry fills them in after the owners are computed
    sent = owners(step["before"]) if step["sent"] == "live" else None if step["sent"] == "none" else step["sent"]
    if sent is not None:
        metadata["managedFields"] = sent
    manager = manager_name(step["by"], step["agent"])
    assert not validate_manager(manager)
    before = copy.deepcopy((step["before"], new))
    reset = RESET.get((kind, step["sub"]), ())
    found = track_update(
        NODES[kind], step["before"], new,
        manager=manager, api_version=step["version"], subresource=step["sub"], now=step["now"], reset=reset,
    )  # fmt: skip
    assert (step["before"], new) == before, "the arguments were changed"
    assert (found or []) == owners(step["answer"])


PLACES = {"apps/v1": ("spec", "replicas")}


@steps("scale")
def test_a_write_of_the_scale_comes_back_to_the_parent(kind: str, step: Data) -> None:
    live = copy.deepcopy(step["scale"])
    before = owners(step["before"])
    live["metadata"]["managedFields"] = to_scale(before, PLACES) or []
    who = {"manager": step["by"], "api_version": "autoscaling/v1", "subresource": "scale", "now": step["now"]}
    if step["code"] >= 400:
        with pytest.raises(StatusError) as refused:
            apply(NODES["Scale"], live, step["body"], force=step["force"], **who)
        assert body_of(refused.value) == step["answer"]
        return
    if step["how"] == "apply":
        scale = owners(apply(NODES["Scale"], live, step["body"], force=step["force"], **who))
    else:
        new = {**live, "spec": step["answer"]["spec"]}
        scale = track_update(NODES["Scale"], live, new, **who) or []
    assert (from_scale(before, scale, step["version"], PLACES) or []) == owners(step["after"])
