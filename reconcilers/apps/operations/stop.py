"""Whether and why a running Operation has to stop, and the reason of its end then. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.engines.engine import EngineState, Observation
from konverge.reconcilers.apps.operations.words import CancelledReason, FailedReason

__all__ = ["Stop", "cancelled"]


class Stop:
    """Whether and why the object has to stop."""

    def __init__(self, operation: Operation, started: datetime, now: datetime) -> None:
        self.started = started
        self.asked = operation.asked_to_cancel or operation.deleting
        self._seconds = operation.spec.timeout_seconds
        limit = None if self._seconds is None else self.started + timedelta(seconds=self._seconds)
        self.late = limit is not None and limit <= now
        self.left = None if limit is None or self.late else limit - now

    def end(self, seen: Observation) -> Observation:
        """Return the end of the Operation: an object that the deadline stopped is Failed/Timeout."""
        if self.asked or not self.late or seen.state is not EngineState.CANCELLED:
            return seen
        message = f"stopped after {self._seconds} s (spec.timeoutSeconds): {seen.message}"
        return replace(seen, state=EngineState.FAILED, reason=FailedReason.TIMEOUT, message=message)


def cancelled(message: str) -> Observation:
    """Return the end of an Operation that a user cancelled."""
    return Observation(EngineState.CANCELLED, CancelledReason.USER_CANCELLED, message)
