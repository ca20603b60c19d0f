"""The decisions: the writes that an allocation still needs, and the status of a claim without a responsible pool.

Guarantees: pure. Only writes that change something are planned. Their order is part of the rules, since the process may be killed between
any two: ResourceQuotas first, then release annotations and claim statuses, the pool's own status last. So the record of a release is
stored before anything is lowered, and the list of claims before a ResourceQuota is raised for them, which the next reconcile does; a claim
is Bound only after its ResourceQuota grants it. A claim that is queued again stays Bound=False/Released while its annotation is set.

The status of a claim has two alternating writers: the pool controller writes it while the claim belongs to a pool that exists and is not
being deleted, otherwise the claim controller does (docs/reference/capsule.md#one-writer). `decide_claim` is the only selection of the
writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from konverge.reconcilers.quota.allocate import PoolAllocation
from konverge.reconcilers.quota.amounts import Amounts
from konverge.reconcilers.quota.assign import Offer, choose
from konverge.reconcilers.quota.claim_conditions import conditions_are_current
from konverge.reconcilers.quota.claim_decision import ASSIGNED, QUEUED, ClaimDecision, failed, unassigned
from konverge.reconcilers.quota.observation import (
    NOWHERE,
    AllocatedClaim,
    ClaimPlace,
    ClaimView,
    PoolObservation,
    PoolRecord,
    PoolView,
    QuotaView,
    claim_hashes,
)
from konverge.reconcilers.quota.parse import PoolFacts
from konverge.reconcilers.quota.queue_order import in_queue_order
from konverge.reconcilers.quota.words import Message, QuotaReason, Semantics, pool_not_found

__all__ = [
    "PoolWrites",
    "decide_claim",
    "defaults_of",
    "offers_in",
    "place_after",
    "plan_writes",
    "record_of",
    "status_is_current",
    "waits_for_new_pool",
]

_NEW_POOL_GRACE: Final = timedelta(seconds=10)
"""How long claims wait for the first status of a new pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWrites:
    """The writes of one reconcile of a pool, in order."""

    applies: Mapping[str, Amounts]
    raises: frozenset[str]
    """The namespaces whose ResourceQuota these applies raise or create: allowed only if the stored pool has the version that was read."""
    deletes: tuple[str, ...]
    spent_releases: tuple[ClaimView, ...]
    claim_statuses: tuple[tuple[ClaimView, ClaimDecision], ...]
    record: PoolRecord


def plan_writes(observed: PoolObservation, allocation: PoolAllocation) -> PoolWrites:
    """Return the writes that bring the cluster to the allocation."""
    applies: dict[str, Amounts] = {}
    raises = set()
    deletes = []
    defaults = defaults_of(observed.pool)
    for namespace, hard in allocation.quotas.items():
        present = observed.quotas.get(namespace)
        if hard is None:
            if present is not None and namespace not in observed.terminating:
                deletes.append(namespace)
        elif namespace not in allocation.reserving and (
            present is None
            or not present.intact
            or dict(present.hard) != hard
            or (
                namespace not in observed.terminating
                and not _annotations_are_current(
                    defaults,
                    present,
                    allocation.claims.get(namespace, ()),
                    allocation.witnesses.get(namespace, {}),
                )
            )
        ):
            applies[namespace] = hard
            if present is None or any(amount > present.hard.get(resource, 0) for resource, amount in hard.items()):
                raises.add(namespace)
    decided = (
        (claim, allocation.decisions[claim.uid])
        for claim in in_queue_order(observed.claims)
        if claim.uid in allocation.decisions
        and not (claim.namespace in allocation.reserving and allocation.decisions[claim.uid].bound)
    )
    return PoolWrites(
        applies=applies,
        raises=frozenset(raises),
        deletes=tuple(deletes),
        claim_statuses=tuple(
            (claim, decision)
            for claim, decision in decided
            if not status_is_current(claim, decision, place_after(claim, decision, observed.pool), observed.semantics)
        ),
        spent_releases=allocation.spent_releases,
        record=record_of(allocation),
    )


def _annotations_are_current(
    defaults: Amounts, quota: QuotaView, entries: tuple[AllocatedClaim, ...], witness: Amounts
) -> bool:
    """Whether the annotations of a ResourceQuota name its claims, defaults and releases; hashes of former claims may remain."""
    return quota.defaults == defaults and claim_hashes(entries) <= quota.claims and quota.releasing == witness


def defaults_of(pool: PoolView) -> Amounts:
    """Return the defaults that a ResourceQuota contains for the pool's resources."""
    defaults = {resource: pool.default(resource) or 0 for resource in sorted(pool.hard)}
    return {resource: amount for resource, amount in defaults.items() if amount}


def record_of(allocation: PoolAllocation) -> PoolRecord:
    """Return the record of an allocation in the pool's status."""
    return PoolRecord(claims=allocation.claims, releasing=allocation.releasing)


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


def status_is_current(
    claim: ClaimView, decision: ClaimDecision, place: ClaimPlace, semantics: str = Semantics.V012
) -> bool:
    """Whether the claim's status shows this decision already, for its present generation."""
    shown = claim.condition
    return (
        shown is not None
        and (shown.type, shown.is_true, shown.reason, shown.message)
        == (decision.type, decision.status, decision.reason, decision.message)
        and (shown.is_true or shown.is_false)
        and shown.observed_generation == claim.generation
        and claim.place == place
        and claim.semantics == semantics
        and claim.in_use == decision.in_use
        and not claim.has_stale_conditions
        and (semantics != Semantics.V014 or conditions_are_current(claim, decision))
    )


# --- claims without a responsible pool ---


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
    place = ClaimPlace(queue=choice.queue.place)
    if choice.offer not in (None, choice.queue):
        place = ClaimPlace(choice.offer.place, choice.queue.place)
    if place == claim.place:
        return None
    return ASSIGNED if choice.offer is not None else QUEUED, place


def offers_in(namespace: str, pools: Iterable[PoolFacts]) -> list[Offer]:
    """Return the offers of the pools that serve a namespace."""
    return [pool.offer for pool in pools if namespace in pool.namespaces and not pool.deleting]


def waits_for_new_pool(claim: ClaimView, pools: Mapping[str, PoolFacts], now: datetime) -> bool:
    """Whether a claim waits for the first status of a new pool, so that manifests applied together always end the same."""
    if claim.pool or (claim.assigned[0] and not claim.needs_new_pool):
        return False
    created = (pool.unseen_since for pool in pools.values() if not pool.deleting and pool.unseen_since is not None)
    return any(now - moment < _NEW_POOL_GRACE for moment in created)
