"""The longest admitted input, and input stored before the rules existed, still gives statuses that the API accepts."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from quota.world import DryWorld, Rq

from konverge.conditions import MAX_MESSAGE, truth, with_condition, write_conditions
from konverge.crds import crd
from konverge.crds.quota_v1beta2 import MAX_AMOUNT, MAX_RESOURCES, ResourcePool, ResourcePoolClaim
from konverge.objects import Object
from konverge.reconcilers.quota.claims.assign import choose
from konverge.reconcilers.quota.claims.decision import ClaimDecision, exhausted, failed, refused, unassigned
from konverge.reconcilers.quota.claims.queue import place_after
from konverge.reconcilers.quota.claims.status import claim_status, status_is_current
from konverge.reconcilers.quota.metrics import claim_series, pool_series
from konverge.reconcilers.quota.parse import claim_view, pool_view, quota_view
from konverge.reconcilers.quota.pools.render import pool_conditions, pool_status
from konverge.reconcilers.quota.views import NOWHERE, AllocatedClaim, ClaimView, Offer, PoolRecord
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.validating import value_errors

ETCD = 1_572_864
NOW = datetime(2030, 1, 1, tzinfo=UTC)
RESOURCES = [f"requests.example.com/{number:03}{'r' * 40}" for number in range(MAX_RESOURCES)]
LONGEST = "999999999999999999999999." + "9" * (MAX_AMOUNT - 25)
HUGE = ["1e100", "9" * MAX_AMOUNT, "1e309", "1e999", "-1e400", "1e2000", "." + "0" * 62 + "1"]


def longest_name(name: str, most: int) -> str:
    return name + "x" * (most - len(name))


def pool_of(hard: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, **config: bool) -> ResourcePool:
    spec = {"quota": {"hard": dict(hard)}, "defaults": dict(defaults or {}), "config": config}
    return ResourcePool.decode({"metadata": {"name": "p" * 63, "uid": "p-1"}, "spec": spec})


def claim_of(name: str, namespace: str, amounts: Mapping[str, Any], uid: str) -> ClaimView:
    metadata = {"name": name, "namespace": namespace, "uid": uid, "generation": 1}
    return claim_view(Object({"metadata": metadata, "spec": {"pool": "p" * 63, "claim": dict(amounts)}}))


def problems(kind: Any, status: Mapping[str, Any]) -> list[str]:
    """Return the API server's errors about this status."""
    schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    return [str(error) for error in value_errors(Node(schema), dict(status))]


def check(world: DryWorld) -> dict[str, Any]:
    """Run a reconcile, and check each status and metric that it would write; returns the status of the pool."""
    world.once()  # lists the claims; the next reconcile grants them
    seen = world.see()
    world.once()
    allocation = world.last
    assert allocation is not None
    marks = pool_conditions(seen.pool, allocation, dict.fromkeys(seen.selected, "x" * MAX_MESSAGE))
    status: dict[str, Any] = pool_status(seen.pool, allocation, tuple(sorted(seen.selected))).wire()
    status["conditions"] = write_conditions(
        with_condition((), mark.type, truth(mark.status), mark.reason, mark.message, generation=1, now=NOW)[0]
        for mark in marks
    )
    assert problems(ResourcePool, status) == []
    assert len(json.dumps(status, separators=(",", ":"))) < ETCD
    assert pool_series(seen.pool, allocation, marks)
    for claim in seen.claims:
        decision = allocation.decisions[claim.uid]
        assert (
            problems(ResourcePoolClaim, claim_status(claim, decision, place_after(claim, decision, seen.pool), NOW))
            == []
        )
        assert claim_series(claim, decision, seen.pool.name)
    return status


def world_of(pool: ResourcePool, *namespaces: str, claims: list[ClaimView]) -> DryWorld:
    world = DryWorld(pool_view(pool), *namespaces)
    world.claims = {(claim.namespace, claim.name): claim for claim in claims}
    return world


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("amount", [LONGEST, "1e24", *HUGE])
def test_no_amount_in_a_claim_prevents_the_pools_status_write(amount: str, ordered: bool) -> None:
    pool = pool_of({"requests.memory": "4Gi", "limits.memory": "1E", "pods": 3}, orderedQueue=ordered)
    names = ("requests.memory", "limits.memory", "pods")
    claims = [claim_of(f"c{number}", "a", dict.fromkeys(names, amount), f"u{number}") for number in range(20)]
    good = claim_of("a-good", "b", {"requests.memory": "1Gi"}, "g")  # the first in its queue
    world = world_of(pool, "a", "b", claims=[*claims, good])
    status = check(world)
    assert status["allocation"]["used"]["requests.memory"] == "1Gi"
    assert world.said("b", "a-good") == "Bound Succeeded: Claimed resources"


def test_a_claim_with_amounts_that_no_status_can_show_fails_alone() -> None:
    claims = [
        claim_of("huge", "a", {"requests.memory": "1e400"}, "1"),
        claim_of("c", "b", {"requests.memory": "3Gi"}, "2"),
    ]
    world = world_of(pool_of({"requests.memory": "4Gi"}), "a", "b", claims=claims)
    status = check(world)
    assert world.said("a", "huge") == "Assigned Failed: requests.memory: must be at most 1e24"
    assert world.said("b", "c") == "Bound Succeeded: Claimed resources"
    assert status["exhaustions"] == {}


def test_longest_resources_amounts_and_names_fill_and_empty_a_pool_within_limits() -> None:
    pool = pool_of(dict.fromkeys(RESOURCES, "1e24"), dict.fromkeys(RESOURCES, "1e24"), defaultsZero=True)
    amounts = dict.fromkeys(RESOURCES, "1" * 20 + "." + "1" * (MAX_AMOUNT - 21))
    spaces = [longest_name(f"n{number}-", 63) for number in range(60)]
    claims = [
        claim_of(longest_name(f"c{number}", 253), space, amounts, f"{number:036}")
        for number, space in enumerate(spaces)
    ]
    world = world_of(pool, *spaces, claims=claims)
    world.held = dict  # type: ignore[method-assign]  # the rule that it checks is another test's, and its sums are slow here
    status = check(world)
    assert 40 < status["claimCount"] < 60
    assert [mark for mark in status["conditions"] if mark["type"] == "Ready"]
    for path, claim in world.claims.items():
        world.claims[path] = replace(claim, release=True)
    world.once()
    assert len(check(world)["releasing"]) > 40


def test_foreign_keys_in_a_resource_quota_do_not_block_pool_status() -> None:
    world = world_of(
        pool_of({"requests.memory": "4Gi"}), "a", claims=[claim_of("c", "a", {"requests.memory": "1Gi"}, "1")]
    )
    check(world)
    quota = Object({"metadata": {"name": "q"}, "spec": {"hard": {"requests.memory": "1e300"}}})
    view = quota_view(quota, pool_of({}))
    world.quotas["a"] = Rq(dict(view.hard), dict(view.hard), {"requests.memory": view.hard["requests.memory"]})
    for _ in range(3):
        status = check(world)
    assert status["releasing"]["a"]["requests.memory"] == "2e24"


def test_pool_status_lists_as_many_used_resources_as_fit() -> None:
    world = world_of(pool_of({"pods": 9}), "a", claims=[])
    kept = [
        claim_of(f"c{number}", "a", {f"count/r{number}-{n}": 1 for n in range(200)}, f"u{number}")
        for number in range(5)
    ]
    world.claims = {(claim.namespace, claim.name): claim for claim in kept}
    world.record = PoolRecord(
        claims={"a": tuple(AllocatedClaim(claim.name, claim.uid, claim.amounts) for claim in kept)}
    )
    used = check(world)["allocation"]["used"]
    assert (len(used), used["pods"]) == (512, "0")


@pytest.mark.parametrize(
    "decision",
    [
        failed("x" * 50_000),
        refused("x" * 50_000),
        exhausted(["x" * 30_000, "y" * 30_000]),
        unassigned("web", [(f"pool-{number}", "x" * 250) for number in range(500)]),
    ],
)
def test_message_fits_a_condition_and_an_equal_claim_is_not_rewritten(decision: ClaimDecision) -> None:
    claim = claim_of("c", "a", {}, "1")
    status = claim_status(claim, decision, NOWHERE, NOW)
    assert problems(ResourcePoolClaim, status) == []
    assert len(status["condition"]["message"]) == MAX_MESSAGE
    stored = Object({"metadata": {"name": "c", "namespace": "a", "generation": 1}, "status": status})
    assert status_is_current(claim_view(stored), decision, NOWHERE)


def test_200_unknown_resources_of_250_characters_are_named_within_the_limit() -> None:
    claim = claim_of("c", "a", {f"{number:03}{'k' * 247}": 1 for number in range(200)}, "1")
    world = world_of(pool_of({"pods": 9}), "a", claims=[claim])
    check(world)
    assert world.said("a", "c").startswith("Assigned Failed: resource 000kkk")
    choice = choose(claim.amounts, [Offer(name="solar", hard={}, available={})])
    assert problems(ResourcePoolClaim, claim_status(claim, unassigned("a", choice.reasons), NOWHERE, NOW)) == []
