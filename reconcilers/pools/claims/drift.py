"""Drift: fields of an assigned instance that differ from its Nextcloud's spec. Pure, but for `Corrections`, which has a memory.

Guarantees: only the fields of the intent are compared, so a field that the tenant did not set is never drift.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.errors import FieldConflict
from konverge.objects import Object

__all__ = ["SETS", "Corrections", "DriftLoop", "drift_message", "drifted", "drifted_from"]

SETS: Final = frozenset({".spec.apps"})
"""The lists of an instance whose items have owners of their own."""
_SHOWN: Final = 5
"""The most paths that a message names."""


def drifted(intent: Any, stored: Any, at: str = "", *, sets: Collection[str] = SETS) -> list[str]:
    """Return the paths of an intent that are missing or different in the stored object.

    A list at one of the paths `sets` holds if it has all items, any other list only as a whole: as server-side apply owns them.

    >>> drifted({"replicas": 2, "s3": {"enabled": True}}, {"replicas": 3, "s3": {"enabled": True, "bucket": "b"}})
    ['.replicas']
    """
    if isinstance(intent, Mapping):
        if not isinstance(stored, Mapping):
            return [at]
        return [
            path
            for name, value in intent.items()
            for path in (
                [f"{at}.{name}"] if name not in stored else drifted(value, stored[name], f"{at}.{name}", sets=sets)
            )
        ]
    if at in sets and isinstance(intent, list) and isinstance(stored, list):
        return [] if all(item in stored for item in intent) else [at]
    return [] if intent == stored and isinstance(intent, bool) == isinstance(stored, bool) else [at]


def drifted_from(intent: Object, instance: Object) -> list[str]:
    """Return the paths of spec and labels of an intent that are missing or different in the instance."""
    data, stored = intent.to_dict(), instance.to_dict()
    return [
        *drifted(data["spec"], stored.get("spec", {}), ".spec"),
        *drifted(data["metadata"]["labels"], stored["metadata"].get("labels", {}), ".metadata.labels"),
    ]


def drift_message(paths: Iterable[str], conflicts: Iterable[FieldConflict], own: str) -> str:
    """Return the message about a correction: the paths, and the managers that own them now.

    >>> drift_message([".spec.replicas"], [FieldConflict("kubectl-edit", ".spec.replicas")], "konverge")
    'set back .spec.replicas (edited by kubectl-edit)'
    """
    fields = sorted(paths)
    more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    managers = sorted({conflict.manager for conflict in conflicts} - {own})
    by = f" (edited by {', '.join(managers)})" if managers else ""
    return f"set back {', '.join(fields[:_SHOWN])}{more}{by}"


@dataclass(frozen=True, slots=True)
class DriftLoop:
    """Another manager undoes each correction: the message of the last correction, and the time until the next correction is due."""

    message: str
    wait: timedelta


class Corrections:
    """The corrections of each instance within a window of time."""

    def __init__(self, limit: int, window: timedelta, pause: timedelta) -> None:
        self._limit = limit
        self._window = window
        self._pause = pause
        self._corrections: dict[str, deque[tuple[datetime, str]]] = {}

    def note(self, uid: str, now: datetime, message: str) -> None:
        """Remember a correction."""
        self._corrections.setdefault(uid, deque()).append((now, message))

    def drift_loop(self, uid: str, now: datetime) -> DriftLoop | None:
        """Return the loop of corrections of an instance, None if the window has at most `limit` corrections."""
        corrections = self._corrections.get(uid)
        if corrections is None:
            return None
        while corrections and corrections[0][0] <= now - self._window:
            corrections.popleft()
        if not corrections:
            del self._corrections[uid]
            return None
        if len(corrections) <= self._limit:
            return None
        last, message = corrections[-1]
        return DriftLoop(message, max(timedelta(0), last + self._pause - now))

    def forget(self, uid: str) -> None:
        """Forget the corrections of an instance."""
        self._corrections.pop(uid, None)
