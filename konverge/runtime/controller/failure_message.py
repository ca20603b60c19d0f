"""The message of a failed reconcile in the status of its object, and when a status shows one. Pure.

Guarantees: an error that does not concern the object (an unreachable server, a conflicting write) is reported only if it repeats:
usually the retry mends it. Every other error is reported at once, without text that may quote a value: the type of
a foreign exception; request, code and fields of an API error. The message is the same in every retry, so it is written once.
"""

from __future__ import annotations

import re

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
)
from konverge.runtime.apply.conflicts import FieldsHeld

__all__ = ["TOO_DEEP", "failure_message", "is_mistake"]

TOO_DEEP = "its values are nested too deeply, or there are more than 100,000; make it flatter and smaller"
_PASSING = (Conflict, Expired, NotFound, ServerFailure, TooManyRequests, Unauthorized, Unreachable)
"""A retry may succeed."""
_AWAITED = (RetryAfter, FieldsHeld, NotLeading)
"""Errors that name what the reconciler or the runtime waits for."""
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
