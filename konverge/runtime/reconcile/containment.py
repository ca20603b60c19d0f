"""The condition that reports a failed reconcile, so that no object is retried in silence.

Guarantees: pure. An error that says nothing about the object (a server that is down, a conflicting write) is not reported: the retry mends
it. Every other error is, without text that may quote a value: of an exception that is not the library's only its type; of a refusal of the
API server the request, the code and the fields. The message is the same in every retry, so it is written once.
"""

from __future__ import annotations

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

__all__ = ["TOO_DEEP", "clear_failed", "failing", "failure_message", "is_mistake", "report_failure"]

TOO_DEEP = "its values are nested too deeply, or there are more than 100,000; make it flatter and smaller"
_PASSING = (
    Conflict,
    Expired,
    NotFound,
    RetryAfter,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    FieldsHeld,
)
"""The next try may end otherwise, or the reconciler itself says what it waits for."""
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


def failure_message(error: BaseException) -> str | None:
    """Return the message that a status shows for an error, None if it shows none.

    >>> failure_message(ValueError("password=secret"))
    "reconciling failed with ValueError; it is tried again, and the controller's log says where it failed"
    >>> failure_message(Unreachable("no answer")) is None
    True
    """
    if isinstance(error, _PASSING):
        return None
    if isinstance(error, BaseExceptionGroup):
        return next((words for inner in error.exceptions if (words := failure_message(inner)) is not None), None)
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, ApiError):
        return _refusal(error)
    # The message of NotAnOutcome quotes the returned value, which may hold anything.
    if isinstance(error, KonvergeError) and not isinstance(error, NotAnOutcome):
        return f"{error.field}: {error.problem}" if isinstance(error, InvalidObject) else str(error)
    return f"reconciling failed with {type(error).__name__}; {_RETRIED}"


def _refusal(error: ApiError) -> str:
    fields = ", ".join(dict.fromkeys(field for field, _ in error.causes if field))
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
