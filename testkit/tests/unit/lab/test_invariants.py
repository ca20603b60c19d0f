"""Invariants of every commit: observed generations, conditions, owners."""

import json
from typing import Any

import pytest

from konverge_testing.apiserver.storage import Event
from konverge_testing.apiserver.storage.entries import Entry
from konverge_testing.lab.invariants import violated


def entry(status: Any, *, uid: str = "u1", deleted: bool = False, owners: tuple[str, ...] = ()) -> Entry:
    metadata: dict[str, Any] = {"name": "one", "namespace": "lab", "uid": uid}
    if owners:
        metadata["ownerReferences"] = [{"kind": "Widget", "name": "w", "uid": owner} for owner in owners]
    data = {"kind": "Widget", "metadata": metadata, "status": status}
    return Entry(("example.com", "widgets"), "lab", "one", uid, 1, json.dumps(data).encode(), {}, deleted)


def conditions(*types: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": "True"} for type_ in types], **more}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (conditions("Ready"), conditions("Ready", "Stalled"), []),
        (conditions("Ready", "Stalled"), conditions("Ready"), []),
        (
            conditions("Reconciling"),
            conditions("Reconciling", "Stalled"),
            ["Widget lab/one: Reconciling and Stalled are both True"],
        ),
        (conditions("Ready", "B", "A"), conditions("Ready"), ["Widget lab/one: A, B vanished from status.conditions"]),
        ({"observedGeneration": 2}, {"observedGeneration": 3}, []),
        ({"observedGeneration": 2}, {"observedGeneration": 2}, []),
        (
            {"observedGeneration": 3},
            {"observedGeneration": 2},
            ["Widget lab/one: status.observedGeneration went back from 3 to 2"],
        ),
        ({"observedGeneration": 3}, {}, []),
        (None, {}, []),
        ({"conditions": "nonsense"}, {"conditions": [1, {"status": "True"}]}, []),
    ],
)
def test_a_commit_is_compared_with_the_state_that_it_replaced(old: Any, new: Any, said: list[str]) -> None:
    assert violated(Event("MODIFIED", entry(new), entry(old)), {}) == [
        one.replace("lab/one", entry(new).key) for one in said
    ]


def test_a_recreated_object_is_not_compared_with_the_old_one() -> None:
    before, after = entry(conditions("Ready", observedGeneration=9)), entry({"observedGeneration": 1}, uid="u2")
    assert violated(Event("MODIFIED", after, before), {}) == []


def test_a_deletion_violates_no_invariant() -> None:
    assert violated(Event("DELETED", entry({}, deleted=True), entry(conditions("Ready"))), {}) == []


def test_two_references_to_one_owner_are_a_violation_from_creation_on() -> None:
    assert violated(Event("ADDED", entry({}, owners=("a", "b")), None), {}) == []
    assert violated(Event("ADDED", entry({}, owners=("a", "a")), None), {}) == [
        "Widget lab/one: two owner references to one uid"
    ]


@pytest.mark.parametrize(
    ("place", "said"), [("", []), ("lab", []), ("web", ["Widget lab/one: its owner Widget w is in the namespace web"])]
)
def test_an_owner_is_in_the_same_namespace_or_of_the_whole_cluster(place: str, said: list[str]) -> None:
    assert violated(Event("ADDED", entry({}, owners=("a",)), None), {"a": place}) == said
