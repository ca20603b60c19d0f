"""The condition that reports a failed reconcile, so that no object is retried in silence.

Guarantees: pure. An error that says nothing about the object (a server that is down, a conflicting write) is reported only if it repeats
(`FailureStreaks`): usually the retry mends it. Every other error is reported at once, without text that may quote a value: of an exception
that is not the library's only its type; of a refusal of the API server the request, the code and the fields. The message is the same in
every retry, so it is written once.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from konverge.conditions import cut_condition
from konverge.errors import (
    ApiError,
    Conflict,
    Expired,
    InvalidObject,
    KonvergeError,
    NotAnOutcome,
    NotFound,
    NotLeading,
    NotOurs,
    RetryAfter,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    UsageError,
    stack_of,
)
from konverge.runtime.apply.conflicts import FieldsHeld
from konverge.runtime.builder.builder import Controller
from konverge.runtime.reconcile.status import StatusEditor
from konverge.words import ConditionType, LogKey, Reason

if TYPE_CHECKING:
    from konverge.runtime.reconcile.context import Context

__all__ = ["TOO_DEEP", "FailureStreaks", "clear_failed", "failing", "failure_message", "is_mistake", "report_failure"]

TOO_DEEP = "its values are nested too deeply, or there are more than 100,000; make it flatter and smaller"
_PASSING = (Conflict, Expired, NotFound, ServerFailure, TooManyRequests, Unauthorized, Unreachable)
"""The next try may end otherwise."""
_AWAITED = (RetryAfter, FieldsHeld, NotLeading)
"""The reconciler or the runtime itself says what it waits for."""
_TRIES_BEFORE_REPORT = 5
"""The least number of failed tries in a row after which a passing error is reported."""
_SECONDS_BEFORE_REPORT = 10.0
"""The least time from the first to the last of these tries: five tries are over within 0.2 s."""
_MOST_KEYS = 10_000
"""Keys whose failures are remembered; the key that has failed longest is dropped first."""
_FIELD = re.compile(r'unknown field "([^"]+)"|((?:\.[^\s:]+)+): field not declared in schema')
_RETRIED = "it is tried again, and the controller's log says where it failed"


def is_mistake(error: BaseException) -> bool:
    """Return whether an error is one of the program: a UsageError, or an exception that is none of the library's.

    NotOurs is a UsageError that depends on which objects exist, so it is not one.

    >>> is_mistake(KeyError("x")), is_mistake(Unreachable("x"))
    (True, False)
    >>> is_mistake(ExceptionGroup("", [Unreachable("x"), TypeError()])), is_mistake(ExceptionGroup("", [Unreachable("x")]))
    (True, False)
    """
    if isinstance(error, BaseExceptionGroup):
        return any(is_mistake(inner) for inner in error.exceptions)
    return not isinstance(error, KonvergeError) or (isinstance(error, UsageError) and not isinstance(error, NotOurs))


class FailureStreaks:
    """How often, and for how long, each key has failed without a success in between. Bounded; it says nothing of an earlier process.

    >>> streaks = FailureStreaks()
    >>> [streaks.failed("a", now) for now in (0.0, 0.1, 0.3, 0.7, 5.0, 12.0)]
    [False, False, False, False, False, True]
    >>> streaks.succeeded("a"), streaks.failed("a", 13.0)
    (None, False)
    """

    def __init__(self) -> None:
        self._streaks: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def failed(self, key: Hashable, now: float) -> bool:
        """Count one failure of a key; return whether its failures are many, and last long enough to be reported."""
        since, tries = self._streaks.get(key, (now, 0))
        self._streaks[key] = (since, tries + 1)
        if len(self._streaks) > _MOST_KEYS:
            self._streaks.popitem(last=False)
        return tries + 1 >= _TRIES_BEFORE_REPORT and now - since >= _SECONDS_BEFORE_REPORT

    def succeeded(self, key: Hashable) -> None:
        """Drop the failures of a key."""
        self._streaks.pop(key, None)


def failure_message(error: BaseException, *, repeated: bool = False) -> str | None:
    """Return the message that a status shows for an error, None if it shows none; `repeated`: the same key failed again and again.

    >>> failure_message(ValueError("password=secret"))
    "reconciling failed with ValueError; it is tried again, and the controller's log says where it failed"
    >>> failure_message(Unreachable("no answer")) is None, failure_message(Unreachable("no answer"), repeated=True)
    (True, 'no answer; it is tried again')
    """
    if isinstance(error, _AWAITED) or (isinstance(error, _PASSING) and not repeated):
        return None
    if isinstance(error, BaseExceptionGroup):
        messages = (failure_message(inner, repeated=repeated) for inner in error.exceptions)
        return next((words for words in messages if words is not None), None)
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, ApiError):
        return _refusal(error)
    if isinstance(error, Unreachable):
        return f"{error}; it is tried again"
    # The message of NotAnOutcome quotes the returned value, which may hold anything.
    if isinstance(error, KonvergeError) and not isinstance(error, NotAnOutcome):
        return f"{error.field}: {error.problem}" if isinstance(error, InvalidObject) else str(error)
    return f"reconciling failed with {type(error).__name__}; {_RETRIED}"


def _refusal(error: ApiError) -> str:
    # Of a message only the names of fields that the kind does not have: what else it quotes may be a value.
    named = (found[1] or found[2] for found in _FIELD.finditer(error.message))
    unknown = ", ".join(f"{field} (the kind has no such field)" for field in dict.fromkeys(named))
    fields = ", ".join(dict.fromkeys(field for field, _ in error.causes if field)) or unknown
    about = f" because of {fields}" if fields else ""
    what = f"{error.status} {error.reason}".strip() or type(error).__name__
    return f"the API server refused {error.request or 'a request'} with {what}{about}; {_RETRIED}"


def failing(spec: Controller[Any]) -> tuple[str, bool]:
    """Return the condition that tells of a failure ("": none does), and its status: Ready False, else the one of `invalid_as` True."""
    if ConditionType.READY in (spec.conditions or ()):
        return ConditionType.READY, False
    return (spec.invalid or ("", ""))[0], True


def report_failure(spec: Controller[Any], ctx: Context[Any], words: str | None) -> None:
    """Report in the status that the reconcile failed; None reports nothing."""
    if words is None:
        return
    words = cut_condition(Reason.RECONCILE_FAILED, words)[1]
    if spec.failure_report is None:
        _mark_failed(ctx.status, failing(spec), words)
        return
    try:
        spec.failure_report(ctx.object, ctx, words)
    except Exception as error:  # noqa: BLE001  # user code: its failure must not hide the one that it reports
        ctx.trace.contained = error
        ctx.log.error("the function of .reports_failure raised", **{LogKey.STACK: stack_of(error)})


def _mark_failed(editor: StatusEditor[Any], telling: tuple[str, bool], words: str) -> None:
    """Set the condition that tells of a failure, unless the reconcile said itself what is wrong."""
    type_, status = telling
    said = editor.find(type_)
    if not type_ or (editor.was_set(type_) and said is not None and said.is_true is status):
        return
    editor.set_condition(type_, status, Reason.RECONCILE_FAILED, words)


def clear_failed(editor: StatusEditor[Any], telling: tuple[str, bool]) -> None:
    """Take back what `report_failure` said, unless this reconcile judged that condition itself."""
    for stale in editor.before:
        if stale.reason == Reason.RECONCILE_FAILED and stale.type == telling[0] and not editor.was_set(stale.type):
            editor.remove_condition(stale.type)
