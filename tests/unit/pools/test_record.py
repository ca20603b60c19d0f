"""The members of a pool by its record, and the namespaces that it serves: the pure decisions."""

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from konverge.crds.pools_v1alpha1 import AllowedNamespaces
from konverge.objects import Object
from konverge.reconcilers.pools.allowance import allowed, allows
from konverge.reconcilers.pools.members import Member, corrected_marks, member_of
from konverge.reconcilers.pools.nonces import digest_of
from konverge.reconcilers.pools.pool.record import MemberRecord, take_census
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel

NONCE: Final = "0" * 32
NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
FREE: Final = {PoolsLabel.POOL: "small", PoolsLabel.ASSIGNED: PoolsLabel.FALSE}
TAKEN: Final = {**FREE, PoolsLabel.ASSIGNED: PoolsLabel.TRUE}


def instance(uid: str, labels: dict[str, str] | None = None, **more: Any) -> Member:
    metadata = {"name": f"name-{uid}", "namespace": more.pop("namespace", "ns"), "uid": uid, "labels": labels or {}}
    annotations = {PoolsAnnotation.CREATION_NONCE: more.pop("nonce")} if "nonce" in more else {}
    claim = {"claimRef": {"namespace": "t", "name": "main", "uid": more.pop("claim")}} if "claim" in more else {}
    return member_of(Object({"metadata": {**metadata, "annotations": annotations}, "spec": claim}), NOW)


def record(*uids: str, **more: Any) -> MemberRecord:
    return MemberRecord(**{"pool": "small", "namespace": "ns", "uids": uids, "digests": {}, **more})


def recorded_by(*claims: str) -> Any:
    return lambda member: member.claim in claims


CREATED: Final = {"name-a": digest_of(NONCE)}


@pytest.mark.parametrize(
    ("known", "found", "members", "look_alikes"),
    [
        (record("a"), instance("a", FREE), ["a"], 0),
        (record("a"), instance("a"), ["a"], 0),
        (record("a"), instance("a", TAKEN), ["a"], 0),
        (record("a"), instance("a", FREE, namespace="former"), ["a"], 0),
        (record(), instance("a", FREE), [], 1),
        (record(), instance("a", FREE, namespace="attacker"), [], 0),
        (record(), instance("a", FREE, claim="u"), [], 0),
        (record(digests=CREATED), instance("a", FREE, nonce=NONCE), ["a"], 0),
        (record(digests=CREATED), instance("a", FREE, nonce="1" * 32), [], 1),
        (record(digests=CREATED), instance("a", FREE, nonce=digest_of(NONCE)), [], 1),
        (record(digests=CREATED), instance("a", FREE), [], 1),
        (record(digests=CREATED), instance("b", FREE, nonce=NONCE), [], 1),
        (record(digests=CREATED), instance("a", FREE, nonce=NONCE, namespace="attacker"), [], 0),
        (record(digests={"name-a": ""}), instance("a", FREE, nonce=""), [], 1),
        (record(adopts=True), instance("a", FREE), ["a"], 0),
        (record(adopts=True), instance("a", TAKEN), [], 1),
        (record(adopts=True), instance("a", TAKEN, claim="u"), ["a"], 0),
        (record(adopts=True), instance("a", {**FREE, PoolsLabel.POOL: "other"}), [], 0),
        (record(adopts=True), instance("a", FREE, namespace="attacker"), [], 0),
        (record("a"), instance("a", TAKEN, claim="u"), ["a"], 0),
        (record("a"), instance("a", TAKEN, claim="confirmed"), [], 0),
        (record(adopts=True), instance("a", TAKEN, claim="confirmed"), [], 0),
    ],
)
def test_member_is_recorded_or_proven_by_its_nonce_or_adopted(
    known: MemberRecord, found: Member, members: list[str], look_alikes: int
) -> None:
    census = take_census(known, [found], recorded_by("confirmed"), complete=True)
    assert [one.metadata.uid for one in census.members] == members
    assert (list(census.uids), census.look_alikes) == (members, look_alikes)


@pytest.mark.parametrize(("complete", "uids"), [(False, ("gone", "a")), (True, ("a",))])
def test_recorded_member_leaves_the_record_only_if_a_complete_list_lacks_it(
    complete: bool, uids: tuple[str, ...]
) -> None:
    census = take_census(record("gone", "a"), [instance("a", FREE)] * 2, recorded_by(), complete=complete)
    assert (census.uids, census.unseen, len(census.members)) == (uids, True, 1)


def test_marks_of_an_untouched_member_need_no_correction() -> None:
    assert corrected_marks(instance("a", FREE).metadata, "small") == {}


@pytest.mark.parametrize(
    "stored",
    [None, "All", {}, {"from": "Some"}, {"from": "Selector"}, {"from": "Names"}, {"from": "Selector", "selector": {}}],
)
def test_rule_that_is_missing_or_unreadable_allows_no_namespace(stored: Any) -> None:
    assert allows(allowed(stored), "a", {"team": "a"}) is False


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
def test_selector_does_not_allow_a_namespace_whose_labels_are_unknown(operator: str) -> None:
    values = ["b"] if operator == "NotIn" else []
    selector = {"matchExpressions": [{"key": "team", "operator": operator, "values": values}]}
    rule = AllowedNamespaces.model_validate({"from": "Selector", "selector": selector})
    assert (allows(rule, "a", {}), allows(rule, "a", None)) == (True, False)
