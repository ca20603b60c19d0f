"""What an allocation takes: the writes that are still missing, and none that would change nothing.

Promises: pure. The order in which the writes are made is part of the rules, since the process may die between any two: ResourceQuotas
first, then annotations and what claims say, the pool's own status last. A claim says Bound only when its ResourceQuota grants it, and
one that is queued anew says Released for as long as its annotation stands. The record of what is given back is stored before anything
is lowered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from konverge.reconcilers.quota.allocate import Allocation
from konverge.reconcilers.quota.amounts import Amounts
from konverge.reconcilers.quota.seen import (
    NOWHERE,
    ClaimView,
    Entry,
    Ledger,
    Place,
    PoolView,
    QuotaView,
    Seen,
    marks_of,
)
from konverge.reconcilers.quota.verdicts import Verdict
from konverge.reconcilers.quota.words import Reason, Semantics

__all__ = ["Steps", "defaults_of", "ledger_of", "place_by", "says", "steps_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Writes of one pass, in the order in which they are made."""

    applies: Mapping[str, Amounts]
    removes: tuple[str, ...]
    strip: tuple[ClaimView, ...]
    says: tuple[tuple[ClaimView, Verdict], ...]
    ledger: Ledger


def steps_of(seen: Seen, allocation: Allocation) -> Steps:
    """Return what is still to be written."""
    applies: dict[str, Amounts] = {}
    removes = []
    defaults = defaults_of(seen.pool)
    for namespace, hard in allocation.quotas.items():
        present = seen.quotas.get(namespace)
        if hard is None:
            if present is not None and namespace not in seen.ending:
                removes.append(namespace)
        elif (
            present is None
            or not present.intact
            or dict(present.hard) != hard
            or (namespace not in seen.ending and not _noted(defaults, present, allocation.claims.get(namespace, ())))
        ):
            applies[namespace] = hard
    said = (
        (claim, allocation.verdicts[claim.uid])
        for claim in sorted(seen.claims, key=lambda claim: claim.priority)
        if claim.uid in allocation.verdicts
    )
    return Steps(
        applies=applies,
        removes=tuple(removes),
        says=tuple(
            (claim, verdict)
            for claim, verdict in said
            if not says(claim, verdict, place_by(claim, verdict, seen.pool), seen.semantics)
        ),
        strip=allocation.strip,
        ledger=ledger_of(allocation),
    )


def _noted(defaults: Amounts, quota: QuotaView, entries: tuple[Entry, ...]) -> bool:
    """Tell whether a ResourceQuota tells who is allocated and which defaults are in it. Who was allocated before may stand there too."""
    return quota.defaults == defaults and marks_of(entries) <= quota.claims


def defaults_of(pool: PoolView) -> Amounts:
    """Return the defaults that are part of what a ResourceQuota grants of the pool's resources."""
    defaults = {resource: pool.default(resource) or 0 for resource in sorted(pool.hard)}
    return {resource: amount for resource, amount in defaults.items() if amount}


def ledger_of(allocation: Allocation) -> Ledger:
    """Return what the pool's status records of an allocation."""
    return Ledger(claims=allocation.claims, releasing=allocation.releasing)


def place_by(claim: ClaimView, verdict: Verdict, pool: PoolView) -> Place:
    """Return where a verdict of a pool leaves a claim: one that names no pool stands in the queue until it is allocated.

    One that was tried here and found no room goes back to the queue that it stands in.
    """
    if not verdict.kept:
        return NOWHERE
    this = (pool.name, pool.uid)
    if claim.pool or verdict.bound or verdict.reason == Reason.RELEASED:
        return Place(this)
    if claim.queue in (this, NOWHERE.queue):
        return Place(queue=this)
    short = verdict.reason in (Reason.POOL_EXHAUSTED, Reason.QUEUE_EXHAUSTED)
    return Place(queue=claim.queue) if short else Place(this, claim.queue)


def says(claim: ClaimView, verdict: Verdict, place: Place, semantics: str = Semantics.V012) -> bool:
    """Tell whether the claim's status says this already, of its present generation."""
    said = claim.condition
    return (
        said is not None
        and (said.type, said.is_true, said.reason, said.message)
        == (verdict.type, verdict.status, verdict.reason, verdict.message)
        and (said.is_true or said.is_false)
        and said.observed_generation == claim.generation
        and claim.place == place
        and claim.semantics == semantics
        and claim.in_use == verdict.in_use
        and not claim.left_over
    )
