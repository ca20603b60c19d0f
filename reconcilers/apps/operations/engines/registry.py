"""The engines for each type of Operation: one row each. `make generate` writes their names into the CRD (`generate.py`).

Guarantees: a pair of type and engine without a row ends as Accepted=False/CapabilityMissing, with the pairs that exist in its message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from konverge.reconcilers.apps.operations.engines.engine import Engine
from konverge.reconcilers.apps.operations.engines.helm import HelmEngine
from konverge.reconcilers.apps.operations.engines.helm_hook import HelmHookJobEngine
from konverge.reconcilers.apps.operations.engines.job import JobEngine
from konverge.reconcilers.apps.operations.engines.velero.engine import VeleroEngine
from konverge.reconcilers.apps.operations.engines.volsync import VolSyncEngine
from konverge.reconcilers.apps.operations.engines.workflow import WorkflowEngine

__all__ = ["ROWS", "VERBS", "EngineRow", "row_of"]

VERBS: Final = {
    "Backup": "backup",
    "Restore": "restore",
    "Upgrade": "upgrade",
    "Migration": "migration",
    "RunCommand": "runcommand",
    "Runbook": "runbook",
}
"""The verb of each type: a target names its engines in annotations `ops.vworkspace.io/<verb>`."""


@dataclass(frozen=True, slots=True)
class EngineRow:
    """An engine for a type of Operation."""

    type: str
    engine: Engine


_JOB: Final = JobEngine()
_HELM: Final = HelmEngine()
_HOOK: Final = HelmHookJobEngine()
_VELERO: Final = VeleroEngine()
_WORKFLOW: Final = WorkflowEngine()
_VOLSYNC: Final = VolSyncEngine()

ROWS: Final[tuple[EngineRow, ...]] = (
    EngineRow("Backup", _VELERO),
    EngineRow("Restore", _VELERO),
    EngineRow("Runbook", _WORKFLOW),
    EngineRow("Migration", _WORKFLOW),
    EngineRow("RunCommand", _JOB),
    EngineRow("Runbook", _JOB),
    EngineRow("Migration", _JOB),
    EngineRow("Upgrade", _HELM),
    EngineRow("Backup", _VOLSYNC),
    EngineRow("Restore", _VOLSYNC),
    EngineRow("Migration", _HOOK),
    EngineRow("RunCommand", _HOOK),
)


def row_of(type_: str, engine: str, rows: tuple[EngineRow, ...] = ROWS) -> EngineRow | None:
    """Return the row of a type and an engine, None without one."""
    return next((row for row in rows if row.type == type_ and row.engine.name == engine), None)
