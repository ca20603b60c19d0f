"""Replays the recorded discovery of a real kube-apiserver. See `tools/record/discovery.py`."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from definitions import resource_of
from record.discovery import AGGREGATED, operations, plain

from konverge_testing.apiserver.catalog import builtin
from konverge_testing.apiserver.discovery import Discovery

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
DEFINITIONS = list(yaml.safe_load_all(Path(__file__).with_name("definitions.yaml").read_text()))
ABSENT = {"flowcontrol.apiserver.k8s.io", "resource.k8s.io"}


@pytest.fixture(scope="module")
def discovery() -> Discovery:
    resources = [*builtin({}), *map(resource_of, DEFINITIONS)]
    return Discovery(lambda: resources)


def ask(discovery: Discovery, path: str, accept: str = "application/json") -> Any:
    answer = discovery.answer(path, accept)
    assert answer is not None
    return json.loads(answer.body)


@pytest.mark.parametrize("path", RECORDED["aggregated"])
def test_aggregated_list_equals_the_recording_including_field_order(discovery: Discovery, path: str) -> None:
    real = RECORDED["aggregated"][path]
    real = real | {"items": [item for item in real["items"] if item["metadata"].get("name") not in ABSENT]}
    for item in real["items"]:
        if item["metadata"].get("name") == "probe.example.com":
            for version in item["versions"]:
                version["resources"].sort(key=lambda each: each["resource"])
    assert json.dumps(ask(discovery, path, AGGREGATED)) == json.dumps(real)


@pytest.mark.parametrize("path", RECORDED["lists"])
def test_plain_list_equals_the_recording_including_field_order(discovery: Discovery, path: str) -> None:
    real = RECORDED["lists"][path]
    if path == "/apis/probe.example.com/v1":  # a real server lists custom resources in any order, ours by name
        real = real | {"resources": sorted(real["resources"], key=lambda each: each["name"].partition("/")[0])}
    assert json.dumps(ask(discovery, path)) == json.dumps(real)


@pytest.mark.parametrize("path", RECORDED["operations"])
def test_a_document_has_the_operations_of_the_real_one(discovery: Discovery, path: str) -> None:
    assert operations(ask(discovery, f"/openapi/v3/{path}")) == RECORDED["operations"][path]


def test_custom_schemas_are_published_as_the_real_server_does(discovery: Discovery) -> None:
    found = {}
    for version in ("v1", "v1beta1"):
        schemas = ask(discovery, f"/openapi/v3/apis/probe.example.com/{version}")["components"]["schemas"]
        found.update({name: plain(schema) for name, schema in schemas.items() if name.startswith("com.example")})
    assert found == RECORDED["schemas"]
