"""The steps of the two reconcilers as data: what a claim waits for, what a finalizer deletes, and when a pool pauses for a rival."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from konverge.conditions import Condition
from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.objects import Metadata
from konverge.outcome import RequeueAfter
from konverge.quantities import Quantity
from konverge.reconcilers.quota.claims.decide import ClaimStep, decide
from konverge.reconcilers.quota.claims.decision import QUEUED, failed
from konverge.reconcilers.quota.claims.observe import ObservedClaim
from konverge.reconcilers.quota.kinds import CLAIM, RESOURCE_QUOTA
from konverge.reconcilers.quota.parse import PoolFacts
from konverge.reconcilers.quota.pools.decide import plan_finalize
from konverge.reconcilers.quota.pools.observe import PoolRemains
from konverge.reconcilers.quota.pools.rival import WrittenStatuses
from konverge.reconcilers.quota.views import NOWHERE, ClaimPlace, ClaimView, Offer
from konverge.reconcilers.quota.words import pool_not_found
from konverge.reconcilers.shared.delays import READ_AGAIN
from konverge.runtime import Delete

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BOUND = Condition(type="Bound", status="True", reason="Succeeded", message="", observed_generation=1)


def claim(name: str = "c", **fields: Any) -> ClaimView:
    return ClaimView(namespace="a", name=name, uid=f"{name}-1", amounts={"pods": 1}, **fields)


def facts(**fields: Any) -> PoolFacts:
    hard = {"pods": Quantity.of(7)}
    offer = Offer(name="p", uid="p-1", hard=hard, available={})
    return PoolFacts(**{"name": "p", "uid": "p-1", "deleting": False, "offer": offer, "namespaces": {"a"}, **fields})


@pytest.mark.parametrize(
    ("view", "pool", "step"),
    [
        pytest.param(None, facts(), ClaimStep(), id="a claim that the cache lacks"),
        pytest.param(
            claim(),
            facts(unseen_since=NOW - timedelta(seconds=9)),
            ClaimStep(waits_for="", outcome=RequeueAfter(READ_AGAIN)),
            id="a pool without a status",
        ),
        pytest.param(claim(pool="p"), facts(), ClaimStep(), id="a pool that writes the status"),
        pytest.param(
            claim(pool="other"),
            facts(),
            ClaimStep(waits_for="other", decided=(failed(pool_not_found("other")), NOWHERE)),
            id="a pool that does not exist",
        ),
        pytest.param(
            claim(),
            facts(),
            ClaimStep(waits_for="", decided=(QUEUED, ClaimPlace(queue=("p", "p-1")))),
            id="a pool without room",
        ),
        pytest.param(claim(queue=("p", "p-1")), facts(), ClaimStep(waits_for=""), id="the queue of a pool"),
    ],
)
def test_a_claim_waits_for_the_pool_that_could_change_its_status(
    view: ClaimView | None, pool: PoolFacts, step: ClaimStep
) -> None:
    assert decide(ObservedClaim(view, {"p": pool}), NOW) == step


def stored_pool(*, deletes: bool) -> ResourcePool:
    entry = {"name": "listed", "namespace": "a", "uid": "listed-1", "claims": {"pods": "1"}}
    return ResourcePool.decode(
        {
            "apiVersion": "capsule.clastix.io/v1beta2",
            "kind": "ResourcePool",
            "metadata": {"name": "p", "uid": "p-1"},
            "spec": {"quota": {"hard": {"pods": 7}}, "config": {"deleteBoundResources": deletes}},
            "status": {"claims": {"a": [entry]}},
        }
    )


@pytest.mark.parametrize(("deletes", "names"), [(True, ["bound", "listed"]), (False, [])])
def test_a_finalizer_deletes_allocated_claims_only_if_the_spec_requests_it(deletes: bool, names: list[str]) -> None:
    remains = PoolRemains(
        claims=(
            claim("bound", assigned=("p", "p-1"), condition=BOUND),
            claim("queued", queue=("p", "p-1")),
            claim("of-an-earlier-pool", assigned=("p", "p-0"), condition=BOUND),
        ),
        quotas=(
            Metadata(name="q", namespace="a", uid="q-1"),
            Metadata(name="q", namespace="b", uid="q-2", deletion_timestamp="2030-01-01T00:00:00Z"),
        ),
    )
    claims, quotas = plan_finalize(stored_pool(deletes=deletes), remains)
    assert claims == tuple(Delete(CLAIM, name, "a", uid=f"{name}-1") for name in names)
    assert quotas == (Delete(RESOURCE_QUOTA, "q", "a", uid="q-1"),)


def test_a_pool_pauses_while_another_process_overwrites_its_status() -> None:
    written = WrittenStatuses()
    assert written.pause("p", ("theirs",), 0.0) == 0.0
    written.remember("p", ("ours",), 10.0)
    assert [written.pause("p", ("ours",), 10.0), written.pause("p", ("theirs",), 10.1)] == [0.0, pytest.approx(0.15)]
    assert written.pause("p", ("theirs",), 10.25) == 0.0
    written.forget("p")
    assert written.pause("p", ("theirs",), 10.1) == 0.0
