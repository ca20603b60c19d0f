"""Policies of namespaces and targets: the types of Operations that may start, and maintenance windows for disruptive types.

Guarantees: pure. An unreadable annotation allows nothing, and the message has the remedy. Only the start is held back: an Operation that
runs when its window ends continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, get_args

from konverge.clock import rfc3339
from konverge.crds.ops_v1alpha1 import Operation, OperationType
from konverge.outcome import RequeueAfter
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.delays import LOOK_AGAIN
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.conflicts import PATIENCE, Contestant
from konverge.reconcilers.apps.operations.waiting.windows import BadWindow, next_opening, opened_at, parse_windows
from konverge.reconcilers.apps.operations.words import AcceptedReason, BlockedReason, OpAnnotation
from konverge.reconcilers.shared.delays import SHORTEST_WAIT

__all__ = ["Permission", "check_policy", "first_at_opening"]

_AT_MOST: Final = timedelta(minutes=10)
"""After this time annotations of a namespace, which is not watched, are read again."""
_TYPES: Final = frozenset(get_args(OperationType))


@dataclass(frozen=True, slots=True)
class Permission:
    """The plan of an Operation that must not start now, or since when a window has been open for it."""

    plan: OpPlan | None = None
    opened: datetime | None = None


def check_policy(
    operation: Operation,
    target: Mapping[str, str],
    namespace: Mapping[str, str],
    settings: OperationSettings,
    now: datetime,
) -> Permission:
    """Return whether an Operation may start now, from the annotations of its target and its namespace."""
    type_, place = operation.spec.type, operation.namespace
    text = namespace.get(OpAnnotation.ALLOWED_TYPES)
    allowed = None if text is None else {part.strip() for part in text.split(",") if part.strip()}
    if allowed is not None and type_ not in allowed:
        message = (
            f"namespace {place} does not allow it: its annotation {OpAnnotation.ALLOWED_TYPES} names {_names(allowed)}"
        )
        blocked = EngineBlocked(BlockedReason.TYPE_NOT_ALLOWED, message)
        return Permission(
            report.waiting(blocked, not_accepted=AcceptedReason.CAPABILITY_MISSING, outcome=RequeueAfter(LOOK_AGAIN))
        )
    if type_ not in settings.window_types:
        return Permission()
    text, own = namespace.get(OpAnnotation.MAINTENANCE_WINDOW), target.get(OpAnnotation.MAINTENANCE_WINDOW)
    texts = [] if text is None else [(f"namespace {place}", text)]
    texts += [] if own is None else [(f"ApplicationInstance {operation.spec.target_ref.name}", own)]
    return _in_windows(texts, now, at_most=None if text is None else _AT_MOST)


def _in_windows(texts: Iterable[tuple[str, str]], now: datetime, *, at_most: timedelta | None) -> Permission:
    """Return whether all windows are open.

    A tenant may write the target's annotation, so the target's window narrows the window of its namespace and never replaces it.
    """
    openings: list[datetime] = []
    waits: list[tuple[datetime, str]] = []
    for where, text in texts:
        try:
            windows = parse_windows(text)
        except BadWindow as bad:
            message = f"the annotation {OpAnnotation.MAINTENANCE_WINDOW} of {where} {bad}"
            return Permission(_outside(message, LOOK_AGAIN))
        opened = opened_at(windows, now)
        if opened is None:
            waits.append((next_opening(windows, now), where))
        else:
            openings.append(opened)
    if not waits:
        return Permission(opened=max(openings, default=None))
    opens, where = max(waits)
    left = opens - now if at_most is None else min(opens - now, at_most)
    return Permission(_outside(f"starts in the maintenance window of {where}, which opens at {rfc3339(opens)}", left))


def _names(allowed: Iterable[str]) -> str:
    known = sorted(_TYPES.intersection(allowed))
    return f"only {', '.join(known)}" if known else f"none of {', '.join(sorted(_TYPES))}"


def _outside(message: str, left: timedelta) -> OpPlan:
    blocked = EngineBlocked(BlockedReason.OUTSIDE_MAINTENANCE_WINDOW, message)
    return report.waiting(blocked, outcome=RequeueAfter(max(left, SHORTEST_WAIT)))


def first_at_opening(
    mine: Contestant, others: Iterable[Contestant], opened: datetime | None, now: datetime
) -> tuple[Contestant, timedelta] | None:
    """Return an older Operation that waited for the window, too, and that this Operation waits for, and for how long at most."""
    left = timedelta(0) if opened is None else opened + PATIENCE - now
    older = [other for other in others if other.waits_for_window and mine.excludes(other) and other.order < mine.order]
    if left <= timedelta(0) or not older:
        return None
    return min(older, key=lambda other: other.order), left
