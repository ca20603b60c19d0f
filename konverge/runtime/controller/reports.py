"""The reports of a controller on its reconciles: the log, the history for `/debug`, the last error and the missing rights.

A missing right to list or watch appears in the informer, a missing right to create, patch or delete in a reconcile. The denial keeps the
controller from being ready until its key reconciles again, or is deleted, or the process no longer leads.

In controller-runtime one missing right keeps every controller from its work: https://github.com/kubernetes-sigs/controller-runtime/issues/1653
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from konverge.client import missing_rule
from konverge.errors import Forbidden, RetryAfter, stack_of
from konverge.keys import Key
from konverge.runtime.controller.requeue import RequeueDecision
from konverge.runtime.observability.history import History, ReconcileLog, ReconcileRecord, takes_debug
from konverge.runtime.observability.readiness import Obstacle
from konverge.words import LogKey

__all__ = ["Denials", "ReconcileReports"]


class Denials:
    """RBAC denials seen by one controller, by key. Constructing it does nothing."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self._by_key: dict[Key, str] = {}
        self._keys: Counter[str] = Counter()
        self._obstacles: dict[str, Obstacle] = {}

    def note(self, key: Key, error: BaseException | None) -> dict[str, Any] | None:
        """Record how a reconcile ended; return the rule that it lacked, None if it lacked none.

        A RetryAfter that was raised from the denial only chooses the delay.
        """
        if isinstance(error, RetryAfter) and isinstance(error.__cause__, Forbidden):
            error = error.__cause__
        rule = missing_rule(error)
        if rule is None:
            self.forget(key)
            return None
        what = json.dumps(rule, sort_keys=True)
        if self._by_key.get(key) != what:
            self.forget(key)
            self._by_key[key] = what
            self._keys[what] += 1
            resource = next(iter(rule.get("resources") or rule.get("nonResourceURLs") or ("",)))
            self._obstacles.setdefault(what, Obstacle(resource, "Forbidden", f"{error}; met by {key}", rule))
            self._changed()
        return rule

    def __len__(self) -> int:
        return len(self._by_key)

    def forget(self, key: Key) -> None:
        """Drop the denial of a key that was reconciled or deleted."""
        what = self._by_key.pop(key, None)
        if what is None:
            return
        self._keys[what] -= 1
        if not self._keys[what]:
            del self._keys[what], self._obstacles[what]
            self._changed()

    def clear(self) -> None:
        """Drop all denials: this process does not reconcile their keys any more, so it would never learn of a right that is granted."""
        self._by_key.clear()
        self._keys.clear()
        if self._obstacles:
            self._obstacles.clear()
            self._changed()

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """One obstacle for each rule that is missing at present."""
        return tuple(self._obstacles.values())


_RACES_IN_A_ROW: Final = 5
"""So many lost races in a row are an error: two writers fight, or a precondition never holds."""


class ReconcileReports:
    """Log, history, last error and denials of one controller. `changed` is called when its obstacles change."""

    def __init__(self, log: Any, changed: Callable[[], None]) -> None:
        self._log = log
        self._debugs = takes_debug(log)
        self.history = History()
        self.denials = Denials(changed)
        self.last_error = ""
        self._races: dict[Key, int] = {}
        """By key: the number of consecutive tries that lost against another write."""

    def reconciled(
        self, log: ReconcileLog, decision: RequeueDecision, record: ReconcileRecord, *, failures: Callable[[Key], int]
    ) -> None:
        """Record and log the end of one reconcile; `failures` returns the consecutive failures of a key."""
        self.history.add(record)
        rule = self.denials.note(record.key, decision.error) if decision.error is not None or self.denials else None
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
        """Drop the key of a deleted object."""
        self._clear_error(key)
        self._races.pop(key, None)
        self.history.forget(key)
        self.denials.forget(key)

    def _clear_error(self, key: Key) -> None:
        if self.last_error.startswith(f"{key}: "):
            self.last_error = ""
