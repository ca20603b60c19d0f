"""The failure step: the condition that reports a failed reconcile, so that no object is retried in silence.

Guarantees: an error that does not concern the object (an unreachable server, a conflicting write) is reported only if it repeats
(`FailureStreaks`): usually the retry mends it. Every other error is reported at once, without text that may quote a value: the type of
a foreign exception; request, code and fields of an API error. The message is the same in every retry, so it is written once.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from konverge.conditions import cut_condition, find_condition
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
from konverge.keys import Key
from konverge.outcome import Outcome
from konverge.runtime.apply.conflicts import FieldsHeld
from konverge.runtime.builder.builder import Controller
from konverge.runtime.reconcile.status import StatusEditor
from konverge.words import ConditionType, LogKey, Reason

if TYPE_CHECKING:
    from konverge.runtime.reconcile.context import Context

__all__ = ["TOO_DEEP", "FailureReport", "FailureStreaks", "failure_condition", "failure_message", "is_mistake"]

TOO_DEEP = "its values are nested too deeply, or there are more than 100,000; make it flatter and smaller"
_PASSING = (Conflict, Expired, NotFound, ServerFailure, TooManyRequests, Unauthorized, Unreachable)
"""A retry may succeed."""
_AWAITED = (RetryAfter, FieldsHeld, NotLeading)
"""Errors that name what the reconciler or the runtime waits for."""
_TRIES_BEFORE_REPORT = 5
"""The least number of failed tries in a row after which a passing error is reported."""
_SECONDS_BEFORE_REPORT = 10.0
"""The least time from the first to the last of these tries: five tries take 0.2 s."""
_MOST_KEYS = 10_000
"""The number of keys whose failures are remembered; the key with the oldest failure is dropped first."""
_FIELD = re.compile(r'unknown field "([^"]+)"|((?:\.[^\s:]+)+): field not declared in schema')
_RETRIED = "it is tried again, and the controller's log says where it failed"


def is_mistake(error: BaseException) -> bool:
    """Return whether an error is a mistake of the program: a UsageError, or a foreign exception.

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
    """The number and the duration of each key's failures since its last success; bounded, and only of this process.

    >>> streaks = FailureStreaks()
    >>> [streaks.failed("a", now) for now in (0.0, 0.1, 0.3, 0.7, 5.0, 12.0)]
    [False, False, False, False, False, True]
    >>> streaks.succeeded("a"), streaks.failed("a", 13.0)
    (None, False)
    """

    def __init__(self) -> None:
        self._streaks: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def failed(self, key: Hashable, now: float) -> bool:
        """Count one failure of a key; return whether its failures are many and last long enough to be reported."""
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
        return next((message for message in messages if message is not None), None)
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
    # Only the names of unknown fields are taken from the message: any other quotation may be a value.
    named = (match[1] or match[2] for match in _FIELD.finditer(error.message))
    unknown = ", ".join(f"{field} (the kind has no such field)" for field in dict.fromkeys(named))
    fields = ", ".join(dict.fromkeys(field for field, _ in error.causes if field)) or unknown
    about = f" because of {fields}" if fields else ""
    what = f"{error.status} {error.reason}".strip() or type(error).__name__
    return f"the API server refused {error.request or 'a request'} with {what}{about}; {_RETRIED}"


def failure_condition(spec: Controller[Any]) -> tuple[str, bool]:
    """Return type and status of the condition that reports a failure: Ready False, else the condition of `invalid_as` True, else ""."""
    if ConditionType.READY in (spec.conditions or ()):
        return ConditionType.READY, False
    return (spec.invalid or ("", ""))[0], True


class FailureReport:
    """Reports the failures of one controller in the status of its objects."""

    def __init__(self, spec: Controller[Any]) -> None:
        self._spec = spec
        self._condition = failure_condition(spec)
        self._streaks = FailureStreaks()

    def forget(self, key: Key) -> None:
        """Drop the failures of a key."""
        self._streaks.succeeded(key)

    def message(self, key: Key, error: Exception) -> str | None:
        """Count a failure of the key, and return the message that the status shows for it, None if it shows none."""
        return failure_message(error, repeated=self._streaks.failed(key, asyncio.get_running_loop().time()))

    def report(self, ctx: Context[Any], ended: Outcome | Exception, *, reconciled: bool) -> None:
        """Report a failure, or clear an earlier failure if the object was `reconciled` without an exception."""
        if isinstance(ended, Exception):
            if is_mistake(ended):  # do not trust what it set: a forgotten await may precede the error
                ctx.status.start_over()
            message = self.message(ctx.key, ended)
            if message is not None:
                self.set_failed(ctx, message)
        elif reconciled:
            editor: StatusEditor[Any] = ctx.status
            if self._spec.invalid is not None:
                self._clear_invalid(editor, *self._spec.invalid)
            self._clear_failed(editor)

    def set_failed(self, ctx: Context[Any], message: str) -> None:
        """Report in the status that the reconcile failed."""
        message = cut_condition(Reason.RECONCILE_FAILED, message)[1]
        report = self._spec.failure_report
        if report is None:
            self._set_condition(ctx.status, message)
            return
        try:
            report(ctx.object, ctx, message)
        except Exception as error:  # noqa: BLE001  # user code: its failure must not hide the failure that it reports
            ctx.trace.contained = error
            ctx.log.error("the function of .reports_failure raised", **{LogKey.STACK: stack_of(error)})

    def report_invalid(self, ctx: Context[Any], error: InvalidObject) -> None:
        """Set the conditions of an object that does not decode. Its children stay untouched, and only a change of the object helps."""
        message = f"{error.field}: {error.problem}"
        type_, reason = self._spec.invalid or ("", Reason.VALIDATION_FAILED)
        if type_:
            ctx.status.set_condition(type_, True, reason, message)
        if self._spec.failure_report is not None:
            self.set_failed(ctx, message)
        elif ConditionType.READY in (self._spec.conditions or ()):
            ctx.status.set_condition(ConditionType.READY, False, reason, message)
        ctx.log.warning("a stored object does not decode", error=str(error))

    def _set_condition(self, editor: StatusEditor[Any], message: str) -> None:
        """Set the failure condition, unless the reconciler itself reported a failure in it."""
        type_, status = self._condition
        present = editor.find(type_)
        if not type_ or (editor.was_set(type_) and present is not None and present.is_true is status):
            return
        editor.set_condition(type_, status, Reason.RECONCILE_FAILED, message)

    def _clear_failed(self, editor: StatusEditor[Any]) -> None:
        """Remove the report of an earlier failure, unless this reconcile set the condition."""
        for stale in editor.before:
            if (
                stale.reason == Reason.RECONCILE_FAILED
                and stale.type == self._condition[0]
                and not editor.was_set(stale.type)
            ):
                editor.remove_condition(stale.type)

    def _clear_invalid(self, editor: StatusEditor[Any], type_: str, reason: str) -> None:
        """Reset the runtime's own condition once the object decodes again, unless this reconcile set that condition."""
        stale = find_condition(editor.before, type_)
        if stale is not None and stale.is_true and stale.reason == reason and not editor.was_set(type_):
            editor.set_condition(type_, False, Reason.VALID, "the object decodes again")
