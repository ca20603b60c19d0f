"""Which nulls of an intent are values, by a published schema."""

from typing import Any

import pytest

from konverge.client.nulls import ANYWHERE, NOWHERE, places_in, settled
from konverge.kinds import kind

KIND = kind("example.com/v1", "Box")
PARTS: dict[str, Any] = {
    "Meta": {"type": "object", "properties": {"labels": {"type": "object", "nullable": True}}},
    "Pair": {
        "type": "object",
        "properties": {"left": {"type": "string", "nullable": True}, "right": {"type": "string"}},
    },
    "Tree": {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "nullable": True},
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        },
    },
}
UNKNOWN = "x-kubernetes-preserve-unknown-fields"


def document(spec: dict[str, Any]) -> dict[str, Any]:
    box = {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Box"}],
        "properties": {
            "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}]},
            "spec": {"type": "object", "properties": spec},
        },
    }
    return {"components": {"schemas": {**PARTS, "Box": box}}}


@pytest.mark.parametrize(
    ("schema", "value", "sent"),
    [
        ({"type": "string", "nullable": True}, None, {"a": None}),
        ({"type": "string"}, None, {}),
        ({"type": "object", UNKNOWN: True}, None, {}),
        ({UNKNOWN: True}, {"b": None, "c": [{"d": None}]}, {"a": {"b": None, "c": [{"d": None}]}}),
        ({"type": "object", UNKNOWN: True, "properties": {"b": {"type": "string"}}}, {"b": None, "c": None}, {"a": {"c": None}}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"b": None}, {"a": {}}),
        ({"type": "object", "additionalProperties": {"type": "string", "nullable": True}}, {"b": None}, {"a": {"b": None}}),
        ({"$ref": "#/components/schemas/Pair"}, {"left": None, "right": None}, {"a": {"left": None}}),
        ({"allOf": [{"$ref": "#/components/schemas/Pair"}], "nullable": True}, None, {"a": None}),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Pair"}}, [{"left": None, "right": None}], {"a": [{"left": None}]}),
        ({"type": "array", "nullable": True, "items": {"type": "string"}}, [None], {"a": [None]}),
        ({"$ref": "#/components/schemas/Tree"}, {"mode": None}, {"a": {"mode": None}}),
    ],
    ids=str,
)  # fmt: skip
def test_a_null_stays_only_where_the_schema_allows_null(schema: Any, value: Any, sent: Any) -> None:
    places = places_in(document({"a": schema}), KIND)
    assert settled({"spec": {"a": value, "undeclared": None}}, places) == {"spec": sent}


def test_a_kind_without_a_place_for_null_takes_no_memory() -> None:
    spec = {"a": {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "integer"}}}}}
    assert places_in(document(spec), KIND) is NOWHERE


def test_a_kind_whose_schema_is_not_published_keeps_every_null() -> None:
    assert settled({"spec": {"a": None}, "b": None}, ANYWHERE) == {"spec": {"a": None}, "b": None}


def test_a_document_without_the_kind_is_an_error() -> None:
    with pytest.raises(LookupError, match="no schema of Other"):
        places_in(document({}), kind("example.com/v1", "Other"))
