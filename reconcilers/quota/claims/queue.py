"""The queues of pools: when a claim is put in the queue of a pool, its position, and the claims that an older claim blocks.

Guarantees: pure, and total: two claims never share a position, so the order does not depend on the order of the cache
(docs/reference/capsule.md#allocation). A claim that names no pool waits in one queue at most, and keeps its place until it is allocated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from konverge.reconcilers.quota.claims.decision import ClaimDecision
from konverge.reconcilers.quota.views import NOWHERE, ClaimPlace, ClaimView, Offer, PoolView
from konverge.reconcilers.quota.words import QuotaReason

__all__ = ["blocked_by_older", "in_queue_order", "place_after", "position", "queue_to_join"]


def queue_to_join(amounts: Mapping[str, int], candidates: Sequence[Offer]) -> Offer | None:
    """Return the pool to queue at: the first whose hard is large enough.

    A single match is taken even if it is too small, since its hard can be raised.
    """
    matching = [offer for offer in candidates if all(resource in offer.hard for resource in amounts)]
    if len(matching) == 1:
        return matching[0]
    large = (
        offer
        for offer in matching
        if all(amount <= offer.hard[resource].billionths for resource, amount in amounts.items())
    )
    return next(large, None)


def place_after(claim: ClaimView, decision: ClaimDecision, pool: PoolView) -> ClaimPlace:
    """Return the place of a claim after a decision of its pool: a claim that names no pool stays in the queue until it is allocated.

    A claim that was offered to this pool and found no room returns to the queue of the other pool.
    """
    if not decision.kept:
        return NOWHERE
    this = (pool.name, pool.uid)
    if claim.pool or decision.bound or decision.reason == QuotaReason.RELEASED:
        return ClaimPlace(this)
    if claim.queue in (this, NOWHERE.queue):
        return ClaimPlace(queue=this)
    has_no_room = decision.reason in (QuotaReason.POOL_EXHAUSTED, QuotaReason.QUEUE_EXHAUSTED)
    return ClaimPlace(queue=claim.queue) if has_no_room else ClaimPlace(this, claim.queue)


def position(claim: ClaimView) -> tuple[str, str, str]:
    """Return the sort key of a claim: creation time, then name, then namespace; timestamps of the API sort as text."""
    return (claim.created, claim.name, claim.namespace)


def in_queue_order(claims: Iterable[ClaimView]) -> list[ClaimView]:
    """Return the claims, the oldest first."""
    return sorted(claims, key=position)


def blocked_by_older(amounts: Mapping[str, int], waiting: Collection[str]) -> list[str]:
    """Return the requested resources that older claims wait for, sorted: with orderedQueue each of them blocks the claim.

    >>> blocked_by_older({"pods": 1, "cpu": 2, "memory": 0}, {"cpu", "memory"})
    ['cpu']
    """
    return [resource for resource in sorted(amounts) if amounts[resource] and resource in waiting]
