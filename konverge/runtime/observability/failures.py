"""Exceptions that the runtime contained, for a test kit that must not overlook them.

Production code learns of them from logs, metrics and `/debug`; a test would stay green. So a manager has an `observer`, which the lab sets.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from konverge.keys import Key
from konverge.runtime.observability.record import ReconcileRecord

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

    def reconciling(self, controller: str, key: Key, reasons: tuple[str, ...]) -> None:
        """Called in the task of a reconcile before it begins."""

    def reconciled(self, controller: str, record: ReconcileRecord) -> None:
        """Called in the task of a reconcile that has ended."""

    def check_reconcile(self) -> None:
        """Called in the task of a reconcile that returned, before its status is written; an exception fails the reconcile."""
