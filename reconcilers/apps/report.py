"""From a translation to conditions: which are set, kept or removed, and the effect of a missing Secret.

Guarantees: pure. Ready and Reconciling are always set, so that tools which wait for them find them; Degraded appears with the first
degradation; Stalled and Deleting exist only while True, as kstatus expects (sigs.k8s.io/cli-utils/pkg/kstatus).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from konverge.conditions import Condition, cut_condition, find_condition, truth
from konverge.reconcilers.apps.words import Blocked, Flux, Ready, Reconciling, Suspended, Type
from konverge.reconcilers.shared.helm_release.facts import ConditionValue, Translation
from konverge.reconcilers.shared.helm_release.messages import missing_values
from konverge.reconcilers.shared.helm_release.values import ValuesFrom
from konverge.words import Reason

__all__ = ["ConditionReport", "blocked", "report", "with_missing_values"]

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
"""Reasons of Ready that a later translation must not keep: their cause has ended."""


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """The conditions to set, by type, and the conditions to remove."""

    conditions: Mapping[str, ConditionValue]
    remove: tuple[str, ...] = ()

    def changes(self, before: Sequence[Condition], generation: int) -> bool:
        """Tell whether this report would change any of these conditions, for this generation."""
        if any(find_condition(before, type_) is not None for type_ in self.remove):
            return True
        return any(
            _differs(find_condition(before, type_), value, generation) for type_, value in self.conditions.items()
        )


def _differs(before: Condition | None, value: ConditionValue, generation: int) -> bool:
    return before is None or (before.status, before.reason, before.message, before.observed_generation) != (
        truth(value.status),
        value.reason,
        value.message,
        generation,
    )


def _accepted(value: ConditionValue) -> ConditionValue:
    """Cut a value until the API accepts it: texts of other programs may be too long, and reasons malformed."""
    return ConditionValue(value.status, *cut_condition(value.reason, value.message))


def with_missing_values(translation: Translation, values: ValuesFrom | None) -> Translation:
    """Report missing values before Flux notices them; a release that is suspended or being deleted does not need them."""
    if values is None or not values.lacking or translation.row in {"suspended", "being_deleted"}:
        return translation
    reason = Ready.WAITING_FOR_SECRET if values.kind == "Secret" else Flux.VALUES_ERROR
    return replace(translation, ready=ConditionValue(False, reason, missing_values(values)), rolled_out=False)


def report(translation: Translation, before: Sequence[Condition]) -> ConditionReport:
    """Return the conditions from a translation and the previous conditions."""
    conditions: dict[str, ConditionValue] = {}
    kept = find_condition(before, Type.READY)
    if translation.ready is not None:
        conditions[Type.READY] = translation.ready
    elif kept is None or kept.reason in _NOT_KEPT:
        conditions[Type.READY] = ConditionValue(None, Ready.RECONCILING)
    if translation.reconciling is not None:
        conditions[Type.RECONCILING] = translation.reconciling
    elif find_condition(before, Type.RECONCILING) is None:
        conditions[Type.RECONCILING] = ConditionValue(True, Reconciling.HELM_RELEASE_INSTALLING)
    if translation.degraded is not None:
        conditions[Type.DEGRADED] = translation.degraded
    conditions[Type.SUSPENDED] = translation.suspended or ConditionValue(False, Suspended.ACTIVE)
    conditions[Type.BLOCKED] = ConditionValue(False, Blocked.UNBLOCKED)
    remove = [Type.DELETING]
    if translation.stalled is not None:
        conditions[Type.STALLED] = translation.stalled
    else:
        remove.append(Type.STALLED)
    return ConditionReport({type_: _accepted(value) for type_, value in conditions.items()}, tuple(remove))


def blocked(reason: str, message: str) -> ConditionReport:
    """Return the conditions of a blocked instance: Blocked=True, and Ready=False of the same reason."""
    return ConditionReport(
        {
            Type.READY: _accepted(ConditionValue(False, reason, message)),
            Type.RECONCILING: ConditionValue(False, Reconciling.STABLE),
            Type.BLOCKED: _accepted(ConditionValue(True, reason, message)),
        },
        (Type.DELETING, Type.STALLED),
    )
