"""Null in a server-side apply of a custom resource, and integers beyond 64 bits, with the responses of kube-apiserver 1.36."""

import json
from typing import Any

import pytest

import konverge as kv
from konverge_testing import Lab, install_crds

_SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "name": {"type": "string"},
        "color": {"type": "string", "default": "green"},
        "mode": {"type": "string", "nullable": True, "default": "full"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "limits": {"type": "object", "additionalProperties": {"type": "string"}},
        "inner": {"type": "object", "properties": {"mode": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "large": {"type": "number"},
    },
}
_STATUS = {"type": "object", "properties": {"when": {"type": "string", "format": "date-time"}}}
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boxes.bugs.example.com"},
    "spec": {
        "group": "bugs.example.com",
        "scope": "Namespaced",
        "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}},
            }
        ],
    },
}
_APPLY, _MERGE, _JSON = "application/apply-patch+yaml", "application/merge-patch+json", "application/json"


async def _send(
    lab: Lab, method: str, content_type: str, part: dict[str, Any], subresource: str = ""
) -> dict[str, Any]:
    body = {"apiVersion": "bugs.example.com/v1", "kind": "Box", "metadata": {"name": "a"}, **part}
    path = f"/apis/bugs.example.com/v1/namespaces/{lab.namespace}/boxes"
    path = path if method == "POST" else f"{path}/a{subresource}"
    params = {"fieldManager": "m"}
    answer = await lab.client.raw(
        method, path, body=json.dumps(body).encode(), content_type=content_type, params=params
    )
    stored: dict[str, Any] = json.loads(answer)
    return stored


@pytest.mark.parametrize(
    "spec",
    [{"size": None}, {"name": None}, {"tags": None}, {"limits": {"a": None}}, {"inner": {"mode": None}}],
    ids=str,
)
async def test_an_applied_null_of_a_plain_field_is_refused(lab: Lab, spec: Any) -> None:
    await install_crds(lab.client, [_DEFINITION])
    with pytest.raises(kv.ApiError, match="must be of type"):
        await _send(lab, "PATCH", _APPLY, {"spec": spec})
    await _send(lab, "PATCH", _APPLY, {"spec": {"color": "red"}})
    with pytest.raises(kv.ApiError, match="must be of type"):
        await _send(lab, "PATCH", _APPLY, {"spec": spec})


async def test_an_applied_null_in_place_of_a_spec_or_status_is_refused(lab: Lab) -> None:
    await install_crds(lab.client, [_DEFINITION])
    with pytest.raises(kv.ApiError, match="must be of type"):
        await _send(lab, "PATCH", _APPLY, {"spec": None})
    await _send(lab, "PATCH", _APPLY, {"spec": {"size": 1}})
    with pytest.raises(kv.ApiError, match="must be of type"):
        await _send(lab, "PATCH", _APPLY, {"status": {"when": None}}, "/status")


async def test_an_applied_null_is_stored_or_becomes_the_default(lab: Lab) -> None:
    await install_crds(lab.client, [_DEFINITION])
    spec = {"mode": None, "color": None, "free": {"any": None}}
    for _ in range(2):
        stored = await _send(lab, "PATCH", _APPLY, {"spec": spec})
        assert stored["spec"] == {"mode": None, "color": "green", "free": {"any": None}}


async def test_other_writes_drop_a_null_of_a_plain_field(lab: Lab) -> None:
    await install_crds(lab.client, [_DEFINITION])
    stored = await _send(lab, "POST", _JSON, {"spec": {"size": None, "color": None, "limits": {"a": None}}})
    assert stored["spec"] == {"color": "green", "mode": "full", "limits": {}}
    # The stored text of the spec is unchanged since an apply.
    with pytest.raises(kv.ApiError, match="must be of type"):
        await _send(lab, "PATCH", _APPLY, {"spec": {"size": None}})
    stored = await _send(lab, "PATCH", _MERGE, {"spec": {"size": 3, "inner": {}}})
    assert stored["spec"]["size"] == 3


async def test_an_integer_beyond_64_bits_becomes_a_float(lab: Lab) -> None:
    await install_crds(lab.client, [_DEFINITION])
    fits, rounded = 2**63 - 1, 9223372036854776000
    given = {"free": {"fits": fits, "not": 2**63, "list": [-(2**63) - 1]}, "large": 2**64 - 1}
    expected = {"free": {"fits": fits, "not": rounded, "list": [-rounded]}, "large": 18446744073709552000}
    for method, content_type in (("POST", _JSON), ("PATCH", _APPLY), ("PATCH", _MERGE)):
        stored = await _send(lab, method, content_type, {"spec": given})
        assert stored["spec"] == {**expected, "color": "green", "mode": "full"}
    with pytest.raises(kv.ApiError, match="must be of type integer"):
        await _send(lab, "PATCH", _MERGE, {"spec": {"size": 2**63}})
