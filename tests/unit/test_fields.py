from typing import Any

import msgspec
import pytest

from konverge.fields import Owner, applied_fields, digest, owned_by, owners_of, projection, unchanged, without_nulls


def fields(value: Any) -> bytes:
    return msgspec.json.encode(value)


CONDITIONS_OWNED = fields(
    {
        "f:status": {
            "f:conditions": {
                'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}},
            }
        }
    }
)
BOTH_OWNED = fields(
    {
        "f:status": {
            "f:conditions": {
                f'k:{{"type":"{type_}"}}': {".": {}, "f:type": {}, "f:status": {}} for type_ in ("Ready", "Other")
            }
        }
    }
)
READY = {"type": "Ready", "status": "True"}
OTHER = {"type": "Other", "status": "False"}

CASES: list[tuple[str, dict[str, Any], bytes | None, dict[str, Any], bool]] = [
    ("nothing is owned yet", {"spec": {"a": 1}}, None, {"spec": {"a": 1}}, False),
    ("equal values, equal set", {"spec": {"a": 1}}, fields({"f:spec": {"f:a": {}}}), {"spec": {"a": 1, "b": 2}}, True),
    ("a value differs", {"spec": {"a": 2}}, fields({"f:spec": {"f:a": {}}}), {"spec": {"a": 1}}, False),
    ("a field is new", {"spec": {"a": 1, "b": 1}}, fields({"f:spec": {"f:a": {}}}), {"spec": {"a": 1, "b": 1}}, False),
    ("a field is dropped", {"spec": {"a": 1}}, fields({"f:spec": {"f:a": {}, "f:b": {}}}), {"spec": {"a": 1, "b": 1}}, False),
    ("True is not 1", {"spec": {"a": True}}, fields({"f:spec": {"f:a": {}}}), {"spec": {"a": 1}}, False),
    ("an owned field vanished", {"spec": {"a": 1}}, fields({"f:spec": {"f:a": {}}}), {"spec": {}}, False),
    ("an atomic list", {"spec": {"l": [1, 2]}}, fields({"f:spec": {"f:l": {}}}), {"spec": {"l": [1, 2]}}, True),
    ("an atomic list in another order", {"spec": {"l": [2, 1]}}, fields({"f:spec": {"f:l": {}}}), {"spec": {"l": [1, 2]}}, False),
    ("an item of a list map among others", {"status": {"conditions": [READY]}}, CONDITIONS_OWNED, {"status": {"conditions": [OTHER, READY]}}, True),
    ("an item of a list map is gone", {"status": {"conditions": [READY]}}, CONDITIONS_OWNED, {"status": {"conditions": [OTHER]}}, False),
    ("one more item is wanted", {"status": {"conditions": [READY, OTHER]}}, CONDITIONS_OWNED, {"status": {"conditions": [READY, OTHER]}}, False),
    ("an item of a list map is dropped that is owned and live", {"status": {"conditions": [READY]}}, BOTH_OWNED, {"status": {"conditions": [READY, OTHER]}}, False),
    ("an item of a list map is dropped that is owned and gone", {"status": {"conditions": [READY]}}, BOTH_OWNED, {"status": {"conditions": [READY]}}, False),
    ("an item of a list map is replaced by another", {"status": {"conditions": [OTHER]}}, CONDITIONS_OWNED, {"status": {"conditions": [READY, OTHER]}}, False),
    ("all items of a list map are dropped", {"status": {"conditions": []}}, BOTH_OWNED, {"status": {"conditions": [READY, OTHER]}}, False),
    ("a list map is dropped", {"status": {}}, BOTH_OWNED, {"status": {"conditions": [READY, OTHER]}}, False),
    ("a member of a set is dropped that is owned and live", {"spec": {"s": ["x"]}}, fields({"f:spec": {"f:s": {'v:"x"': {}, 'v:"y"': {}}}}), {"spec": {"s": ["x", "y"]}}, False),
    ("a set", {"spec": {"s": ["x"]}}, fields({"f:spec": {"f:s": {'v:"x"': {}}}}), {"spec": {"s": ["y", "x"]}}, True),
    ("a set lacks our member", {"spec": {"s": ["x"]}}, fields({"f:spec": {"f:s": {'v:"x"': {}}}}), {"spec": {"s": ["y"]}}, False),
    ("an empty map that others fill", {"spec": {"values": {}}}, fields({"f:spec": {"f:values": {}}}), {"spec": {"values": {"a": 1}}}, True),
    (
        "identity is never owned",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}}, "data": {"k": "v"}},
        fields({"f:metadata": {"f:labels": {"f:l": {}}}, "f:data": {"f:k": {}}}),
        {"metadata": {"name": "a", "labels": {"l": "1", "m": "2"}}, "data": {"k": "v"}},
        True,
    ),
    ("an empty intent that owns nothing", {"metadata": {"name": "a"}}, fields({}), {}, True),
    ("an empty intent that owned something", {"metadata": {"name": "a"}}, fields({"f:spec": {"f:a": {}}}), {"spec": {"a": 1}}, False),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "intent", "owned", "live", "same"), CASES, ids=[case[0] for case in CASES])
def test_an_apply_is_skipped_only_if_nothing_would_change(
    reason: str, intent: dict[str, Any], owned: bytes | None, live: dict[str, Any], same: bool
) -> None:
    assert unchanged(intent, owned, live) is same, reason


MANAGED = msgspec.json.encode(
    [
        {
            "manager": "konverge",
            "operation": "Apply",
            "fieldsV1": {"f:spec": {"f:a": {}}},
            "time": "2030-01-01T00:00:00Z",
        },
        {"manager": "konverge", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": "konverge", "operation": "Update", "fieldsV1": {"f:spec": {"f:b": {}}}},
        {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {"f:a": {}}}},
    ]
)


def test_only_applied_fields_of_our_own_managers_are_kept() -> None:
    assert owned_by(MANAGED, ["konverge"]) == {
        Owner("konverge", "Apply", ""): b'{"f:spec":{"f:a":{}}}',
        Owner("konverge", "Apply", "status"): b'{"f:status":{}}',
    }


@pytest.mark.parametrize(
    ("owner", "fields"),
    [
        (Owner("konverge", "Apply", ""), {"f:spec": {"f:a": {}}}),
        (Owner("konverge", "Apply", "status"), {"f:status": {}}),
        (Owner("konverge", "Update", ""), {"f:spec": {"f:b": {}}}),
        (Owner("somebody", "Apply", ""), None),
    ],
)
def test_the_field_set_of_one_owner_is_found_in_decoded_entries(owner: Owner, fields: Any) -> None:
    assert applied_fields(msgspec.json.decode(MANAGED), owner) == fields


def test_the_owners_of_a_field_are_named() -> None:
    assert [owner.manager for owner in owners_of(MANAGED, ("spec", "a"))] == ["konverge", "kubectl"]


def test_nulls_are_dropped_at_every_depth() -> None:
    assert without_nulls({"a": None, "b": {"c": None, "d": [{"e": None}]}}) == {"b": {"d": [{}]}}


def test_a_projection_holds_the_owned_fields_and_no_others() -> None:
    live = {"spec": {"a": "1000m", "b": 2}, "status": {"conditions": [OTHER, READY]}}
    owned = msgspec.json.decode(CONDITIONS_OWNED) | {"f:spec": {"f:a": {}}}
    assert projection(live, owned) == {"spec": {"a": "1000m"}, "status": {"conditions": [READY]}}


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
