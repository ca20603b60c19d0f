"""Bodies as Go's typed clients encode them; testkit/tests/e2e/apiserver has the real bodies of kubectl."""

import json
import struct
from typing import Any

import pytest

from konverge_testing.apiserver.protobuf import as_json, decode
from konverge_testing.apiserver.statuses import StatusError


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: str | bytes | float) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: tuple[int, str | bytes | float]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    about = message((1, api_version), (2, kind))
    return b"k8s\x00" + message((1, about), (2, raw), (3, ""), (4, ""))


def metadata(name: str) -> bytes:
    # As Go writes it: fields that are not pointers are written even if they are empty.
    return message((1, name), (2, ""), (3, ""), (4, ""), (5, ""), (6, ""), (7, 0), (8, b""))


def test_a_config_map_in_protobuf_decodes_to_its_json() -> None:
    entry = message((1, "color"), (2, "red"))
    raw = message((1, metadata("shop")), (2, entry), (2, message((1, "empty"), (2, ""))), (4, 0))
    assert json.loads(as_json(body("v1", "ConfigMap", raw))) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shop"},
        "data": {"color": "red", "empty": ""},
        "immutable": False,
    }


def test_bytes_times_quantities_and_alternatives_have_their_json_forms() -> None:
    secret = decode(body("v1", "Secret", message((2, message((1, "k"), (2, b"\x00\xff"))), (3, "Opaque"))))
    assert (secret["data"], secret["type"]) == ({"k": "AP8="}, "Opaque")
    spec = message((1, "me"), (2, 15), (3, message((1, 1_767_225_600), (2, 123_456_000))))
    lease = decode(body("coordination.k8s.io/v1", "Lease", message((2, spec))))
    assert lease["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.123456Z",
    }
    port = message((1, ""), (2, "TCP"), (3, 80), (4, message((1, 1), (2, 0), (3, "http"))), (5, 0))
    service = decode(body("v1", "Service", message((2, message((1, port), (3, "None"))))))
    assert service["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": "http"}],
        "clusterIP": "None",
    }
    quota = message((1, message((1, "pods"), (2, message((1, "5"))))))
    assert decode(body("v1", "ResourceQuota", message((2, quota))))["spec"] == {"hard": {"pods": "5"}}


def test_inlined_messages_are_merged_into_their_parent() -> None:
    reference = message((1, message((1, "key"))), (2, "a"), (3, 1))
    env = message((1, "URL"), (2, ""), (3, message((4, reference))))
    volume = message((1, "tmp"), (2, message((2, message((1, ""))))))
    container = message((1, "c"), (2, "example.com/a:1"), (7, env))
    found = decode(body("v1", "Pod", message((1, metadata("p")), (2, message((1, volume), (2, container), (4, 0))))))
    assert found["spec"] == {
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        "containers": [
            {
                "name": "c",
                "image": "example.com/a:1",
                "env": [{"name": "URL", "valueFrom": {"secretKeyRef": {"name": "key", "key": "a", "optional": True}}}],
            }
        ],
        "terminationGracePeriodSeconds": 0,
    }


def test_zero_counts_in_a_pointer_and_not_elsewhere() -> None:
    spec = message((1, 0), (5, 0), (7, 0))  # replicas is a pointer; minReadySeconds and paused are none
    assert decode(body("apps/v1", "Deployment", message((2, spec))))["spec"] == {"replicas": 0}
    options = decode(body("apps/v1", "DeleteOptions", message((1, 0), (2, message((1, "u-1"))), (4, "Foreground"))))
    assert options == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u-1"},
        "propagationPolicy": "Foreground",
    }


def test_negative_numbers_and_unknown_fields_are_read_as_the_encoding_says() -> None:
    raw = message((2, -5), (99, "later"), (98, 1.5))
    assert decode(body("scheduling.k8s.io/v1", "PriorityClass", raw))["value"] == -5


def test_a_crds_schema_keeps_its_alternatives() -> None:
    def schema(*fields: tuple[int, Any]) -> bytes:
        return message(*fields)

    text = schema((5, "string"))
    whole = schema(
        (5, "object"),
        (29, message((1, "a"), (2, schema((5, "array"), (24, message((1, text))))))),
        (29, message((1, "b"), (2, schema((8, message((1, b'{"x":[1]}'))), (30, message((1, 1))), (9, 2.5))))),
        (30, message((1, 0), (2, text))),
    )
    version = message((1, "v1"), (2, 1), (3, 1), (4, message((1, whole))))
    found = decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", message((2, message((7, version))))))
    assert found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "string"}},
            "b": {"default": {"x": [1]}, "additionalProperties": True, "maximum": 2.5},
        },
        "additionalProperties": {"type": "string"},
    }


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"{}", 415),
        (body("example.com/v1", "Robot", b""), 415),
        (b"k8s\x00\x0a", 400),
        (b"k8s\x00\x0a\x7fabc", 400),
        (b"k8s\x00" + b"\xff" * 20, 400),
        (body("v1", "ConfigMap", field(1, 7)), 400),
        (body("v1", "ConfigMap", field(1, b"\x0a\x02\xff\xfe")), 400),
    ],
)
def test_bytes_of_an_unknown_kind_are_refused(sent: bytes, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        decode(sent)
    assert caught.value.code == code
