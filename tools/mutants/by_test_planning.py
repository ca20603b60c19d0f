"""Planted faults of `konverge plan`, each with the test that finds it. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["PLANNING"]

ROOM: Final = "konverge.planning."
PLAN: Final = "tests/unit/planning/test_plan.py::"

PLANNING: Final = (
    Mutant(
        "plan-stores",
        "a plan sends writes that the server stores",
        ROOM + "writes",
        "dry_run_of",
        "(*(pair for pair in request.params if pair[0] != 'dryRun'), ('dryRun', 'All'))",
        "request.params",
        test=PLAN + "test_a_plan_stores_no_object_event_lease_or_status",
    ),
    Mutant(
        "plan-shows-secrets",
        "a plan shows the values of Secrets",
        ROOM + "report",
        "_change_of",
        "_blanked(fields) if shown.get('kind') == 'Secret' else fields",
        "fields",
        test=PLAN + "test_values_of_secrets_are_blanked",
    ),
    Mutant(
        "plan-waits",
        "a delay ends in a plan",
        ROOM + "gate",
        "PlanGate._only_time_passed",
        "bool(reasons) and all((reason.startswith(_BY_TIME) for reason in reasons))",
        "False",
        test=PLAN + "test_no_delay_passes_in_a_plan",
    ),
    Mutant(
        "plan-calls-outside",
        "a plan calls a reconciler with effects outside Kubernetes",
        ROOM + "gate",
        "PlanGate.admit",
        "self.spec.outside and self.spec.stand_in is None",
        "False",
        test=PLAN + "test_effects_outside_kubernetes_are_not_tried",
    ),
    Mutant(
        "plan-forgets-the-chain",
        "watches of a plan show no planned change",
        ROOM + "watching",
        "PlannedWatch._line",
        "not self._selected.target.covers(event.object_id)",
        "True",
        test=PLAN + "test_another_controller_reconciles_a_planned_child",
    ),
)
