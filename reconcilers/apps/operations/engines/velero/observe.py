"""The status of a Backup or Restore in the terms of an Operation, by the table in docs/reference/velero.md#phases.

Only `status.phase` decides. The number of items does not show the end (two phases follow it), and a phase without "PartiallyFailed" in
its name promises nothing: an asynchronous operation can still fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.reconcilers.apps.operations.engines.engine import EngineState, Observation
from konverge.reconcilers.apps.operations.engines.texts import counted, excerpt
from konverge.reconcilers.apps.operations.words import CancelledReason, FailedReason, RunningReason, SucceededReason

__all__ = ["NOT_BEGUN", "observe"]

NOT_BEGUN: Final = frozenset({"", "New", "Queued", "ReadyToStart"})
"""A deletion in one of these phases stops the object before it has any effect."""

_FAILURES: Final = {
    "Failed": FailedReason.ENGINE_FAILED,
    "FailedValidation": FailedReason.VALIDATION_FAILED,
    "PartiallyFailed": FailedReason.PARTIALLY_FAILED,
}
_ENDS: Final = frozenset({"Completed", "Deleting", *_FAILURES})
"""Any other phase counts as running: a later Velero may have more phases."""
_RUNNING_WITH_ERRORS: Final = frozenset({"WaitingForPluginOperationsPartiallyFailed", "FinalizingPartiallyFailed"})

_UNSEEN: Final = timedelta(minutes=2)
"""After this time an empty phase is worth a hint. The server reads its queue once a minute, and Restores wait for each other."""


def observe(
    child: Mapping[str, Any],
    *,
    outputs: Mapping[str, str],
    tolerate: bool,
    asked_to_cancel: bool,
    started: datetime,
    now: datetime,
) -> Observation:
    """Translate a Backup or Restore. `tolerate`: PartiallyFailed is a success."""
    status: Mapping[str, Any] = child.get("status") or {}
    phase = str(status.get("phase") or "")
    if phase in NOT_BEGUN:
        return _waiting(child, status, phase, outputs, now - started)
    counts = {**outputs, **_counts(status)}
    if phase not in _ENDS:
        late = "; Velero cannot stop it, its end is awaited" if asked_to_cancel else ""
        reason = RunningReason.RUNNING_WITH_ERRORS if phase in _RUNNING_WITH_ERRORS else RunningReason.ENGINE_STARTED
        return Observation(EngineState.RUNNING, reason, f"{phase}{_progress(status)}{late}", outputs)
    if phase == "Completed" or (phase == "PartiallyFailed" and tolerate):
        late = "; it had begun before it was cancelled" if asked_to_cancel else ""
        return Observation(
            EngineState.SUCCEEDED, SucceededReason.ENGINE_COMPLETED, f"{phase}{_trouble(status)}{late}", counts
        )
    if phase == "Deleting":
        if asked_to_cancel:
            return Observation(
                EngineState.CANCELLED, CancelledReason.USER_CANCELLED, "the Backup is being deleted", outputs
            )
        return Observation(
            EngineState.FAILED, FailedReason.BACKUP_DELETED, "the Backup is being deleted from its location", outputs
        )
    return Observation(EngineState.FAILED, _FAILURES[phase], _failure(status, phase), counts)


def _waiting(
    child: Mapping[str, Any], status: Mapping[str, Any], phase: str, outputs: Mapping[str, str], waited: timedelta
) -> Observation:
    position = status.get("queuePosition")
    if phase:
        message = f"{phase} at position {position} of Velero's queue" if position else phase
        return Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, message, outputs)
    message = f"Velero has not begun {'to look at ' if child.get('kind') == 'Backup' else ''}it"
    if waited < _UNSEEN:
        left = _UNSEEN - max(waited, timedelta(0))
        return Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, message, outputs, recheck_after=left)
    hint = (
        "is its server running, and is the ttl of every Backup in the API a Go duration? One with days stops them all"
        if child.get("kind") == "Backup"
        else "is its server running, or does another Restore run?"
    )
    return Observation(
        EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, f"{message} for minutes; {hint}", outputs
    )


def _number(status: Mapping[str, Any], *path: str) -> int:
    value: Any = status
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) else 0


def _items(status: Mapping[str, Any]) -> int:
    return _number(status, "progress", "itemsBackedUp") or _number(status, "progress", "itemsRestored")


def _progress(status: Mapping[str, Any]) -> str:
    total = _number(status, "progress", "totalItems")
    return f", {_items(status)} of {counted(total, 'item')}" if total else ""


def _counts(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the counts of an end as outputs; the warnings are the only sign of changed objects that a Restore did not overwrite."""
    counts = {"itemCount": _items(status), "warnings": _number(status, "warnings"), "errors": _number(status, "errors")}
    texts = {name: str(count) for name, count in counts.items() if count or name == "itemCount"}
    return {**texts, **({"expiration": str(status["expiration"])} if status.get("expiration") else {})}


def _trouble(status: Mapping[str, Any]) -> str:
    errors, warnings = _number(status, "errors"), _number(status, "warnings")
    parts = [counted(errors, "error")] if errors else []
    parts += [counted(warnings, "warning")] if warnings else []
    return f" with {' and '.join(parts)}" if parts else ""


def _failure(status: Mapping[str, Any], phase: str) -> str:
    if phase == "FailedValidation":
        return excerpt("; ".join(str(entry) for entry in status.get("validationErrors") or ()) or phase)
    if phase == "PartiallyFailed":
        return f"{phase}{_trouble(status)}; its log in the object store names them (`velero backup logs`, `velero restore logs`)"
    return excerpt(status.get("failureReason") or phase)
