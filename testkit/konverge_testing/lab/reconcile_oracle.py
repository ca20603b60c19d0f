"""Two oracles on each reconcile of the process under test: work that only a resync did, and errors that nothing reports.

A resync enqueues every object after ten hours. It repairs what a lost event or a swallowed error left undone, so a test that waits long
enough passes.

Guarantees: a reconcile that changes an object is a finding if only the resync triggered it. So is a reconcile that returns Done although
one of its writes failed, unless a condition changes: no condition, no retry and no log line of the runtime reports the error. A write that
the server rejected with 404 or 409 does not count as failed: the state differs from what the reconciler expected, and an event follows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from konverge.keys import Key
from konverge.outcome import Done
from konverge.runtime.observability.record import ReconcileRecord
from konverge.words import Why
from konverge_testing.apiserver.storage import Event
from konverge_testing.lab.allowances import Allowances
from konverge_testing.lab.invariants import place_of

__all__ = ["ReconcileOracle"]

_EXPECTED: Final = (404, 409)


@dataclass(slots=True)
class _Reconcile:
    """One reconcile as it runs."""

    controller: str
    key: Key
    reasons: tuple[str, ...]
    changed: list[str] = field(default_factory=list)
    """The objects that it changed."""
    failed: dict[str, str] = field(default_factory=dict)
    """Its writes that failed and did not succeed later, each with its error."""
    reported: bool = False
    """Whether a condition changed after a write had failed."""

    @property
    def what(self) -> str:
        return f"{self.controller} {self.key.path}"


_RUNNING: ContextVar[_Reconcile | None] = ContextVar("konverge_lab_reconcile", default=None)
"""The reconcile of the current task, or of the task that started it."""


class ReconcileOracle:
    """Judges the reconciles of one run."""

    def __init__(self, allowances: Allowances, report: Callable[[str], None]) -> None:
        self._allowances = allowances
        self._report = report
        self._reported: set[tuple[str, Key]] = set()
        """Keys whose conditions show a failed write."""

    def begins(self, controller: str, key: Key, reasons: tuple[str, ...]) -> None:
        """Called in the task of a reconcile before it begins."""
        _RUNNING.set(_Reconcile(controller, key, reasons))

    def answered(self, what: str, status: int) -> None:
        """Record the response to a write."""
        running = _RUNNING.get()
        if running is not None:
            if status < 400 or status in _EXPECTED:
                running.failed.pop(what, None)
            else:
                running.failed[what] = str(status)

    def broke(self, what: str, error: BaseException) -> None:
        """Record the error of a write without a response."""
        running = _RUNNING.get()
        if running is not None:
            running.failed[what] = type(error).__name__

    def committed(self, event: Event) -> None:
        """Record a commit of the process under test."""
        running = _RUNNING.get()
        if running is None:
            return
        running.changed.append(f"{event.type.lower()} {place_of(event)}")
        if running.failed and not running.reported:
            running.reported = _reports(running.key, event)

    def ends(self, record: ReconcileRecord) -> None:
        """Judge a reconcile that has ended."""
        running = _RUNNING.get()
        _RUNNING.set(None)
        if running is None:
            return
        place = running.controller, running.key
        if running.changed and set(running.reasons) == {Why.RESYNC}:
            self._judge_resync(running)
        if running.failed and record.outcome == Done.__name__:
            if not running.reported and place not in self._reported:
                self._judge_failed(running)
            self._reported |= {place} if running.reported else set()
        else:
            self._reported.discard(place)

    def _judge_resync(self, running: _Reconcile) -> None:
        if not self._allowances.allows_resync_writes(running.key):
            self._report(
                f"{running.what}: only the resync did what was left to do ({_listed(running.changed)}); neither an event nor a retry led "
                "to it, so such work waits for hours. A watch is missing, an event is lost, or an error was swallowed "
                "(lab.may_write_on_resync allows it)"
            )

    def _judge_failed(self, running: _Reconcile) -> None:
        if not self._allowances.allows_silence(running.key):
            errors = _listed([f"{what} failed with {error}" for what, error in running.failed.items()])
            self._report(
                f"{running.what}: {errors}, the reconcile returned Done, and no condition changed: the error is swallowed; let it be "
                "raised, return RequeueAfter, or report it in a condition (lab.may_stay_silent allows it)"
            )


def _listed(items: list[str]) -> str:
    return ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")


def _reports(key: Key, event: Event) -> bool:
    """Return whether a commit changes the conditions of the reconciled object, or its status if it has no conditions."""
    if (event.entry.namespace, event.entry.name) != (key.namespace, key.name):
        return False
    new = event.entry.object()
    if new["kind"] != key.kind.kind:
        return False
    before, after = _conditions(event.previous.object() if event.previous else {}), _conditions(new)
    return bool(before != after)


def _conditions(data: dict[str, Any]) -> Any:
    status = data.get("status")
    if not isinstance(status, dict):
        return None
    return status.get("conditions", status)
