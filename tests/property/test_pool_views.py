"""The views of a pool's instances that followed a random history equal views from scratch, and so do pairings that examine few instances."""

from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.claims.pairing import (
    WaitingClaim,
    assignments,
    candidates,
    matches,
    older_claims,
)
from konverge.reconcilers.pools.members import Member, MemberViews, member_of
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel

NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
POOLS: Final = st.sampled_from(["small", "large"])
HOMES: Final = st.sampled_from(["clouds", "former"])


def compared(views: list[Member]) -> list[Any]:
    return [(view, view.metadata, view.corrections, view.spread) for view in views]


@st.composite
def instances(draw: st.DrawFn, version: int) -> Object:
    uid = draw(st.sampled_from("abcde"))
    labels = {PoolsLabel.POOL: draw(POOLS), PoolsLabel.ASSIGNED: draw(st.sampled_from(["true", "false"]))}
    metadata = {
        "name": f"name-{uid}",
        "namespace": draw(HOMES),
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2029-12-31T00:00:00Z",
        "labels": labels,
        "annotations": draw(st.dictionaries(st.sampled_from([PoolsAnnotation.RELEASED, "other"]), st.just("x"))),
    }
    claim = draw(st.sampled_from([{}, {"claimRef": {"uid": "u"}}]))
    return Object(
        {"metadata": metadata, "spec": claim, "status": {"phase": draw(st.sampled_from(["Ready", "Failed"]))}}
    )


@given(st.data())
def test_views_that_follow_a_history_equal_views_from_scratch(data: st.DataObject) -> None:
    views, stored = MemberViews(), dict[str, Object]()
    for step in range(data.draw(st.integers(1, 6))):
        for place in range(data.draw(st.integers(0, 3))):
            changed = data.draw(instances(10 * step + place))
            stored[changed.metadata.uid] = changed
        for uid in data.draw(st.sets(st.sampled_from("abcde"), max_size=2)):
            stored.pop(uid, None)
        pool, home = data.draw(POOLS), data.draw(HOMES)
        views.settle(pool, home)
        shown = data.draw(st.permutations(sorted(stored)))
        decoded: list[str] = []

        def find(namespace: str, name: str, decoded: list[str] = decoded) -> Object | None:
            decoded.append(name)
            return next((each for each in stored.values() if (each.namespace, each.name) == (namespace, name)), None)

        cached = [stored[uid].metadata for uid in shown]
        scratch = compared([member_of(stored[uid], NOW, home, pool) for uid in shown])
        assert compared(views.of_cached([*cached, *cached[:1]], find, NOW)) == scratch
        del decoded[:]
        assert compared(views.of_cached(cached, find, NOW)) == scratch
        assert decoded == []
        newer = [data.draw(instances(1000 + step)) if data.draw(st.booleans()) else stored[uid] for uid in shown]
        assert compared(views.of_listed(newer, NOW)) == compared([member_of(each, NOW, home, pool) for each in newer])


def admits(instance: Metadata, namespace: str) -> bool:
    """Whether the pool of an instance serves a namespace; an instance without a pool serves none."""
    pool = (instance.annotations or {}).get("pool", "")
    return pool == "all" or (bool(pool) and namespace == pool)


def by_age(instance: Metadata) -> tuple[str, str, str]:
    return (instance.creation_timestamp or "", instance.name, instance.namespace)


def taken_in_order(line: list[WaitingClaim], stock: list[Metadata]) -> list[tuple[str, str]]:
    """Return which claim takes which instance, by an examination of each instance for each claim."""
    pairs, left = [], sorted(stock, key=by_age)
    for claim in sorted(line, key=lambda claim: (claim.created, claim.uid)):
        fitting = [each for each in left if matches(claim.selector, each) and admits(each, claim.namespace)]
        if fitting:
            pairs.append((claim.uid, fitting[0].uid))
            left.remove(fitting[0])
    return pairs


def allowed_to(claim: WaitingClaim, line: list[WaitingClaim], stock: list[Metadata]) -> list[str]:
    """Return the instances that a claim may take, by an examination of all instances."""
    own = [each for each in stock if matches(claim.selector, each) and admits(each, claim.namespace)]
    reserved = {uid for _, uid in taken_in_order(older_claims(claim, line), own)}
    return [each.uid for each in sorted(own, key=by_age) if each.uid not in reserved]


LINES: Final = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["tier=s", "tier=s,zone=x"]), st.sampled_from(["ns", "other"])),
    min_size=1,
    max_size=6,
)
STOCKS: Final = st.lists(
    st.tuples(st.sampled_from([None, "", "1", "2"]), st.booleans(), st.sampled_from(["", "all", "ns"])), max_size=6
)


@given(LINES, STOCKS, st.integers(0, 6))
def test_pairing_equals_an_examination_of_all_claims_and_instances(
    line: list[tuple[int, str, str]], stock: list[tuple[str | None, bool, str]], first: int
) -> None:
    claims = [
        WaitingClaim(str(age), f"c{place}", namespace, f"c{place}", selector)
        for place, (age, selector, namespace) in enumerate(line)
    ]
    ready = [
        Metadata(
            name=f"i{place}",
            namespace="clouds",
            uid=f"i{place}",
            creation_timestamp=created,
            labels={"tier": "s", **({"zone": "x"} if zoned else {})},
            annotations={"pool": pool},
        )
        for place, (created, zoned, pool) in enumerate(stock)
    ]
    pairs = assignments(claims, ready, admits)
    assert [(claim.uid, instance.uid) for claim, instance in pairs] == taken_in_order(claims, ready)
    claim = claims[0]
    expected = allowed_to(claim, claims[1:], ready)
    assert [each.uid for each in candidates(claim, claims[1:], ready, admits)] == expected
    recorded = f"i{first}"
    preferred = sorted(expected, key=lambda uid: uid != recorded)
    assert [each.uid for each in candidates(claim, claims[1:], ready, admits, first=recorded)] == preferred
