"""Which claim takes which instance: the pure decision of claims, and the fields that the instance gets."""

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from konverge.crds.pools_v1alpha1 import MAX_INSTANCE_NAME, Nextcloud, NextcloudSpec
from konverge.errors import FieldConflict
from konverge.objects import Metadata
from konverge.reconcilers.pools.claims.decide import ClaimMode, mode_of
from konverge.reconcilers.pools.claims.drift import Corrections, DriftLoop, drift_message, drifted
from konverge.reconcilers.pools.claims.pairing import (
    WaitingClaim,
    assignments,
    beginnings_of,
    matches,
    selector_key,
    selectors_of,
)
from konverge.reconcilers.pools.claims.render import claim_labels, tenant_intent, tenant_spec
from konverge.reconcilers.pools.names import ADJECTIVES, MAX_WORD, NOUNS, name_for

SMALL = {"tier": "small"}


def claim(name: str, created: str = "1", selector: str = "tier=small") -> WaitingClaim:
    return WaitingClaim(created, name, "ns", name, selector)


def idle(name: str, created: str = "1", **labels: str) -> Metadata:
    return Metadata(name=name, namespace="ns", uid=name, creation_timestamp=created, labels={**SMALL, **labels})


def to_all(_instance: Metadata, _namespace: str) -> bool:
    return True


def test_claim_of_an_unserved_namespace_blocks_no_other_claim() -> None:
    line = [WaitingClaim("1", "old", "foreign", "old", "tier=small"), claim("young", "2")]
    served = assignments(line, [idle("a")], lambda _, namespace: namespace == "ns")
    assert [(one.name, instance.name) for one, instance in served] == [("young", "a")]


def test_the_oldest_claim_gets_the_oldest_instance() -> None:
    line = [claim("young", "3"), claim("old", "1"), claim("late", "9")]
    found = assignments(line, [idle("b", "2"), idle("a", "1")], to_all)
    assert [(one.name, instance.name) for one, instance in found] == [("old", "a"), ("young", "b")]


def test_a_claim_whose_labels_no_instance_has_does_not_hold_up_others() -> None:
    line = [claim("picky", "1", "tier=small,zone=x"), claim("any", "2")]
    assert [(one.name, instance.name) for one, instance in assignments(line, [idle("a")], to_all)] == [("any", "a")]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["tier=small", "tier=small,zone=x"])), max_size=8),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8),
)
def test_no_instance_and_no_claim_is_assigned_twice(line: list[tuple[int, str]], stock: list[tuple[int, bool]]) -> None:
    claims = [claim(f"c{place}", str(age), selector) for place, (age, selector) in enumerate(line)]
    instances = [
        idle(f"i{place}", str(age), **({"zone": "x"} if zoned else {})) for place, (age, zoned) in enumerate(stock)
    ]
    found = assignments(claims, instances, to_all)
    assert len({one.uid for one, _ in found}) == len(found) == len({instance.uid for _, instance in found})
    assert all(matches(one.selector, instance) for one, instance in found)
    # An instance stays free only if no waiting claim matches it.
    rest = [instance for instance in instances if instance.uid not in {taken.uid for _, taken in found}]
    left = [one for one in claims if one.uid not in {served.uid for served, _ in found}]
    assert not any(matches(one.selector, instance) for one in left for instance in rest)


LETTERS = "abcdefgh"


@given(
    st.lists(st.sets(st.sampled_from(LETTERS), min_size=1), max_size=6),
    st.lists(st.sets(st.sampled_from(LETTERS)), max_size=3),
)
@example([{"c", "f"}, {"a", "h"}], [set(LETTERS)])
def test_every_waiting_selector_that_matches_an_instance_is_returned(
    line: list[set[str]], stock: list[set[str]]
) -> None:
    waiting = {selector_key(dict.fromkeys(names, "1")) for names in line}
    begun = {beginning for selector in waiting for beginning in beginnings_of(selector)}
    instances = [Metadata(name="i", labels=dict.fromkeys(names, "1")) for names in stock]
    found = selectors_of(instances, begun.__contains__)
    assert found & waiting == {one for one in waiting if any(matches(one, instance) for instance in instances)}


def test_selectors_of_an_instance_are_looked_up_by_label_without_combinations() -> None:
    asked: list[str] = []

    def begins(beginning: str) -> bool:
        asked.append(beginning)
        return beginning == "label-03=x"

    labels = {f"label-{number:02}": "x" for number in range(40)}
    assert "label-03=x,label-09=x" in selectors_of([Metadata(name="i", labels=labels)], begins)
    assert len(asked) == 40 + 36


@pytest.mark.parametrize(
    ("spec", "mode"),
    [
        ({}, ClaimMode.VANILLA),
        ({"poolSelector": {}}, ClaimMode.VANILLA),
        ({"poolSelector": {}, "profile": "a"}, ClaimMode.PROFILE),
        ({"profile": "a"}, ClaimMode.PROFILE),
        ({"poolSelector": {"matchLabels": SMALL}, "profile": "a"}, ClaimMode.POOL),
        ({"poolSelector": {"matchLabels": SMALL}, "instanceRef": {"name": "i"}}, ClaimMode.REFERENCE),
    ],
)
def test_the_modes_have_an_order_and_an_empty_selector_counts_as_none(spec: dict[str, object], mode: ClaimMode) -> None:
    assert mode_of(NextcloudSpec.model_validate(spec)) is mode


def nextcloud(**spec: object) -> Nextcloud:
    return Nextcloud.decode({"metadata": {"name": "n" * 100, "namespace": "acme", "uid": "u-1"}, "spec": spec})


def test_only_tenant_fields_are_copied_and_no_selection_fields() -> None:
    found = nextcloud(
        profile="p", poolSelector={"matchLabels": SMALL}, instanceRef={"name": "i"}, version="33", apps=["a"]
    )
    assert tenant_spec(found) == {"version": "33", "apps": ["a"]}


def test_labels_hold_a_name_of_any_length() -> None:
    labels = claim_labels(nextcloud())
    assert max(len(value) for value in labels.values()) <= 63
    assert labels["k8s.bnerd.com/claim-uid"] == "u-1"


def test_the_defaults_of_a_profile_stand_below_the_tenants_fields() -> None:
    found = tenant_intent(
        nextcloud(s3={"bucket": "abc"}), "i", "ns", defaults='{"s3":{"enabled":true,"bucket":"x"},"replicas":2}'
    )
    assert {name: found.spec[name] for name in ("s3", "replicas")} == {
        "s3": {"enabled": True, "bucket": "abc"},
        "replicas": 2,
    }


@pytest.mark.parametrize(
    ("intent", "stored", "paths"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1}, {}, [".a"]),
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}}, [".a.b"]),
        ({"a": {"b": 1}}, {"a": 5}, [".a"]),
        ({"apps": ["x"]}, {"apps": ["x", "y"]}, []),
        ({"apps": ["x"]}, {"apps": ["y"]}, [".apps"]),
        ({"a": ["x"]}, {"a": ["x", "y"]}, [".a"]),
        ({"a": ["x"]}, {"a": ["x"]}, []),
        ({"a": True}, {"a": 1}, [".a"]),
    ],
)
def test_drift_is_what_the_intent_has_and_the_instance_has_not(
    intent: dict[str, object], stored: dict[str, object], paths: list[str]
) -> None:
    assert drifted(intent, stored, sets=(".apps",)) == paths


def test_a_correction_names_paths_and_managers_but_never_values_and_not_ourselves() -> None:
    conflicts = [FieldConflict("kubectl", ".a"), FieldConflict("konverge", ".b")]
    text = drift_message([f".spec.f{number}" for number in range(7)], conflicts, "konverge")
    assert text == "set back .spec.f0, .spec.f1, .spec.f2, .spec.f3, .spec.f4 and 2 more (edited by kubectl)"


def test_more_corrections_in_a_window_than_the_limit_are_a_drift_loop() -> None:
    from konverge.clock import from_rfc3339

    start, second = from_rfc3339("2030-01-01T00:00:00Z"), timedelta(seconds=1)
    corrections = Corrections(2, 600 * second, 60 * second)
    for number in range(3):
        assert corrections.drift_loop("u", start) is None
        corrections.note("u", start + number * second, f"m{number}")
    assert corrections.drift_loop("u", start + 3 * second) == DriftLoop("m2", 59 * second)
    assert corrections.drift_loop("u", start + 601 * second) is None
    assert corrections.drift_loop("other", start) is None


BAD = frozenset(
    [
        "bald",
        "bloody",
        "blue",
        "broke",
        "dead",
        "dirty",
        "drunk",
        "dumb",
        "evil",
        "fat",
        "hot",
        "mad",
        "naked",
        "old",
        "poor",
        "sick",
        "slim",
        "thick",
        "ugly",
        "wet",
    ]
)
"""Adjectives that make a bad pair with some noun."""
RUDE = (
    "anal",
    "arse",
    "ass",
    "cock",
    "crap",
    "cum",
    "damn",
    "dick",
    "hell",
    "kill",
    "nazi",
    "piss",
    "rape",
    "sex",
    "shit",
    "slut",
    "tit",
)
"""Parts of words that no pair may form, at the seam of its two words either."""


def test_name_words_are_50_adjectives_and_50_nouns_without_bad_pairs() -> None:
    assert len(set(ADJECTIVES)) == len(set(NOUNS)) == 50
    for word in (*ADJECTIVES, *NOUNS):
        assert word.isalpha()
        assert word == word.lower()
        assert len(word) <= MAX_WORD
    assert not BAD & {*ADJECTIVES, *NOUNS}
    pairs = [f"{adjective}{noun}" for adjective in ADJECTIVES for noun in NOUNS]
    assert [pair for pair in pairs for word in RUDE if word in pair] == []


def test_a_name_of_the_longest_words_leaves_room_for_derived_names() -> None:
    assert len(name_for("u", 0, ["a" * MAX_WORD], ["b" * MAX_WORD])) < MAX_INSTANCE_NAME
