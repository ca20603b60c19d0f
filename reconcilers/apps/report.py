"""From a verdict to conditions: what "keep" keeps, what is removed, what a missing Secret changes.

Promises: pure. Ready and Reconciling are always said, so that tools which wait for them never find nothing; Degraded appears when there
is something to tell; Stalled and Deleting are there only while True, as kstatus wants them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from konverge.conditions import Condition, cut_condition, find_condition, truth
from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.values import ValuesFrom
from konverge.reconcilers.apps.verdict import Say, Verdict
from konverge.reconcilers.apps.words import Blocked, Flux, Ready, Reconciling, Suspended, Type
from konverge.words import Reason

__all__ = ["Report", "blocked", "report", "with_values"]

_NOT_KEPT: Final = frozenset(
    {
        Blocked.MISSING_DEPENDENCIES,
        Blocked.POLICY_DENIED,
        Blocked.VALIDATION_FAILED,
        Ready.WAITING_FOR_SECRET,
        Ready.PLACEHOLDER,
        Ready.HELM_RELEASE_MISSING,
        Reason.RECONCILE_FAILED,
    }
)
"""Reasons of Ready that a later verdict must not keep: what they speak of is over."""


@dataclass(frozen=True, slots=True)
class Report:
    """The conditions to set, by type, and those to remove."""

    says: Mapping[str, Say]
    retract: tuple[str, ...] = ()

    def changes(self, before: Sequence[Condition], generation: int) -> bool:
        """Tell whether this report would change anything of these conditions, for the generation in hand."""
        if any(find_condition(before, type_) is not None for type_ in self.retract):
            return True
        return any(_differs(find_condition(before, type_), say, generation) for type_, say in self.says.items())


def _differs(before: Condition | None, say: Say, generation: int) -> bool:
    return before is None or (before.status, before.reason, before.message, before.observed_generation) != (
        truth(say.status),
        say.reason,
        say.message,
        generation,
    )


def _accepted(say: Say) -> Say:
    """Texts of others may be longer than the API takes, or reasons malformed."""
    return Say(say.status, *cut_condition(say.reason, say.message))


def with_values(verdict: Verdict, values: ValuesFrom | None) -> Verdict:
    """Let missing values speak before Flux notices them; what is suspended or going away does not need them."""
    if values is None or not values.lacking or verdict.row in {"suspended", "being_deleted"}:
        return verdict
    reason = Ready.WAITING_FOR_SECRET if values.kind == "Secret" else Flux.VALUES_ERROR
    return replace(verdict, ready=Say(False, reason, messages.missing_values(values)), rolled_out=False)


def report(verdict: Verdict, before: Sequence[Condition]) -> Report:
    """Return the conditions that a verdict makes of the previous ones."""
    says: dict[str, Say] = {}
    kept = find_condition(before, Type.READY)
    if verdict.ready is not None:
        says[Type.READY] = verdict.ready
    elif kept is None or kept.reason in _NOT_KEPT:
        says[Type.READY] = Say(None, Ready.RECONCILING)
    if verdict.reconciling is not None:
        says[Type.RECONCILING] = verdict.reconciling
    elif find_condition(before, Type.RECONCILING) is None:
        says[Type.RECONCILING] = Say(True, Reconciling.HELM_RELEASE_INSTALLING)
    if verdict.degraded is not None:
        says[Type.DEGRADED] = verdict.degraded
    says[Type.SUSPENDED] = verdict.suspended or Say(False, Suspended.ACTIVE)
    says[Type.BLOCKED] = Say(False, Blocked.UNBLOCKED)
    retract = [Type.DELETING]
    if verdict.stalled is not None:
        says[Type.STALLED] = verdict.stalled
    else:
        retract.append(Type.STALLED)
    return Report({type_: _accepted(say) for type_, say in says.items()}, tuple(retract))


def blocked(reason: str, message: str) -> Report:
    """Return the conditions of an instance that cannot go on: Blocked, with Ready=False of the same reason."""
    return Report(
        {
            Type.READY: _accepted(Say(False, reason, message)),
            Type.RECONCILING: Say(False, Reconciling.STABLE),
            Type.BLOCKED: _accepted(Say(True, reason, message)),
        },
        (Type.DELETING, Type.STALLED),
    )
