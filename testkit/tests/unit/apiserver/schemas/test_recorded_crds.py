"""Replays the recorded responses of a real server to cases_crds.yaml (tools/record/schemas.py) against `validate_crd`."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from record.schemas import merged
from yaml_files import load_yaml

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.statuses import FieldError

ROOM = Path(__file__).parent
CASES = load_yaml(ROOM / "cases_crds.yaml")
RECORDED: list[dict[str, Any]] = json.loads((ROOM / "recorded.json").read_text())["crds"]
CHANGES = {(kind, case["name"]): case["change"] for kind in ("definitions", "updates") for case in CASES[kind]}


def causes(errors: list[FieldError]) -> list[list[str]]:
    return sorted(([error.field, error.message] for error in errors), key=str)


def stored(crd: dict[str, Any]) -> dict[str, Any]:
    names = [version["name"] for version in crd["spec"]["versions"] if version.get("storage")]
    crd["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "storedVersions": names[:1]}
    return crd


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in RECORDED if not case.get("update")])
def test_a_definition_is_answered_as_by_a_real_server(case: dict[str, Any]) -> None:
    crd = merged(deepcopy(CASES["base"]), CHANGES["definitions", case["name"]])
    schemas.crd_default(crd)
    errors = schemas.validate_metadata(crd, namespaced=False)
    errors += schemas.validate_crd(stored(crd), None)
    assert causes(errors) == case.get("causes", [])
    if not errors:
        assert sorted(schemas.crd_warnings(crd)) == case.get("warnings", [])
        assert crd["spec"] == case["spec"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in RECORDED if case.get("update")])
def test_an_update_of_a_definition_is_answered_as_by_a_real_server(case: dict[str, Any]) -> None:
    old = stored(deepcopy(CASES["base"]))
    schemas.crd_default(old)
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    new = merged(deepcopy(old), CHANGES["updates", case["name"]])
    storage = next((version["name"] for version in new["spec"]["versions"] if version["storage"]), "")
    if storage not in new["status"]["storedVersions"]:
        new["status"]["storedVersions"].append(storage)
    assert causes(schemas.validate_crd(new, old)) == case.get("causes", [])
