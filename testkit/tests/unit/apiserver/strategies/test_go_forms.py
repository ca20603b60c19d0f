"""How Go decodes and encodes: zero values, times, base64, cron schedules, and the allocation of service ports."""

import copy
import random
from typing import Any

import pytest

from konverge_testing.apiserver.base64s import canonical_base64, decoded_size, wrong_base64
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.strategies import STRATEGIES, decode_errors, normalise
from konverge_testing.apiserver.strategies.cron import wrong_schedule
from konverge_testing.apiserver.strategies.service_numbers import allocate
from konverge_testing.apiserver.strategies.times import BadTime, canonical_time

STRING = {"type": "string"}
COUNT = {"type": "integer", "format": "int32"}
DEFINITIONS: dict[str, Any] = {
    "io.k8s.api.apps.v1.DeploymentSpec": {
        "type": "object",
        "required": ["template"],
        "properties": {
            "replicas": COUNT,
            "minReadySeconds": COUNT,
            "paused": {"type": "boolean"},
            "note": {**STRING, "default": ""},
            "words": {"type": "array", "items": {**STRING, "default": ""}},
            "labels": {"type": "object", "additionalProperties": {**STRING, "default": ""}},
            "template": {"type": "array", "items": STRING},
            "inner": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}], "default": {}},
            "size": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "when": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"},
        },
    },
    "io.k8s.api.apps.v1.DeploymentStrategy": {"type": "object", "properties": {"type": STRING}},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [STRING, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
}
SPEC = {"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}
NODE = Node({"type": "object", "properties": {"spec": {"allOf": [SPEC], "default": {}}}}, DEFINITIONS)
EMPTY: dict[str, Any] = {"note": "", "template": None, "inner": {}}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({}, {}),
        ({"replicas": 0, "minReadySeconds": 0, "paused": False}, {"replicas": 0}),
        ({"replicas": None, "note": None, "words": None, "inner": None}, {}),
        ({"words": [], "labels": {}, "template": []}, {}),
        ({"words": [None, "a"], "labels": {"a": None}}, {"words": ["", "a"], "labels": {"a": ""}}),
        ({"inner": {"type": ""}, "unknown": 1}, {}),
        ({"size": "1024Mi"}, {"size": "1Gi"}),
        ({"size": 0.5}, {"size": "500m"}),
        ({"when": "2026-01-01T02:00:00.5+02:00"}, {"when": "2026-01-01T00:00:00Z"}),
    ],
)
def test_zero_values_are_dropped_where_go_drops_them(sent: dict[str, Any], kept: dict[str, Any]) -> None:
    data = {"spec": copy.deepcopy(sent)}
    normalise(NODE, data)
    assert data == {"spec": {**EMPTY, **kept}}


def test_a_normal_object_stays_the_same() -> None:
    data: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment"}
    normalise(NODE, data)
    once = copy.deepcopy(data)
    normalise(NODE, data)
    assert data == once == {"apiVersion": "apps/v1", "kind": "Deployment", "spec": EMPTY}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"replicas": "1"},
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            {"replicas": 2**31},
            "json: cannot unmarshal number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            {"words": {}},
            "json: cannot unmarshal object into Go struct field DeploymentSpec.spec.words of type []string",
        ),
        ({"words": [1]}, "json: cannot unmarshal number into Go struct field DeploymentSpec.spec.words of type string"),
        (
            {"labels": "x"},
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.labels of type map[string]string",
        ),
        (
            {"inner": []},
            "json: cannot unmarshal array into Go struct field DeploymentSpec.spec.inner of type v1.DeploymentStrategy",
        ),
        (
            {"inner": {"type": 1}},
            "json: cannot unmarshal number into Go struct field DeploymentStrategy.spec.inner.type of type v1.DeploymentStrategyType",
        ),
        ({"when": 1}, "json: cannot unmarshal number into Go struct field DeploymentSpec.spec.when of type string"),
        ({"size": "1x"}, "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        (
            {"replicas": True, "words": 1},
            "json: cannot unmarshal bool into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
    ],
)
def test_the_first_wrong_type_is_reported_in_go_s_words(spec: dict[str, Any], words: str) -> None:
    version = Version("v1", NODE)
    resource = Resource(group="apps", plural="deployments", kind="Deployment", versions=(version,))
    found = decode_errors(resource.kind, version.name, NODE, {"spec": spec})
    assert found is not None
    assert (found.code, found.message) == (
        400,
        f'Deployment in version "v1" cannot be handled as a Deployment: {words}',
    )


def test_a_body_that_fits_its_types_passes() -> None:
    version = Version("v1", NODE)
    resource = Resource(group="apps", plural="deployments", kind="Deployment", versions=(version,))
    body = {"spec": {"replicas": 1, "words": [None], "labels": {"a": None}, "inner": None, "unknown": 5}}
    assert decode_errors(resource.kind, version.name, NODE, body) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-02-30T00:00:00Z", 'parsing time "2026-02-30T00:00:00Z": day out of range'),
        ("2026-01-01T00:00:00Zx", 'parsing time "2026-01-01T00:00:00Zx": extra text: "x"'),
        (
            "2026-01-01 00:00:00Z",
            'parsing time "2026-01-01 00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T"',
        ),
        (
            "2026-01-01T00:00:00",
            'parsing time "2026-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"',
        ),
    ],
)
def test_an_invalid_time_is_reported_in_go_s_words(text: str, words: str) -> None:
    with pytest.raises(BadTime) as caught:
        canonical_time(text)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("text", "byte"), [("YQ", 0), ("YWI=", None), ("Y===", 1), ("YWJj\nZ", 5), ("YQ=a", 2), ("YQ==YQ==", 4), ("", None)]
)
def test_the_first_wrong_byte_of_base64_is_named(text: str, byte: int | None) -> None:
    assert wrong_base64(text) == (None if byte is None else f"illegal base64 data at input byte {byte}")


def test_base64_is_written_without_its_newlines() -> None:
    assert canonical_base64("Y\r\nWI=") == "YWI="
    assert [decoded_size(text) for text in ("", "YQ==", "YWI=", "YWJj")] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("schedule", "wrong"),
    [
        ("*/15 1-5,7 * jan-mar ?", None),
        ("@every 1h30m", None),
        ("TZ=UTC 0 0 * * *", None),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    ],
)
def test_a_schedule_is_checked_as_cron_checks_it(schedule: str, wrong: str | None) -> None:
    assert wrong_schedule(schedule) == wrong


_DRAWS = Draws(random.Random(1)).of("Service", {})


def _spec(**fields: Any) -> dict[str, Any]:
    return {"type": "ClusterIP", "selector": {"a": "b"}, "ports": [{"port": 80, "protocol": "TCP"}], **fields}


def test_a_service_gets_a_free_address() -> None:
    taken = [_spec(clusterIPs=[f"10.0.0.{number}"]) for number in range(1, 254)]
    spec = _spec()
    assert allocate(spec, None, taken, _DRAWS) == []
    assert (spec["clusterIP"], spec["ipFamilies"], spec["ipFamilyPolicy"]) == ("10.0.0.254", ["IPv4"], "SingleStack")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"clusterIP": "10.0.0.7"}, "failed to allocate IP 10.0.0.7: provided IP is already allocated"),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]}, "provided port is already allocated"),
        (
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]},
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
    ],
)
def test_a_number_that_is_taken_is_refused(fields: dict[str, Any], words: str) -> None:
    other = _spec(clusterIPs=["10.0.0.7"], ports=[{"port": 1, "nodePort": 30001}])
    errors = allocate(_spec(**fields), None, [other], _DRAWS)
    assert [error.detail for error in errors] == [words]


def test_an_update_keeps_the_numbers_of_a_service() -> None:
    old = _spec(type="NodePort")
    allocate(old, None, [], _DRAWS)
    new = {"metadata": {"name": "s"}, "spec": _spec(type="NodePort", ports=[{"port": 81, "protocol": "TCP"}])}
    STRATEGIES["", "services"].prepare_update(new, {"metadata": {"name": "s"}, "spec": copy.deepcopy(old)})
    assert new["spec"]["clusterIP"] == old["clusterIP"]
    assert new["spec"]["ports"] == [{"port": 81, "protocol": "TCP", "nodePort": old["ports"][0]["nodePort"]}]


def test_every_strategy_handles_an_empty_object() -> None:
    for (group, plural), strategy in STRATEGIES.items():
        if plural == "customresourcedefinitions":
            continue
        new: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": plural,
            "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        }
        strategy.default(new)
        strategy.prepare_create(new)
        old = copy.deepcopy(new)
        strategy.validate(new, None)
        strategy.prepare_update(new, old)
        strategy.prepare_status(new, old)
        assert strategy.validate(new, old, "status") is not None, (group, plural)
        assert all(isinstance(value, str) for value in strategy.field_labels(new).values())
        assert new == old, (group, plural)
