"""The aftermath of a reconcile: its requeue decision, its log lines and its place in the history.

The table of controller-runtime (`pkg/internal/controller/controller.go`) with our deviations:

    end of the reconcile          queue                        result          counters besides
    Done                          forget                       success
    RequeueAfter(d)               forget, add after d          requeue_after
    any exception                 add by backoff               error           errors
    RetryAfter(d)                 add after d, not forgotten   error           errors
    Terminal                      forget                       error           errors, terminal
    FieldsHeld                    forget (a change wakes it)   error           errors
    longer than the timeout       add by backoff               error           errors, timeouts
    a group of the library's      as its first retried error   error           as that error
    behind the fence (NotLeading) add by backoff               -
    cancelled (stop)              nothing                      -

Unlike controller-runtime a terminal error forgets the limiter, and an error with a delay of its own is one outcome instead of a
result beside an error.

Source: https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/internal/controller/controller.go. A result beside an error is
ignored there: https://github.com/kubernetes-sigs/controller-runtime/issues/808
"""

from __future__ import annotations

import enum
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from konverge.errors import (
    AlreadyExists,
    Conflict,
    KonvergeError,
    NotFound,
    NotLeading,
    ReconcileTimeout,
    RetryAfter,
    Terminal,
    stack_of,
)
from konverge.keys import Key
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.runtime.apply.conflicts import FieldsHeld
from konverge.runtime.controller.denials import Denials
from konverge.runtime.observability.record import ReconcileRecord
from konverge.runtime.reconcile.trace import ReconcileLog
from konverge.words import LogKey

__all__ = ["Action", "History", "ReconcileReports", "RequeueDecision", "requeue_decision"]


_RACES = (AlreadyExists, Conflict)
"""Every 409 except a conflict of field managers, which no retry resolves."""


class Action(enum.Enum):
    """The action on the key in the queue; `done` is always called besides."""

    FORGET = "forget"
    FORGET_AND_ADD_AFTER = "forget, add after"
    ADD_AFTER = "add after"
    BACK_OFF = "back off"


class RequeueDecision(msgspec.Struct, frozen=True):
    """The reaction of the runtime to the end of one reconcile."""

    action: Action
    result: str
    delay: float = 0.0
    error: BaseException | None = None
    terminal: bool = False
    timeout: bool = False
    unexpected: bool = False
    """A foreign exception: a bug of the reconciler or of its libraries."""
    interrupted: bool = False
    """The process lost its leadership, and the cancellation of the reconcile is on its way: nothing is counted."""

    @property
    def failed(self) -> bool:
        """Whether the reconcile ended in an error."""
        return self.error is not None

    @property
    def raced(self) -> bool:
        """Whether another write preceded it, which the next try reads: optimistic locking at work, an error only if it persists."""
        if self.error is None:
            return False
        error = self.error.__cause__ if isinstance(self.error, RetryAfter) else self.error
        return isinstance(error, _RACES) or (isinstance(self.error, RetryAfter) and isinstance(error, NotFound))


def requeue_decision(ended: Outcome | BaseException) -> RequeueDecision:
    """Return the decision for the end of a reconcile; see the table of the module."""
    match ended:
        case Done():
            return RequeueDecision(Action.FORGET, "success")
        case RequeueAfter(delay=delay):
            return RequeueDecision(Action.FORGET_AND_ADD_AFTER, "requeue_after", delay)
        case RetryAfter():
            return RequeueDecision(Action.ADD_AFTER, "error", ended.delay, error=ended)
        case Terminal():
            return RequeueDecision(Action.FORGET, "error", error=ended, terminal=True)
        case FieldsHeld():
            return RequeueDecision(Action.FORGET, "error", error=ended)
        case ReconcileTimeout():
            return RequeueDecision(Action.BACK_OFF, "error", error=ended, timeout=True)
        case NotLeading():
            return RequeueDecision(Action.BACK_OFF, "", interrupted=True)
        case BaseExceptionGroup() if (leading := _leading(ended)) is not None:
            return requeue_decision(leading)
        case _:
            return RequeueDecision(
                Action.BACK_OFF, "error", error=ended, unexpected=not isinstance(ended, KonvergeError)
            )


def _leading(group: BaseExceptionGroup[Any]) -> BaseException | None:
    """Return the error that decides for a group of `asyncio.TaskGroup`: the first retried error, else the first error.

    None if one of them is not the library's: such an error is a bug, and the group is reported whole.
    """
    leaves = list(_leaves(group))
    if not all(isinstance(leaf, KonvergeError) for leaf in leaves):
        return None
    return next((leaf for leaf in leaves if requeue_decision(leaf).action is not Action.FORGET), leaves[0])


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


_KEPT = 5
"""Reconciles of one key that are kept."""
_RACES_IN_A_ROW: Final = 5
"""So many lost races in a row are an error: two writers fight, or a precondition never holds."""


class History:
    """The last reconciles of up to `keys` keys and the last `recent` of all; the oldest are dropped first."""

    def __init__(self, *, keys: int = 2000, recent: int = 50) -> None:
        self._limit = keys
        self._by_key: OrderedDict[Key, tuple[ReconcileRecord, ...]] = OrderedDict()
        self._recent: deque[ReconcileRecord] = deque(maxlen=recent)

    def add(self, record: ReconcileRecord) -> None:
        """Add one reconcile."""
        self._recent.append(record)
        # A tuple: the garbage collector skips a tuple of untracked records, and would traverse a deque of each key.
        self._by_key[record.key] = (*self._by_key.get(record.key, ())[1 - _KEPT :], record)
        self._by_key.move_to_end(record.key)
        if len(self._by_key) > self._limit:
            self._by_key.popitem(last=False)

    def forget(self, key: Key) -> None:
        """Drop the key of a deleted object."""
        self._by_key.pop(key, None)

    def of(self, key: Key) -> tuple[ReconcileRecord, ...]:
        """Return the last reconciles of a key, oldest first."""
        return self._by_key.get(key, ())

    def recent(self) -> tuple[ReconcileRecord, ...]:
        """Return the last reconciles of all keys, oldest first."""
        return tuple(self._recent)


class ReconcileReports:
    """Log, history, last error and denials of one controller. `changed` is called when its obstacles change."""

    def __init__(self, log: Any, changed: Callable[[], None]) -> None:
        self._log = log
        self._debugs = _takes_debug(log)
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
        rule = (
            self.denials.note(record.key, decision.error) if decision.error is not None or self.denials.by_key else None
        )
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


def _takes_debug(log: Any) -> bool:
    """Return whether lines of level debug are written, so that they are not formatted in vain; True if that is unknown."""
    asked = getattr(log, "is_enabled_for", None)
    return asked is None or bool(asked(logging.DEBUG))
