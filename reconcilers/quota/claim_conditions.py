"""The conditions of a claim in its two forms: the single condition of v0.12, and the list of v0.14.

Guarantees: pure. `read` is the inverse of `claim_conditions`, so the rules use one condition in both forms. The form v0.14 always has all
three types, so no stale condition remains.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

from konverge.conditions import Condition, find_condition, truth, with_condition
from konverge.reconcilers.quota.claim_decision import ClaimDecision
from konverge.reconcilers.quota.observation import ClaimView
from konverge.reconcilers.quota.words import Message, QuotaCondition, QuotaReason

__all__ = ["ConditionFields", "claim_conditions", "condition_fields", "read"]

ConditionFields: TypeAlias = tuple[str, bool, str, str]
"""Type, status, reason and message of a condition."""

_ALLOCATED = (QuotaReason.IN_USE, QuotaReason.UNUSED)


def condition_fields(decision: ClaimDecision) -> tuple[ConditionFields, ConditionFields, ConditionFields]:
    """Return the conditions Ready, Exhausted and Bound of the form v0.14."""
    assigned = decision.status if decision.type == QuotaCondition.ASSIGNED else True
    exhausted = decision.reason in (QuotaReason.POOL_EXHAUSTED, QuotaReason.QUEUE_EXHAUSTED)
    ready: ConditionFields = (QuotaCondition.READY, True, QuotaReason.SUCCEEDED, Message.RECONCILED)
    short: ConditionFields = (QuotaCondition.EXHAUSTED, False, QuotaReason.NO_EXHAUSTIONS, Message.CLAIMABLE)
    if not assigned:
        ready = (QuotaCondition.READY, False, decision.reason, decision.message)
    if exhausted:
        short = (QuotaCondition.EXHAUSTED, True, decision.reason, decision.message)
    return ready, short, _bound(decision, exhausted or decision.type == QuotaCondition.ASSIGNED)


def _bound(decision: ClaimDecision, failed: bool) -> ConditionFields:
    if decision.bound:
        used = (QuotaReason.IN_USE, Message.USED) if decision.in_use else (QuotaReason.UNUSED, Message.UNUSED)
        return QuotaCondition.BOUND, decision.in_use, *used
    return QuotaCondition.BOUND, False, QuotaReason.FAILED if failed else decision.reason, decision.message


def claim_conditions(claim: ClaimView, decision: ClaimDecision, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions of a claim in the form v0.14; lastTransitionTime changes with the status only."""
    conditions = tuple(
        condition
        for condition in claim.conditions
        if condition.type in (QuotaCondition.READY, QuotaCondition.EXHAUSTED, QuotaCondition.BOUND)
    )
    for type_, status, reason, message in condition_fields(decision):
        conditions = with_condition(
            conditions, type_, truth(status), reason, message, generation=claim.generation, now=now
        )
    return conditions


def read(conditions: Iterable[Condition]) -> tuple[Condition | None, bool]:
    """Return the single condition that a list of the form v0.14 stands for, and whether pods use the claim."""
    stored = tuple(conditions)
    ready, exhausted, bound = (
        find_condition(stored, type_)
        for type_ in (QuotaCondition.READY, QuotaCondition.EXHAUSTED, QuotaCondition.BOUND)
    )
    if ready is None or bound is None:
        return None, False
    if ready.is_false:
        return ready.model_copy(update={"type": QuotaCondition.ASSIGNED}), False
    if exhausted is not None and exhausted.is_true:
        return exhausted.model_copy(update={"type": QuotaCondition.BOUND, "status": "False"}), False
    if bound.reason in _ALLOCATED:
        allocated = {"status": "True", "reason": QuotaReason.SUCCEEDED, "message": Message.CLAIMED}
        return bound.model_copy(update=allocated), bound.is_true
    return bound, False
