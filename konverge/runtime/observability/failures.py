"""Exceptions that the runtime contained, for a test kit that must not overlook them.

Production code learns of them from logs, metrics and `/debug`; a test would stay green. So a manager has an `observer`, which the lab sets.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from konverge.keys import Key

__all__ = ["Failure", "FailureObserver"]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One contained exception."""

    where: str
    """The code that raised it: the name of a controller, or the part of one ("widget, an event handler")."""
    key: Key
    error: BaseException
    retried: bool = False
    """Whether it ended a reconcile, whose key is retried by backoff."""


class FailureObserver(Protocol):
    """Receives contained exceptions, and may fail a reconcile that returned."""

    def failed(self, failure: Failure) -> None:
        """Called with each contained exception."""

    def reconciled(self, controller: str, key: Key) -> None:
        """Called when a reconcile has ended."""

    def check_reconcile(self) -> None:
        """Called in the task of a reconcile that returned, before its status is written; an exception fails the reconcile."""
