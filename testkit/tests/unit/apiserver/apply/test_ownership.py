"""Ownership beyond the recordings of a single server: schemas that change, versions that are removed, objects that do not fit."""

import copy
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
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

V1 = "example.com/v1"


def node(**spec: Data) -> Node:
    return Node(
        {
            "type": "object",
            "properties": {"metadata": {"type": "object"}, "spec": {"type": "object", "properties": spec}},
        }
    )


STRING: Data = {"type": "string"}
PART: Data = {"type": "object", "properties": {"name": STRING, "value": {"type": "integer"}}}
PARTS: Data = {"type": "array", "items": PART, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
TAGS: Data = {"type": "object", "additionalProperties": STRING}
NODE = node(
    parts=PARTS, tags=TAGS, color=STRING, flags={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}
)


def widget(**spec: Any) -> Data:
    return {"apiVersion": V1, "kind": "Widget", "metadata": {"name": "w", "namespace": "d"}, "spec": spec}


def applied(live: Data | None, patch: Data, by: str = "a", at: int = 0, schema: Node = NODE, **more: Any) -> Data:
    options = {"force": False, "api_version": V1, "subresource": "", "now": f"2026-01-01T00:00:{at:02d}Z", **more}
    return apply(schema, live, patch, manager=by, **options)


def updated(live: Data | None, new: Data, by: str = "u", at: int = 0, schema: Node = NODE, **more: Any) -> Data:
    now = f"2026-01-01T00:00:{at:02d}Z"
    found = track_update(schema, live, new, manager=by, api_version=V1, subresource="", now=now, **more)
    return {**new, "metadata": {**new["metadata"], "managedFields": found}}


def owned(object_: Data) -> dict[str, Data]:
    return {entry["manager"]: entry["fieldsV1"] for entry in object_["metadata"]["managedFields"]}


def test_a_field_that_became_atomic_is_owned_as_one() -> None:
    live = applied(None, widget(tags={"x": "1"}, parts=[{"name": "p", "value": 1}]))
    atomic = node(
        parts={"type": "array", "items": PART}, tags={**TAGS, "x-kubernetes-map-type": "atomic"}, color=STRING
    )
    after = applied(live, widget(color="red"), by="b", at=1, schema=atomic)
    assert owned(after)["a"] == {"f:spec": {"f:tags": {}, "f:parts": {}}}
    assert owned(live)["a"]["f:spec"]["f:tags"] == {"f:x": {}}


def test_owners_of_a_version_that_is_gone_are_dropped() -> None:
    live = applied(None, widget(color="red"))
    after = applied(
        live,
        {**widget(tags={"x": "1"}), "apiVersion": "example.com/v2"},
        by="b",
        api_version="example.com/v2",
        versions={"example.com/v2": NODE},
    )
    assert set(owned(after)) == {"b"}
    kept = {"example.com/v1": NODE, "example.com/v2": NODE}
    assert set(owned(applied(live, widget(tags={"x": "1"}), by="b", versions=kept))) == {"a", "b"}


def test_an_object_that_does_not_fit_its_schema_has_no_owners() -> None:
    live = applied(None, widget(color="red"))
    assert owned(live)
    broken = {**live, "spec": {"color": 1}}
    assert updated(live, broken)["metadata"]["managedFields"] is None


def test_apply_to_an_invalid_live_object_is_a_500_with_reason() -> None:
    live = {
        **widget(parts=[{"value": 1}]),
        "metadata": {"name": "w", "managedFields": applied(None, widget(color="red"))["metadata"]["managedFields"]},
    }
    with pytest.raises(StatusError) as refused:
        applied(live, widget(parts=[{"name": "x"}]))
    assert refused.value.code == 500
    why = 'element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn\'t have default values for any key fields)'
    assert refused.value.message == f"failed to create typed live object (/w; {V1}, Kind=Widget): .spec.parts: {why}"


def test_equal_items_of_a_live_list_are_owned_as_one_place() -> None:
    live = updated(None, widget(parts=[{"name": "x", "value": 1}, {"name": "x", "value": 2}]))
    assert owned(live)["u"]["f:spec"]["f:parts"] == {".": {}, 'k:{"name":"x"}': {}}
    one = updated(live, {**live, "spec": {"parts": [{"name": "x", "value": 1}]}}, by="v", at=1)
    assert owned(one)["v"] == {"f:spec": {"f:parts": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:value": {}}}}}
    two = updated(one, {**one, "spec": live["spec"]}, by="w", at=2)
    assert owned(two)["w"] == {"f:spec": {"f:parts": {'k:{"name":"x"}': {}}}}
    three = updated(
        two, {**two, "spec": {"parts": [{"name": "x", "value": 1}, {"name": "x", "value": 3}]}}, by="x", at=3
    )
    assert owned(three)["x"] == {"f:spec": {"f:parts": {'k:{"name":"x"}': {}}}}


def test_an_apply_that_changes_nothing_returns_the_live_object() -> None:
    live = applied(None, widget(color="red", tags={"x": "1"}, parts=[{"name": "p"}], flags=["a"]))
    again = applied(
        copy.deepcopy(live),
        copy.deepcopy(widget(color="red", tags={"x": "1"}, parts=[{"name": "p"}], flags=["a"])),
        at=9,
    )
    assert again == live
    same = copy.deepcopy(live)
    assert applied(same, widget(color="red", tags={"x": "1"}, parts=[{"name": "p"}], flags=["a"]), at=9) is same


def test_arguments_are_never_changed() -> None:
    live = updated(
        applied(None, widget(color="red", parts=[{"name": "p", "value": 1}])), widget(color="blue", flags=["x"]), at=1
    )
    patch = widget(color="green", parts=[{"name": "q"}], flags=["y"])
    before = copy.deepcopy((live, patch))
    applied(live, patch, force=True, at=2)
    updated(live, patch, at=3)
    assert (live, patch) == before


def test_an_apply_is_unchanged_if_only_the_times_of_owners_differ() -> None:
    one = applied(None, widget(color="red"))
    two = applied(None, widget(color="red"), at=5)
    assert one != two
    assert apply_unchanged(one, two)
    assert not apply_unchanged(one, applied(None, widget(color="blue")))
    assert not apply_unchanged(one, applied(None, widget(color="red"), by="b"))
    assert not apply_unchanged(one, {**one, "status": {}})
    assert not apply_unchanged(widget(color=1), widget(color=True))


def test_a_time_that_moves_an_owner_behind_another_one_is_written() -> None:
    # As in kube-apiserver, which compares the owners pair by pair, ordered by time and then by name.
    def owned(*owners: tuple[str, str]) -> dict[str, Any]:
        found = [{"manager": name, "operation": "Update", "apiVersion": V1, "time": time} for name, time in owners]
        return {**widget(), "metadata": {"name": "a", "managedFields": found}}

    before = owned(("a", "2026-01-01T00:00:00Z"), ("b", "2026-01-01T00:00:00Z"))
    assert apply_unchanged(before, owned(("a", "2026-01-01T00:00:01Z"), ("b", "2026-01-01T00:00:02Z")))
    assert not apply_unchanged(before, owned(("b", "2026-01-01T00:00:00Z"), ("a", "2026-01-01T00:00:01Z")))


def test_entries_that_make_no_sense_are_replaced_by_the_live_ones() -> None:
    live = updated(None, widget(color="red"))
    entry = live["metadata"]["managedFields"][0]
    senseless: list[Data] = [
        {"operation": "Steal"},
        {"apiVersion": ""},
        {"fieldsType": "V2"},
        {"fieldsV1": {"nothing": {}}},
        {"fieldsV1": 1},
    ]
    for wrong in senseless:
        new = {**live, "metadata": {**live["metadata"], "managedFields": [{**entry, **wrong}]}}
        assert updated(live, new)["metadata"]["managedFields"] == [entry]


def test_a_live_object_with_senseless_owners_cannot_be_applied_to() -> None:
    live = {**widget(), "metadata": {"name": "w", "managedFields": [{"manager": "x"}]}}
    with pytest.raises(StatusError) as refused:
        applied(live, widget())
    assert refused.value.code == 500


def test_create_by_apply_is_refused_for_a_different_kind() -> None:
    with pytest.raises(StatusError) as refused:
        applied(None, {**widget(), "kind": "Gadget"}, kind="Widget")
    assert (refused.value.code, refused.value.message) == (400, f"invalid object type: {V1}, Kind=Gadget")


@pytest.mark.parametrize(
    ("given", "agent", "wanted"),
    [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1.36 (linux/amd64)", "kubectl"),
        ("", "no slash", "no slash"),
        ("", "", ""),
        ("", "a\tb\x00/x", "ab"),
        ("", "é" * 100, "é" * 64),
    ],
)
def test_the_default_manager_is_the_program_of_the_user_agent(given: str, agent: str, wanted: str) -> None:
    assert manager_name(given, agent) == wanted


def test_names_of_managers_are_short_and_printable() -> None:
    assert [str(error) for error in validate_manager("x" * 129)] == [
        "fieldManager: Too long: may not be more than 128 bytes"
    ]
    wrong = [str(error) for error in validate_manager("é\n")]
    assert wrong == ['fieldManager: Invalid value: "é\\n": invalid character U+000A (at position 2)']
    assert [str(error) for error in require_manager("")] == [
        "fieldManager: Required value: is required for apply patch"
    ]
    assert validate_manager("") == require_manager("kubectl") == []
