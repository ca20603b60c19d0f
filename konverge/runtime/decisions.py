"""How the end of a pass becomes a queue action, a result label and counters.

The table of controller-runtime (`pkg/internal/controller/controller.go`) with our deviations:

    end of the pass               queue                        result          counters besides
    Done                          forget                       success
    RequeueAfter(d)               forget, add after d          requeue_after
    any exception                 add by backoff               error           errors
    RetryAfter(d)                 add after d, not forgotten   error           errors
    Terminal                      forget                       error           errors, terminal
    FieldsHeld                    forget (a change wakes it)   error           errors
    longer than the timeout       add by backoff               error           errors, timeouts
    a group of the library's      as the first that retries    error           as that one
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

from konverge.errors import KonvergeError, NotAnOutcome, ReconcileTimeout, RetryAfter, Terminal
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.runtime.plan import FieldsHeld

__all__ = ["Action", "Verdict", "checked", "judge"]


class Action(enum.Enum):
    """What happens to the key in the queue; `done` is always called besides."""

    FORGET = "forget"
    FORGET_AND_ADD_AFTER = "forget, add after"
    ADD_AFTER = "add after"
    BACK_OFF = "back off"


class Verdict(msgspec.Struct, frozen=True):
    """What the runtime does about the end of one pass."""

    action: Action
    result: str
    delay: float = 0.0
    error: BaseException | None = None
    terminal: bool = False
    timeout: bool = False
    unexpected: bool = False
    """An exception that is none of the library's: a bug of the reconciler, or of something that it called."""

    @property
    def failed(self) -> bool:
        """Whether the pass ended in an error."""
        return self.error is not None


def checked(controller: str, verb: str, returned: Any) -> Outcome:
    """Return what `reconcile` or `finalize` returned; raises NotAnOutcome that names the legal ways to end."""
    if isinstance(returned, Done | RequeueAfter):
        return returned
    raise NotAnOutcome(
        f"{verb} of controller {controller!r} returned {returned!r}, which is no Outcome; end with return Done() or "
        "return RequeueAfter(seconds), or raise: RetryAfter(seconds), Terminal(message), or any exception to back off"
    )


def judge(ended: Outcome | BaseException) -> Verdict:
    """Map the end of a pass to its verdict; see the table of the module."""
    match ended:
        case Done():
            return Verdict(Action.FORGET, "success")
        case RequeueAfter(delay=delay):
            return Verdict(Action.FORGET_AND_ADD_AFTER, "requeue_after", delay)
        case RetryAfter():
            return Verdict(Action.ADD_AFTER, "error", ended.delay, error=ended)
        case Terminal():
            return Verdict(Action.FORGET, "error", error=ended, terminal=True)
        case FieldsHeld():
            return Verdict(Action.FORGET, "error", error=ended)
        case ReconcileTimeout():
            return Verdict(Action.BACK_OFF, "error", error=ended, timeout=True)
        case BaseExceptionGroup() if (leading := _leading(ended)) is not None:
            return judge(leading)
        case _:
            return Verdict(Action.BACK_OFF, "error", error=ended, unexpected=not isinstance(ended, KonvergeError))


def _leading(group: BaseExceptionGroup[Any]) -> BaseException | None:
    """Return the error that decides for a group, which `asyncio.TaskGroup` raises: the first that is retried, else the first.

    None if one of them is not the library's: that one is a bug, and the group is reported whole.
    """
    leaves = list(_leaves(group))
    if not all(isinstance(leaf, KonvergeError) for leaf in leaves):
        return None
    return next((leaf for leaf in leaves if judge(leaf).action is not Action.FORGET), leaves[0])


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
