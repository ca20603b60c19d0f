"""Replays the recorded responses of a real server to cases.yaml (tools/record/schemas.py) against these schemas."""

import json
from pathlib import Path
from typing import Any

import pytest
from record.schemas import GROUP, instance, value_fields
from yaml_files import load_yaml

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import FieldError, StatusError

ROOM = Path(__file__).parent
CASES = load_yaml(ROOM / "cases.yaml")
RECORDED: dict[str, list[dict[str, Any]]] = json.loads((ROOM / "recorded.json").read_text())
SPEC = {"type": "object", "properties": value_fields(CASES)}
VALUES = Node({"type": "object", "properties": {"spec": SPEC}})
TIGHT = Node(CASES["ratchet"]["tight"])


def named(cases: list[dict[str, Any]], *keys: str) -> list[Any]:
    texts = [" ".join(str(case.get(key, "")) for key in keys)[:60] for case in cases]
    return [pytest.param(case, id=f"{at}-{text}") for at, (case, text) in enumerate(zip(cases, texts, strict=True))]


def found(errors: list[FieldError]) -> dict[str, Any]:
    if not errors:
        return {"code": 201}
    return {"code": 422, "causes": sorted(([error.field, error.message] for error in errors), key=str)}


def created(body: bytes, kind: str = "application/json", mode: str = "Warn") -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a body through the steps of a creation; return the response and the object."""
    try:
        decoded = schemas.decode(body, kind, strict=True, kind="V", custom=True)
        unknown = [*decoded.duplicates, *schemas.prune(VALUES, decoded.data)]
        if unknown and mode == "Strict":
            words = f'V in version "v1" cannot be handled as a V: {schemas.strict_words(unknown)}'
            return {"code": 400, "message": words}, {}
        data = decoded.data
        data.setdefault("metadata", {})
        schemas.default(VALUES, data)
    except StatusError as error:
        return {"code": error.code, "message": error.message}, {}
    data["metadata"].setdefault("namespace", "default")
    if not data["metadata"].get("name") and data["metadata"].get("generateName"):
        data["metadata"]["name"] = data["metadata"]["generateName"] + "x2x2x"
    errors = schemas.validate_metadata(data, namespaced=True)
    errors += schemas.validate(VALUES, data, prior=errors)
    warned = sorted(unknown if errors else [*unknown, *schemas.finalizer_warnings(data)])
    return {**found(errors), **({"warnings": warned} if warned else {})}, data


def expected(case: dict[str, Any], *also: str) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key in ("code", "causes", "message", "warnings", *also)}


@pytest.mark.parametrize("case", named(RECORDED["values"], "field", "given"))
def test_a_value_is_answered_as_by_a_real_server(case: dict[str, Any]) -> None:
    body = json.dumps(instance("V", spec={case["field"]: case["given"]})).encode()
    got, data = created(body)
    if got["code"] == 201:
        got["value"] = data.get("spec", {})
        if case["field"] != "defaults":
            got["value"].pop("defaults", None)
    assert got == expected(case, "value")


@pytest.mark.parametrize("case", named(RECORDED["metadata"], "given"))
def test_metadata_is_answered_as_by_a_real_server(case: dict[str, Any]) -> None:
    got, data = created(json.dumps({**instance("V"), "metadata": case["given"]}).encode())
    if got["code"] == 201:
        hidden = ("creationTimestamp", "generation", "managedFields", "namespace")
        got["metadata"] = {key: value for key, value in data["metadata"].items() if key not in hidden}
    assert got == expected(case, "metadata")


@pytest.mark.parametrize("case", named(RECORDED["bodies"], "mode", "given"))
def test_a_body_is_answered_as_by_a_real_server(case: dict[str, Any]) -> None:
    got, data = created(case["given"].encode(), case.get("type", "application/json"), case.get("mode", "Warn"))
    if "object" in case:
        assert data.get("spec") == case["object"].get("spec")
    assert got == expected(case)


@pytest.mark.parametrize("case", named(RECORDED["updates"], "spec", "status"))
def test_an_update_is_ratcheted_as_by_a_real_server(case: dict[str, Any]) -> None:
    old = instance("R", **CASES["ratchet"]["old"])
    old["metadata"]["resourceVersion"] = "1"
    new = json.loads(json.dumps(old))
    if "spec" in case:
        new["spec"] |= case["spec"]
    else:
        new["status"] = case["status"]
    unknown = schemas.prune(TIGHT, new)
    schemas.default(TIGHT, new)
    errors = schemas.validate_metadata_update(new, old)
    errors += schemas.validate(TIGHT, new, old, subresource="" if "spec" in case else "status", prior=errors)
    got = found(errors)
    got["code"] = 200 if got["code"] == 201 else got["code"]
    assert {**got, **({"warnings": unknown} if unknown else {})} == expected(case)


def test_the_recordings_are_of_the_group_asked_for() -> None:
    assert GROUP in RECORDED["bodies"][-1]["given"]
