"""How the status of a claim says what was concluded: the one condition of v0.12, or the list of v0.14.

Promises: pure. `read` gives back what `conditions_of` wrote, so the rules go by one condition whatever the form. In the form v0.14 all
three types are always written, so what each says is told whatever was said before.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

from konverge.conditions import Condition, find_condition, marked, truth
from konverge.reconcilers.quota.seen import ClaimView
from konverge.reconcilers.quota.verdicts import Verdict
from konverge.reconcilers.quota.words import Message, Reason, Type

__all__ = ["Said", "conditions_of", "read", "said_by"]

Said: TypeAlias = tuple[str, bool, str, str]
"""Type, status, reason and message of a condition."""

_ALLOCATED = (Reason.IN_USE, Reason.UNUSED)


def said_by(verdict: Verdict) -> tuple[Said, Said, Said]:
    """Return the conditions Ready, Exhausted and Bound of the form v0.14."""
    assigned = verdict.status if verdict.type == Type.ASSIGNED else True
    exhausted = verdict.reason in (Reason.POOL_EXHAUSTED, Reason.QUEUE_EXHAUSTED)
    ready: Said = (Type.READY, True, Reason.SUCCEEDED, Message.RECONCILED)
    short: Said = (Type.EXHAUSTED, False, Reason.NO_EXHAUSTIONS, Message.CLAIMABLE)
    if not assigned:
        ready = (Type.READY, False, verdict.reason, verdict.message)
    if exhausted:
        short = (Type.EXHAUSTED, True, verdict.reason, verdict.message)
    return ready, short, _bound(verdict, exhausted or verdict.type == Type.ASSIGNED)


def _bound(verdict: Verdict, failed: bool) -> Said:
    if verdict.bound:
        used = (Reason.IN_USE, Message.USED) if verdict.in_use else (Reason.UNUSED, Message.UNUSED)
        return Type.BOUND, verdict.in_use, *used
    return Type.BOUND, False, Reason.FAILED if failed else verdict.reason, verdict.message


def conditions_of(claim: ClaimView, verdict: Verdict, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions of a claim in the form v0.14; the time of each moves with its status alone."""
    conditions = tuple(
        condition for condition in claim.conditions if condition.type in (Type.READY, Type.EXHAUSTED, Type.BOUND)
    )
    for type_, status, reason, message in said_by(verdict):
        conditions = marked(conditions, type_, truth(status), reason, message, generation=claim.generation, now=now)
    return conditions


def read(conditions: Iterable[Condition]) -> tuple[Condition | None, bool]:
    """Return the one condition that conditions of the form v0.14 stand for, and whether they say that the claim is used."""
    stored = tuple(conditions)
    ready, exhausted, bound = (find_condition(stored, type_) for type_ in (Type.READY, Type.EXHAUSTED, Type.BOUND))
    if ready is None or bound is None:
        return None, False
    if ready.is_false:
        return ready.model_copy(update={"type": Type.ASSIGNED}), False
    if exhausted is not None and exhausted.is_true:
        return exhausted.model_copy(update={"type": Type.BOUND, "status": "False"}), False
    if bound.reason in _ALLOCATED:
        allocated = {"status": "True", "reason": Reason.SUCCEEDED, "message": Message.CLAIMED}
        return bound.model_copy(update=allocated), bound.is_true
    return bound, False
