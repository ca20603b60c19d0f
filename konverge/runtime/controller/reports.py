"""The account that a controller gives of its reconciles: the log, the history for `/debug`, the last error and the missing rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from konverge.errors import stack_of
from konverge.keys import Key
from konverge.runtime.controller.denials import Denials
from konverge.runtime.controller.requeue import RequeueDecision
from konverge.runtime.observability.history import History, ReconcileLog, ReconcileRecord, takes_debug
from konverge.words import LogKey

__all__ = ["ReconcileReports"]

_RACES_IN_A_ROW: Final = 5
"""So many lost races in a row are an error: two writers fight, or a precondition never holds."""


class ReconcileReports:
    """Keeps what an operator asks about the reconciles of one controller. `changed` is called when its obstacles change."""

    def __init__(self, log: Any, changed: Callable[[], None]) -> None:
        self._log = log
        self._debugs = takes_debug(log)
        self.history = History()
        self.denials = Denials(changed)
        self.last_error = ""
        self._races: dict[Key, int] = {}
        """How many tries of a key in a row found that another write had come first."""

    def reconciled(
        self, log: ReconcileLog, decision: RequeueDecision, record: ReconcileRecord, *, failures: Callable[[Key], int]
    ) -> None:
        """Record and log the end of one reconcile; `failures` counts those of a key in a row."""
        self.history.add(record)
        rule = self.denials.note(record.key, decision.error)
        if (decision.error is not None or self._races) and self._lost_a_race(log, decision, record):
            return
        if decision.failed:
            self.last_error = f"{record.key}: {decision.error}"
            log.bound.error(
                "reconcile failed",
                error=str(decision.error),
                error_type=type(decision.error).__name__,
                next_run=record.next_run,
                failures=failures(record.key),
                **({LogKey.STACK: stack_of(decision.error)} if decision.unexpected else {}),
                **({LogKey.RULE: rule} if rule is not None else {}),
            )
            return
        if self._debugs:
            log.bound.debug(
                "reconciled" if record.writes else "reconciled, nothing to do",
                writes=list(record.writes),
                outcome=record.outcome,
                duration_seconds=round(record.duration, 4),
            )
        if self.last_error and not decision.interrupted:
            self._clear_error(record.key)

    def _lost_a_race(self, log: ReconcileLog, decision: RequeueDecision, record: ReconcileRecord) -> bool:
        """Log a race that is lost once in a while at level debug; a key that loses each of its tries has an error."""
        if not decision.raced:
            self._races.pop(record.key, None)
            return False
        self._races[record.key] = lost = self._races.get(record.key, 0) + 1
        if lost >= _RACES_IN_A_ROW:
            return False
        if self._debugs:
            log.bound.debug(
                "another write came first; it is read, and the object reconciled again",
                error=str(decision.error),
                next_run=record.next_run,
            )
        return True

    def defect(self, key: Key, error: Exception) -> None:
        """Record and log an exception of the runtime itself."""
        self.last_error = f"{key}: {error}"
        self._log.error("the runtime failed on a key", key=key.path, stack=stack_of(error))

    def forget(self, key: Key) -> None:
        """Drop a key that is gone."""
        self._clear_error(key)
        self._races.pop(key, None)
        self.history.forget(key)
        self.denials.forget(key)

    def _clear_error(self, key: Key) -> None:
        if self.last_error.startswith(f"{key}: "):
            self.last_error = ""
