"""The conditions of a claim in its two forms: the single condition of v0.12, and the list of v0.14.

Guarantees: pure. `read` is the inverse of `claim_conditions`, so the rules use one condition in both forms. In the form v0.14 a claim that
no pool serves has Ready only, and every other claim has all three types, as Capsule's own tests require. Types beyond these are removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeAlias

from konverge.conditions import Condition, find_condition, truth, with_condition
from konverge.reconcilers.quota.claims.decision import ClaimDecision
from konverge.reconcilers.quota.views import ClaimView
from konverge.reconcilers.quota.words import Message, QuotaCondition, QuotaReason

__all__ = [
    "CONDITION_TYPES",
    "ConditionFields",
    "claim_conditions",
    "condition_fields",
    "conditions_are_current",
    "read",
]

ConditionFields: TypeAlias = tuple[str, bool, str, str]
"""Type, status, reason and message of a condition."""
CONDITION_TYPES: Final = (QuotaCondition.READY, QuotaCondition.EXHAUSTED, QuotaCondition.BOUND)
"""The types of the form v0.14."""

_ALLOCATED = (QuotaReason.IN_USE, QuotaReason.UNUSED)


def condition_fields(decision: ClaimDecision) -> tuple[ConditionFields, ...]:
    """Return the conditions of the form v0.14: Ready, and Exhausted and Bound unless no pool serves the claim yet."""
    ready: ConditionFields = (QuotaCondition.READY, True, QuotaReason.SUCCEEDED, Message.RECONCILED)
    if decision.type == QuotaCondition.ASSIGNED:
        return (ready if decision.status else (QuotaCondition.READY, False, decision.reason, decision.message),)
    if decision.reason in (QuotaReason.POOL_EXHAUSTED, QuotaReason.QUEUE_EXHAUSTED):
        return (
            ready,
            (QuotaCondition.EXHAUSTED, True, decision.reason, decision.message),
            (QuotaCondition.BOUND, False, QuotaReason.FAILED, Message.CAUSES_EXHAUSTIONS),
        )
    return ready, (QuotaCondition.EXHAUSTED, False, QuotaReason.NO_EXHAUSTIONS, Message.CLAIMABLE), _bound(decision)


def _bound(decision: ClaimDecision) -> ConditionFields:
    if decision.bound:
        used = (QuotaReason.IN_USE, Message.USED) if decision.in_use else (QuotaReason.UNUSED, Message.UNUSED)
        return QuotaCondition.BOUND, decision.in_use, *used
    return QuotaCondition.BOUND, False, decision.reason, decision.message


def claim_conditions(claim: ClaimView, decision: ClaimDecision, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions of a claim in the form v0.14; lastTransitionTime changes with the status only."""
    decided = condition_fields(decision)
    types = {type_ for type_, *_ in decided}
    conditions = tuple(condition for condition in claim.conditions if condition.type in types)
    for type_, status, reason, message in decided:
        conditions = with_condition(
            conditions, type_, truth(status), reason, message, generation=claim.generation, now=now
        )
    return conditions


def conditions_are_current(claim: ClaimView, decision: ClaimDecision) -> bool:
    """Whether the stored conditions of the form v0.14 match this decision, no more and no fewer."""
    stored = {(each.type, each.is_true, each.reason, each.message) for each in claim.conditions}
    return stored == set(condition_fields(decision))


def read(conditions: Iterable[Condition]) -> tuple[Condition | None, bool]:
    """Return a list of the form v0.14 as the single condition, and whether pods use the claim."""
    stored = tuple(conditions)
    ready, exhausted, bound = (find_condition(stored, type_) for type_ in CONDITION_TYPES)
    if ready is None:
        return None, False
    if ready.is_false or bound is None:
        return ready.model_copy(update={"type": QuotaCondition.ASSIGNED}), False
    if exhausted is not None and exhausted.is_true:
        return exhausted.model_copy(update={"type": QuotaCondition.BOUND, "status": "False"}), False
    if bound.reason in _ALLOCATED:
        allocated = {"status": "True", "reason": QuotaReason.SUCCEEDED, "message": Message.CLAIMED}
        return bound.model_copy(update=allocated), bound.is_true
    return bound, False
