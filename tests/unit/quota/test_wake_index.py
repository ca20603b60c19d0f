"""The changes that trigger a reconcile and the changes that do not: predicates and the wake index, without a server."""

from typing import Any

import msgspec
import pytest

from konverge.errors import Forbidden, Invalid, NotFound, Unreachable
from konverge.fields import Owner
from konverge.informers import Cached, Change
from konverge.objects import Metadata
from konverge.reconcilers.quota.pools.outcomes import is_ending, is_refusal
from konverge.reconcilers.quota.predicates import claim_changed, namespace_changed, status_was_edited
from konverge.reconcilers.quota.wake_index import WakeIndex

QUOTA = "capsule-pool-p"


def cached(version: str = "1", *, name: str = QUOTA, body: dict[str, Any] | None = None, **metadata: Any) -> Cached:
    found = Metadata(name=name, namespace="a", uid="u", resource_version=version, **metadata)
    return Cached(found, msgspec.json.encode(body or {}))


def change(old: Cached | None, new: Cached | None, name: str = QUOTA) -> Change:
    return Change("a", name, old, new)


def quota(hard: str = "1", used: str = "0") -> dict[str, Any]:
    return {"spec": {"hard": {"pods": hard}}, "status": {"hard": {"pods": hard}, "used": {"pods": used}}}


def test_x29_a_change_of_use_triggers_a_reconcile_only_during_a_release() -> None:
    notes, use = WakeIndex(), change(cached("1", body=quota()), cached("2", body=quota(used="1")))
    assert not notes.quota_matters(use)
    notes.set_releasing("p", ["a"])
    assert notes.quota_matters(use)
    notes.set_releasing("p", [])
    assert not notes.quota_matters(use)
    notes.set_releasing("other", ["a"])
    assert not notes.quota_matters(use)


def test_amount_label_or_lifecycle_change_of_a_resource_quota_triggers_a_reconcile() -> None:
    notes = WakeIndex()
    raised = change(cached("1", body=quota("1")), cached("7", body=quota("9")))
    assert notes.quota_matters(raised)
    assert notes.quota_matters(change(cached("7", body=quota("9")), cached("8", body=quota("100"))))
    assert notes.quota_matters(change(cached("7"), None))
    assert notes.quota_matters(change(cached("7"), cached("8", labels={"a": "b"})))
    notes.forget("p")
    assert notes.quota_matters(raised)


def test_pool_change_reaches_the_claim_controller_only_for_waiting_claims() -> None:
    notes, moved = WakeIndex(), change(cached("1", name="p"), cached("2", name="p"), "p")
    assert not notes.pool_affects_claims(moved)
    notes.waiting["a", "c"] = "other"
    assert not notes.pool_affects_claims(moved)
    notes.waiting["a", "d"] = ""
    assert notes.pool_affects_claims(moved)
    notes.waiting = {("a", "d"): "p"}
    assert notes.pool_affects_claims(moved)
    notes.waiting = {}
    assert notes.pool_affects_claims(change(None, cached("1", name="p"), "p"))
    assert notes.pool_affects_claims(change(cached("1", name="p"), None, "p"))
    assert notes.pool_affects_claims(
        change(cached("1", name="p"), cached("2", name="p", deletion_timestamp="2030-01-01T00:00:00Z"), "p")
    )


@pytest.mark.parametrize(
    ("old", "new", "matters"),
    [
        ({}, {}, False),
        ({}, {"generation": 2}, True),
        ({}, {"annotations": {"projectcapsule.dev/release": "true"}}, True),
        ({}, {"annotations": {"other": "true"}}, False),
        ({}, {"deletion_timestamp": "2030-01-01T00:00:00Z"}, True),
        ({}, {"labels": {"a": "b"}}, False),
    ],
)
def test_only_foreign_writes_to_a_claim_trigger_a_reconcile(
    old: dict[str, Any], new: dict[str, Any], matters: bool
) -> None:
    assert claim_changed(change(cached("1", **old), cached("2", **new))) is matters


@pytest.mark.parametrize(("named", "matters"), [("p", False), (None, True)])
def test_changed_pool_in_status_triggers_a_reconcile_of_an_unassigned_claim(named: str | None, matters: bool) -> None:
    spec = {"claim": {}} if named is None else {"claim": {}, "pool": named}
    given = cached("2", body={"spec": spec, "status": {"pool": {"name": "p"}}})
    assert claim_changed(change(cached("1", body={"spec": spec}), given)) is matters
    assert not claim_changed(
        change(given, cached("3", body={"spec": spec, "status": {"pool": {"name": "p"}, "condition": {}}}))
    )


OURS = Owner("konverge", "Apply", "status")
CONDITION: dict[str, Any] = {"f:type": {}, "f:status": {}}
LISTED: dict[str, Any] = {'k:{"type":"Bound"}': {".": {}, "f:type": {}, "f:status": {}}}


@pytest.mark.parametrize(
    ("before", "after", "matters"),
    [
        ({"f:condition": CONDITION}, {"f:condition": CONDITION}, False),
        ({"f:condition": CONDITION}, {"f:condition": CONDITION, "f:pool": {"f:name": {}}}, False),
        ({"f:condition": CONDITION}, {"f:condition": {**CONDITION, "f:reason": {}}}, False),
        ({"f:condition": CONDITION, "f:pool": {"f:name": {}}}, {"f:condition": CONDITION}, False),
        ({"f:condition": CONDITION}, {"f:condition": {"f:type": {}}}, True),
        ({"f:condition": CONDITION}, {"f:pool": {"f:name": {}}}, True),
        ({"f:condition": CONDITION}, None, True),
        ({"f:conditions": LISTED}, {"f:conditions": {}}, True),
    ],
    ids=[
        "the same fields",
        "a place is added",
        "a field is added",
        "a place is omitted, as the family does at times",
        "a field of the condition was edited",
        "the condition was removed",
        "the whole status was taken",
        "a condition of the list was removed",
    ],
)
def test_only_foreign_edits_of_a_written_status_trigger_a_claim_reconcile(
    before: dict[str, Any], after: dict[str, Any] | None, matters: bool
) -> None:
    def at(version: str, fields: dict[str, Any] | None) -> Cached:
        owned = None if fields is None else {OURS: msgspec.json.encode({"f:status": fields})}
        return msgspec.structs.replace(cached(version, body={"spec": {"claim": {}, "pool": "p"}}), owned=owned)

    assert claim_changed(change(at("1", before), at("2", after))) is matters
    assert status_was_edited(change(at("1", before), at("2", after)), but=("pool",)) is matters


def test_labels_and_termination_of_a_namespace_trigger_a_reconcile() -> None:
    assert not namespace_changed(change(cached("1"), cached("2", annotations={"a": "b"})))
    assert namespace_changed(change(cached("1"), cached("2", labels={"a": "b"})))
    assert namespace_changed(change(cached("1"), cached("2", deletion_timestamp="2030-01-01T00:00:00Z")))
    assert namespace_changed(change(None, cached("1")))


def test_a_rejection_differs_from_a_terminating_namespace_and_from_a_missing_rule() -> None:
    denied = Forbidden(
        'resourcequotas is forbidden: User "u" cannot create resource "resourcequotas" in API group "" in the namespace "a"'
    )
    ending = Forbidden("unable to create new content in namespace a because it is being terminated")
    refusals = (Invalid("spec.hard: no"), Forbidden("a webhook says no"))
    assert [is_refusal(error) for error in (*refusals, denied, ending, NotFound("a"), Unreachable("x"))] == [
        True,
        True,
        *[False] * 4,
    ]
    assert [is_ending(error) for error in (ending, NotFound("a"), denied)] == [True, True, False]
