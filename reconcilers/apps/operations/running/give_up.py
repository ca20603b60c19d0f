"""When an Operation is given up: it ends, or releases its target, although its engine reports no end.

    a cancel or spec.timeoutSeconds            the object is stopped: Cancelled, or Failed/Timeout (`Stop`)
    the object is missing for the grace time   Failed/EngineObjectLost (`missing_since`)
    the object may have been removed           Failed/EngineObjectLost, and nothing is created (`may_be_removed`)
    this operator lacks the engine             Failed/EngineObjectLost (`unknown_engine`)
    a right is missing for a minute            the target is released (`right_is_missing_for_long`)

An engine whose controller is silent: engines/silence.py. Guarantees: pure.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from konverge.crds.ops_v1alpha1 import Operation, OperationStatus
from konverge.reconcilers.apps.operations.engines.engine import EngineState, Observation, Rendered
from konverge.reconcilers.apps.operations.moments import moment
from konverge.reconcilers.apps.operations.words import CancelledReason, FailedReason

__all__ = [
    "Stop",
    "cancelled",
    "may_be_removed",
    "missing_since",
    "object_removed",
    "right_is_missing_for_long",
    "unknown_engine",
]

_IN_FLIGHT: Final = timedelta(seconds=60)
"""How long a request may be under way: a `create` of an earlier process, from before the right was taken away, is over after this time."""


class Stop:
    """Whether and why the object has to stop."""

    def __init__(self, operation: Operation, started: datetime, now: datetime) -> None:
        self.started = started
        self.asked = operation.asked_to_cancel or operation.deleting
        self._seconds = operation.spec.timeout_seconds
        limit = None if self._seconds is None else self.started + timedelta(seconds=self._seconds)
        self.late = limit is not None and limit <= now
        self.left = None if limit is None or self.late else limit - now

    @property
    def due(self) -> bool:
        """Whether the object has to stop now."""
        return self.asked or self.late

    def end(self, seen: Observation) -> Observation:
        """Return the end of the Operation: an object that the deadline stopped is Failed/Timeout."""
        if self.asked or not self.late or seen.state is not EngineState.CANCELLED:
            return seen
        message = f"stopped after {self._seconds} s (spec.timeoutSeconds): {seen.message}"
        return replace(seen, state=EngineState.FAILED, reason=FailedReason.TIMEOUT, message=message)


def cancelled(message: str) -> Observation:
    """Return the end of an Operation that a user cancelled."""
    return Observation(EngineState.CANCELLED, CancelledReason.USER_CANCELLED, message)


def missing_since(status: OperationStatus, now: datetime) -> datetime:
    """Return since when the object has been missing: for a grace time only a lagging cache may lack it."""
    return moment(status.engine_missing_since, now, otherwise=now)


def may_be_removed(rendered: Rendered, started: datetime, since: datetime | None, now: datetime) -> bool:
    """Whether a created object may have been removed since, so that its absence proves nothing.

    `since` is the time in the Lease: a status that claims a later start gets no second object.
    """
    return now - (started if since is None else min(since, started)) > rendered.kept


def right_is_missing_for_long(since: datetime, now: datetime) -> bool:
    """Whether a right has been missing for so long that no object can have been created, so that the target is released.

    Nothing is sent once a created object might have been removed again. So a missing object was never created, and after the next start of
    this Operation its first object is created.
    """
    return now - since >= _IN_FLIGHT


def unknown_engine() -> Observation:
    """Return the end of an Operation that another operator started with an engine that this operator lacks."""
    message = "another operator started it with an engine that this one lacks; look for its effects before you repeat the Operation"
    return Observation(EngineState.FAILED, FailedReason.ENGINE_OBJECT_LOST, message)


def object_removed(kind: str, name: str) -> Observation:
    """Return the end of an Operation whose object may have been removed."""
    message = (
        f"{kind} {name} is not there long after its Operation began: it was never made, or it was "
        "made and removed since; look for its effects before you repeat the Operation"
    )
    return Observation(EngineState.FAILED, FailedReason.ENGINE_OBJECT_LOST, message)
