"""Which Operations exclude each other on one target, and the order in the queue for the target.

The matrix is symmetric. A Restore excludes everything but commands; upgrades and migrations exclude each other and restores; a command
marked `exclusive` excludes everything. Backups run in parallel, also with an upgrade.

Only Operations that have started block others. Of the waiting Operations the oldest starts first (creationTimestamp, then UID). A younger
Operation waits for it for `PATIENCE` after the last event that could have let it start, and no longer, so that an Operation that cannot
start blocks no other.

Guarantees: pure. Source: docs/reference/operations.md#order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.clock import from_rfc3339
from konverge.objects import Object
from konverge.reconcilers.apps.operations.words import BlockedReason, OpCondition

__all__ = [
    "PATIENCE",
    "TERMINAL",
    "Contestant",
    "blocker",
    "conflicting",
    "contestant_of",
    "first_in_line",
    "is_behind",
]

TERMINAL: Final = frozenset({"Succeeded", "Failed", "Cancelled"})
"""The final phases."""

PATIENCE: Final = timedelta(seconds=30)
"""How long a waiting Operation may take to start before a younger Operation overtakes it."""

_CHANGES: Final = frozenset({"Upgrade", "Migration"})
_COMMANDS: Final = frozenset({"RunCommand", "Runbook"})


def conflicting(first: str, second: str, *, exclusive: bool = False) -> bool:
    """Tell whether Operations of these types exclude each other; `exclusive`: one of them excludes everything.

    >>> conflicting("Backup", "Restore"), conflicting("Backup", "Upgrade"), conflicting("Migration", "Upgrade")
    (True, False, True)
    """
    if exclusive:
        return True
    if first in _COMMANDS or second in _COMMANDS:
        return False
    return "Restore" in (first, second) or (first in _CHANGES and second in _CHANGES)


@dataclass(frozen=True, slots=True)
class Contestant:
    """The properties of an Operation that decide the order on its target."""

    uid: str
    name: str
    type: str
    exclusive: bool = False
    created: datetime | None = None
    started: bool = False
    finished: datetime | None = None
    """When it ended; None while it has not."""
    waits_for_turn: bool = False
    """At its last reconcile nothing but a conflict kept it from starting, or it was not reconciled yet."""
    waits_for_window: bool = False
    """At its last reconcile nothing but a maintenance window kept it from starting."""

    @property
    def order(self) -> tuple[str, str]:
        """The place in the queue."""
        return ("" if self.created is None else self.created.isoformat(), self.uid)

    def excludes(self, other: Contestant) -> bool:
        """Tell whether the two must not run at once."""
        return self.uid != other.uid and conflicting(self.type, other.type, exclusive=self.exclusive or other.exclusive)


def is_exclusive(spec: Mapping[str, Any]) -> bool:
    """Tell whether a command excludes everything else."""
    parameters = spec.get("parameters")
    return isinstance(parameters, dict) and parameters.get("exclusive") is True


def _moment(text: Any) -> datetime | None:
    try:
        return from_rfc3339(text) if isinstance(text, str) else None
    except ValueError:
        return None


def contestant_of(operation: Object) -> Contestant:
    """Read an Operation, decoded or not."""
    spec, status, metadata = operation.spec, operation.status, operation.metadata
    blocked = operation.find_condition(OpCondition.BLOCKED)
    phase = status.get("phase")
    unseen = operation.find_condition(OpCondition.ACCEPTED) is None and blocked is None
    in_line = unseen or (
        blocked is not None and blocked.status == "True" and blocked.reason == BlockedReason.CONFLICTING_OPERATION
    )
    finished = phase in TERMINAL
    waits = not finished and not metadata.deleting and not spec.get("cancel")
    return Contestant(
        uid=metadata.uid,
        name=metadata.name,
        type=str(spec.get("type", "")),
        exclusive=is_exclusive(spec),
        created=metadata.created,
        started=bool(status.get("startedAt")) and not finished,
        finished=(_moment(status.get("finishedAt")) or metadata.created) if finished else None,
        waits_for_turn=in_line and waits,
        waits_for_window=waits
        and blocked is not None
        and blocked.is_true
        and blocked.reason == BlockedReason.OUTSIDE_MAINTENANCE_WINDOW,
    )


def blocker(mine: Contestant, others: Iterable[Contestant]) -> Contestant | None:
    """Return the oldest Operation that has started, has not ended, and excludes this Operation."""
    running = [other for other in others if other.started and other.finished is None and mine.excludes(other)]
    return min(running, key=lambda other: other.order, default=None)


def _older(mine: Contestant, others: Iterable[Contestant]) -> list[Contestant]:
    return [
        other
        for other in others
        if other.waits_for_turn and not other.started and mine.excludes(other) and other.order < mine.order
    ]


def is_behind(mine: Contestant, others: Iterable[Contestant]) -> bool:
    """Tell whether an older Operation that excludes this Operation waits as well."""
    return bool(_older(mine, others))


def first_in_line(
    mine: Contestant, others: Iterable[Contestant], now: datetime, *, ended: Callable[[], Iterable[Contestant]] = tuple
) -> tuple[Contestant, timedelta] | None:
    """Return an older Operation that this Operation waits for, and for how long at most; None if this Operation is the next.

    `ended` returns the Operations of the target that have ended; it is called only if there is an older Operation.
    """
    older = _older(mine, others)
    if not older:
        return None
    first = min(older, key=lambda other: other.order)
    moments = [other.finished for other in ended() if other.finished is not None]
    moments += [other.created for other in (first, mine) if other.created is not None]
    left = max(moments, default=now) + PATIENCE - now
    return (first, left) if left > timedelta(0) else None
