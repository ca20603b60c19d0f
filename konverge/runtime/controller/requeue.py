"""The requeue decision: from the end of a reconcile to a queue action, a result label and counters.

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
from collections.abc import Iterator
from typing import Any

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
)
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.runtime.apply.conflicts import FieldsHeld

__all__ = ["Action", "RequeueDecision", "requeue_decision"]


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
