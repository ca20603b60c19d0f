"""The writer of a claim's status, and the pool of a claim without a pool in its spec: docs/reference/capsule.md#assignment,
docs/reference/capsule.md#one-writer.
"""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from quota.amounts import read

from konverge.conditions import Condition
from konverge.errors import UsageError
from konverge.objects import Object
from konverge.reconcilers.quota.amounts import problem_in
from konverge.reconcilers.quota.claims.assign import choose
from konverge.reconcilers.quota.claims.decide import decide_claim, waits_for_new_pool
from konverge.reconcilers.quota.claims.decision import (
    ASSIGNED,
    BOUND,
    ClaimDecision,
    exhausted,
    failed,
    queue_exhausted,
    refused,
    too_many,
)
from konverge.reconcilers.quota.claims.queue import place_after
from konverge.reconcilers.quota.installation import install
from konverge.reconcilers.quota.kinds import POOL
from konverge.reconcilers.quota.parse import PoolFacts, pool_facts
from konverge.reconcilers.quota.pools.observe import belongs
from konverge.reconcilers.quota.views import ClaimPlace, ClaimView, PoolView
from konverge.runtime import Manager, ManagerSettings

CPU = "requests.cpu"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def facts(
    name: str,
    hard: Any = 4,
    available: Any = 4,
    *,
    namespaces: tuple[str, ...] = ("a",),
    deleting: bool = False,
    **more: Any,
) -> PoolFacts:
    metadata: dict[str, Any] = {"name": name, "uid": f"{name}-1", "creationTimestamp": "2029-12-31T23:59:55Z"}
    if deleting:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    status = {
        "observedGeneration": 1,
        "namespaces": list(namespaces),
        "allocation": {"hard": {CPU: hard}, "available": {CPU: available}},
        **more.get("status", {}),
    }
    return pool_facts(POOL.decode({"metadata": metadata, "spec": more.get("spec", {}), "status": status}))


def claim(pool: str = "", cpu: Any = 1, *, assigned: tuple[str, str] = ("", ""), **amounts: Any) -> ClaimView:
    wanted = read({CPU: cpu, **amounts})
    return ClaimView(
        namespace="a", name="c", uid="u", pool=pool, amounts=wanted, problem=problem_in(wanted), assigned=assigned
    )


def said(view: ClaimView, *pools: PoolFacts) -> tuple[str, str, str, str]:
    """Return type, reason, message and the name of the pool."""
    found = decide_claim(view, {pool.name: pool for pool in pools})
    assert found is not None
    decision, place = found
    return decision.type, decision.reason, decision.message, place.name


def test_the_pool_controller_writes_the_status_of_a_claim_whose_pool_exists() -> None:
    assert decide_claim(claim("p"), {"p": facts("p")}) is None
    assert belongs(claim("p"), "p", "p-1")
    assert not belongs(claim("q", assigned=("p", "p-1")), "p", "p-1"), "it has moved on"


def test_claim_with_a_missing_pool_reports_it_in_the_api_message() -> None:
    assert said(claim("sample")) == ("Assigned", "Failed", 'ResourcePool.capsule.clastix.io "sample" not found', "")


def test_a_claim_whose_pool_is_being_deleted_is_not_served() -> None:
    assert said(claim("p"), facts("p", deleting=True)) == ("Assigned", "Failed", "resourcepool not available", "")


def test_an_assigned_claim_belongs_to_its_pool_while_the_pool_exists() -> None:
    given = claim(assigned=("p", "p-1"))
    assert decide_claim(given, {"p": facts("p"), "b": facts("b")}) is None
    assert belongs(given, "p", "p-1")
    assert not belongs(given, "p", "p-2"), "another pool of that name"
    assert said(given, facts("p", deleting=True), facts("b"))[3] == "b"
    assert said(replace(given, assigned=("p", "older")), facts("p"), facts("b"))[3] == "b"


def test_a_waiting_claim_that_is_edited_after_its_assignment_is_assigned_again() -> None:
    """For example its pool was removed. An allocated claim cannot be edited, and a claim that names its pool belongs to that pool."""
    waits = Condition(type="Bound", status="False", reason="PoolExhausted", observed_generation=1)
    edited = replace(claim(assigned=("p", "p-1")), condition=waits, generation=2)
    assert not belongs(edited, "p", "p-1")
    assert said(edited, facts("p", available=0), facts("q"))[3] == "q"
    assert said(edited, facts("p", available=0))[2:] == ("Queued at the pool", "p")
    for unmoved in (
        replace(edited, generation=1),
        replace(edited, pool="p"),
        replace(edited, condition=None),
        replace(edited, condition=Condition(type="Bound", status="True", reason="Succeeded", observed_generation=1)),
    ):
        assert belongs(unmoved, "p", "p-1")
        assert decide_claim(unmoved, {"p": facts("p"), "q": facts("q")}) is None


def test_install_rejects_a_manager_that_sees_one_namespace_only() -> None:
    """Such a cache would show the claims of all other namespaces as deleted."""
    with pytest.raises(UsageError, match="without a namespace"):
        install(Manager("konverge", settings=ManagerSettings(namespace="web")))


@pytest.mark.parametrize("seed", range(50))
def test_x16_a_claim_without_a_pool_is_always_given_the_same(seed: int) -> None:
    pools = [facts(name) for name in ("zebra", "ant", "bee")]
    Random(seed).shuffle(pools)
    assert said(claim(), *pools) == ("Assigned", "Succeeded", "Assigned to the pool", "ant")


def test_a_pool_without_room_or_resource_or_namespace_is_passed_over() -> None:
    full, foreign, ends = facts("a", available=0), facts("b", namespaces=("other",)), facts("c", deleting=True)
    fits = facts("z")
    assert said(claim(), full, foreign, ends, fits)[3] == "z"
    assert said(claim(pods=1), full, fits)[1:3] == (
        "Unassigned",
        "a: resource pods is not available in pool a; z: resource pods is not available in pool z",
    )


@pytest.mark.parametrize(
    ("asked", "pools", "queue"),
    [
        pytest.param(3, [("p", 4, 0)], "p", id="the only pool"),
        pytest.param(9, [("p", 4, 0)], "p", id="the only pool, although its hard is smaller"),
        pytest.param(3, [("b", 4, 0), ("a", 4, 1), ("c", 9, 2)], "a", id="the lowest-named of those large enough"),
        pytest.param(3, [("a", 2, 2), ("b", 4, 0), ("c", 9, 2)], "b", id="not one whose hard can never satisfy it"),
        pytest.param(3, [("a", 4, 0), ("b", 4, 3)], "b", id="not a queue at all where another pool has room"),
        pytest.param(9, [("a", 4, 0), ("b", 4, 3)], "", id="none that could ever satisfy it"),
        pytest.param(3, [], "", id="none that serves its namespace"),
    ],
)
def test_claim_without_a_pool_queues_at_the_pool_it_would_bind(
    asked: int, pools: list[tuple[str, int, int]], queue: str
) -> None:
    found = decide_claim(claim(cpu=asked), {name: facts(name, hard, available) for name, hard, available in pools})
    assert found is not None
    assert found[1].name == queue
    assert (found[0].reason == "Unassigned") == (not queue)


def test_queued_claim_belongs_to_its_queues_pool_until_another_has_room() -> None:
    waits = replace(claim(cpu=3), queue=("p", "p-1"))
    assert belongs(waits, "p", "p-1")
    assert not belongs(waits, "p", "p-2"), "another pool of that name"
    assert decide_claim(waits, {"p": facts("p", available=0), "q": facts("q", available=1)}) is None
    found = decide_claim(waits, {"p": facts("p", available=0), "q": facts("q", available=3)})
    assert found == (ASSIGNED, ClaimPlace(("q", "q-1"), ("p", "p-1"))), "it is tried there, and keeps its place here"
    assert said(waits, facts("p", deleting=True), facts("q", available=1))[2:] == ("Queued at the pool", "q")


@pytest.mark.parametrize(
    ("decision", "left"),
    [
        (BOUND, ClaimPlace(("q", "q-1"))),
        (exhausted(["x"]), ClaimPlace(queue=("p", "p-1"))),
        (queue_exhausted(["x"]), ClaimPlace(queue=("p", "p-1"))),
        (refused("x"), ClaimPlace(("q", "q-1"), ("p", "p-1"))),
        (too_many(5), ClaimPlace(("q", "q-1"), ("p", "p-1"))),
        (failed("x"), ClaimPlace()),
    ],
    ids=("allocated", "no room after all", "behind another", "its quota refused", "no room in the list", "not served"),
)
def test_claim_offered_to_a_full_pool_returns_to_its_queue_place(decision: ClaimDecision, left: ClaimPlace) -> None:
    tried = replace(claim(cpu=3), assigned=("q", "q-1"), queue=("p", "p-1"))
    pool = PoolView(name="q", uid="q-1", hard={})
    assert place_after(tried, decision, pool) == left
    assert belongs(tried, "q", "q-1")
    assert belongs(tried, "p", "p-1"), "it holds its place there meanwhile"
    assert not tried.is_offered_elsewhere(pool)
    assert decide_claim(tried, {"p": facts("p", available=0), "q": facts("q", available=3)}) is None


def test_message_names_the_shortage_of_each_pool_if_none_could_fit() -> None:
    ordered = facts(
        "q",
        status={"exhaustions": {CPU: {"available": "4", "requesting": "9"}}},
        spec={"config": {"orderedQueue": True}},
    )
    assert said(claim(cpu=5), facts("p", available="500m"), ordered) == (
        "Assigned",
        "Unassigned",
        "p: requested: requests.cpu=5, available: requests.cpu=500m; q: requested: requests.cpu=5, queued: requests.cpu=9",
        "",
    )
    assert said(claim())[2] == "no ResourcePool selects namespace a"


def test_an_invalid_claim_without_a_pool_fails_and_is_not_assigned() -> None:
    assert said(claim(cpu=-1), facts("p")) == ("Assigned", "Failed", "requests.cpu: must not be negative", "")


def test_a_request_for_nothing_fits_a_pool_that_is_full() -> None:
    choice = choose(read({CPU: 0}), [facts("p", available=0).offer])
    assert choice.offer is not None
    assert ASSIGNED.message == "Assigned to the pool"


def test_claim_waits_for_a_new_pools_status_for_limited_time() -> None:
    fresh = pool_facts(
        POOL.decode({"metadata": {"name": "n", "uid": "n-1", "creationTimestamp": "2029-12-31T23:59:55Z"}, "spec": {}})
    )
    pools = {"n": fresh, "p": facts("p")}
    assert waits_for_new_pool(claim(), pools, NOW)
    assert not waits_for_new_pool(claim(), pools, NOW + timedelta(seconds=6))
    assert not waits_for_new_pool(claim("p"), pools, NOW)
    assert fresh.namespaces == frozenset()


def test_a_damaged_status_of_a_pool_offers_nothing() -> None:
    damaged = Object(
        {
            "metadata": {"name": "p"},
            "status": {"namespaces": [7, "a"], "allocation": {"hard": {CPU: "much"}, "available": [1]}},
        }
    )
    found = pool_facts(damaged)
    assert (found.offer.hard, found.offer.available, found.namespaces) == ({}, {}, frozenset({"a"}))


def test_allocated_claim_of_a_dying_pool_is_left_to_its_finalizer() -> None:
    bound = Condition(type="Bound", status="True", reason="Succeeded", observed_generation=1)
    dying = facts("p", deleting=True)
    for view in (claim("p", assigned=("p", "p-1")), claim(assigned=("p", "p-1"))):
        allocated = replace(view, condition=bound)
        assert decide_claim(allocated, {"p": replace(dying, deletes_bound=True)}) is None
        assert said(allocated, dying)[3] == "", "a pool that lets its claims live"
        assert said(view, replace(dying, deletes_bound=True))[3] == "", "a claim that waits"
