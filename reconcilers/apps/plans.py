"""Plans of this family: conditions and status, where `lastReconcileTime` moves only with another change."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from konverge.clock import rfc3339
from konverge.crds.apps_v1alpha1 import ApplicationInstance, ApplicationInstanceStatus
from konverge.outcome import Done, Outcome
from konverge.reconcilers.apps.report import ConditionReport
from konverge.runtime import ConditionUpdate, Delete
from konverge.runtime import Plan as AnyPlan

__all__ = ["Plan", "plan_for"]

Plan: TypeAlias = AnyPlan[ApplicationInstanceStatus]
"""A plan for an ApplicationInstance."""


def _changes(before: ApplicationInstanceStatus, draft: ApplicationInstanceStatus) -> bool:
    return any(getattr(before, name) != getattr(draft, name) for name in draft.model_fields_set)


def plan_for(
    instance: ApplicationInstance,
    report: ConditionReport,
    now: datetime,
    *,
    draft: ApplicationInstanceStatus | None = None,
    deletes: tuple[Delete, ...] = (),
    outcome: Outcome | None = None,
) -> Plan:
    """Return a plan with these conditions and this status; `lastReconcileTime` moves only if something else changes."""
    status = ApplicationInstanceStatus() if draft is None else draft
    if (
        report.changes(instance.conditions, instance.generation)
        or _changes(instance.status, status)
        or instance.status.observed_generation != instance.generation
    ):
        status = status.model_copy(update={"last_reconcile_time": rfc3339(now)})
    return AnyPlan(
        deletes=deletes,
        set_conditions=tuple(
            ConditionUpdate(type_, value.status, value.reason, value.message)
            for type_, value in report.conditions.items()
        ),
        remove_conditions=report.remove,
        draft=status,
        outcome=outcome or Done(),
    )
