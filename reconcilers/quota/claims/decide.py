"""The decision about a claim without a responsible pool, and the selection of the writer of its status.

Guarantees: pure. The status of a claim has two alternating writers: the pool controller writes it while the claim belongs to a pool that
exists and is not being deleted, otherwise the claim controller does (docs/reference/capsule.md#one-writer). `decide_claim` is the only
selection of the writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from konverge.crds.quota_v1beta2 import GROUP
from konverge.objects import Metadata
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.quota.claims.assign import choose
from konverge.reconcilers.quota.claims.decision import ASSIGNED, QUEUED, ClaimDecision, failed, unassigned
from konverge.reconcilers.quota.claims.observe import ObservedClaim
from konverge.reconcilers.quota.parse import PoolFacts, pool_references
from konverge.reconcilers.quota.views import NOWHERE, ClaimPlace, ClaimView, Offer
from konverge.reconcilers.quota.words import Message, pool_not_found
from konverge.reconcilers.shared.delays import READ_AGAIN

__all__ = ["ClaimStep", "decide", "decide_claim", "offers_in", "owners_without_pools", "waits_for_new_pool"]

_NEW_POOL_GRACE: Final = timedelta(seconds=10)
"""How long claims wait for the first status of a new pool."""


class ClaimStep(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one reconcile of a claim.

    `waits_for` is the pool whose changes trigger another reconcile: "" for any pool, None for no pool. Without `decided` the status is not
    written: a pool writes it, or nothing changes.
    """

    waits_for: str | None = None
    decided: tuple[ClaimDecision, ClaimPlace] | None = None
    outcome: Outcome = msgspec.field(default_factory=Done)


def decide(observed: ObservedClaim, now: datetime) -> ClaimStep:
    """Return the step of a claim."""
    claim = observed.claim
    if claim is None:
        return ClaimStep()
    if waits_for_new_pool(claim, observed.pools, now):
        return ClaimStep(waits_for="", outcome=RequeueAfter(READ_AGAIN))
    decided = decide_claim(claim, observed.pools)
    if decided is None and (claim.pool or claim.assigned[0]):
        return ClaimStep()
    # Without a decision the claim stays in the queue of one pool; another pool may get room for it.
    return ClaimStep(waits_for=claim.pool, decided=decided)


def decide_claim(claim: ClaimView, pools: Mapping[str, PoolFacts]) -> tuple[ClaimDecision, ClaimPlace] | None:
    """Return the decision about a claim and its place; None if the pool controller writes its status."""
    holder = pools.get(claim.assigned[0])
    if holder is not None and holder.deleting and holder.deletes_bound and claim.is_bound_to(holder.name, holder.uid):
        return None  # the pool's finalizer reads this status; a surviving claim is decided after the pool's deletion
    if claim.pool:
        pool = pools.get(claim.pool)
        if pool is None:
            return failed(pool_not_found(claim.pool)), NOWHERE
        return (failed(Message.NOT_AVAILABLE), NOWHERE) if pool.deleting else None
    if claim.place == NOWHERE and any(claim.uid in pool.listed and not pool.deleting for pool in pools.values()):
        return None  # its status was wiped, and its pool restores it
    assigned_pool = pools.get(claim.assigned[0])
    if (
        assigned_pool is not None
        and assigned_pool.uid == claim.assigned[1]
        and not assigned_pool.deleting
        and not claim.needs_new_pool
    ):
        return None
    if claim.problem:
        return failed(claim.problem), NOWHERE
    choice = choose(claim.amounts, offers_in(claim.namespace, pools.values()), claim.formats)
    if choice.queue is None:
        return unassigned(claim.namespace, choice.reasons), NOWHERE
    if choice.place == claim.place:
        return None
    return ASSIGNED if choice.offer is not None else QUEUED, choice.place


def offers_in(namespace: str, pools: Iterable[PoolFacts]) -> list[Offer]:
    """Return the offers of the pools that serve a namespace."""
    return [pool.offer for pool in pools if namespace in pool.namespaces and not pool.deleting]


def waits_for_new_pool(claim: ClaimView, pools: Mapping[str, PoolFacts], now: datetime) -> bool:
    """Whether a claim waits for the first status of a new pool, so that manifests applied together always end the same."""
    if claim.pool or (claim.assigned[0] and not claim.needs_new_pool):
        return False
    created = (pool.unseen_since for pool in pools.values() if not pool.deleting and pool.unseen_since is not None)
    return any(now - moment < _NEW_POOL_GRACE for moment in created)


def owners_without_pools(claim: Metadata) -> dict[str, Any] | None:
    """Return the patch that removes the owner references to pools, which Capsule set; None if the claim has none.

    Source: docs/reference/capsule.md#owner-references.
    """
    places = pool_references(claim, GROUP)
    if not places:
        return None
    kept = [msgspec.to_builtins(owner) for place, owner in enumerate(claim.owner_references) if place not in places]
    return {"metadata": {"ownerReferences": kept or None}}
