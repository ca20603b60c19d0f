"""The status of a claim: rendered for both of its writers, compared with the stored status, and announced by an Event.

Guarantees: pure. One function renders the status for both writers, so that each writer removes the other's stale fields
(docs/reference/capsule.md#one-writer). lastTransitionTime of the condition changes with type and status, not with the message.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from konverge.conditions import Condition, truth, with_condition, write_conditions
from konverge.reconcilers.quota.claims.conditions import claim_conditions, conditions_are_current
from konverge.reconcilers.quota.claims.decision import ClaimDecision
from konverge.reconcilers.quota.views import ClaimPlace, ClaimView
from konverge.reconcilers.quota.words import EventAction, EventReason, QuotaReason, Semantics
from konverge.words import EventType

__all__ = ["claim_condition", "claim_event", "claim_status", "status_is_current"]


def claim_condition(claim: ClaimView, decision: ClaimDecision, now: datetime) -> Condition:
    """Return the single condition of a claim, in the form v0.12."""
    before = claim.condition if claim.semantics == Semantics.V012 else None
    same = (before,) if before is not None and before.type == decision.type else ()
    (condition,) = with_condition(
        same,
        decision.type,
        truth(decision.status),
        decision.reason,
        decision.message,
        generation=claim.generation,
        now=now,
    )
    return condition


def claim_status(
    claim: ClaimView, decision: ClaimDecision, place: ClaimPlace, now: datetime, semantics: str = Semantics.V012
) -> dict[str, Any]:
    """Return the whole status of a claim in this place."""
    status: dict[str, Any] = {"observedGeneration": claim.generation}
    if semantics == Semantics.V014:
        status["semantics"] = semantics
        status["conditions"] = write_conditions(claim_conditions(claim, decision, now))
    else:
        (status["condition"],) = write_conditions([claim_condition(claim, decision, now)])
        if claim.has_stale_conditions:
            status["conditions"] = []  # the list is atomic: this apply takes it over, and the next apply removes it
    for field, (name, uid) in (("pool", place.pool), ("queue", place.queue)):
        if name:
            status[field] = {"name": name, "uid": uid}
    return status


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


def claim_event(claim: ClaimView, decision: ClaimDecision) -> tuple[str, str, str] | None:
    """Return reason, type and action of the event about a decision; None if only the message or the generation is new."""
    before = claim.condition
    if before is not None and (before.type, before.is_true, before.reason) == (
        decision.type,
        decision.status,
        decision.reason,
    ):
        return None
    if decision.reason == QuotaReason.RELEASED:
        return EventReason.DISASSOCIATED, EventType.NORMAL, EventAction.DISASSOCIATING
    return decision.reason, EventType.NORMAL if decision.status else EventType.WARNING, EventAction.RECONCILED
