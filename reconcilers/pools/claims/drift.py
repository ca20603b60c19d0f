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

__all__ = ["SETS", "Corrections", "Fight", "drift_message", "drifted"]

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


def drift_message(paths: Iterable[str], conflicts: Iterable[FieldConflict], own: str) -> str:
    """Return the message about a correction: the paths, and the managers that own them now.

    >>> drift_message([".spec.replicas"], [FieldConflict("kubectl-edit", ".spec.replicas")], "konverge")
    'set back .spec.replicas (edited by kubectl-edit)'
    """
    found = sorted(paths)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    managers = sorted({one.manager for one in conflicts} - {own})
    by = f" (edited by {', '.join(managers)})" if managers else ""
    return f"set back {', '.join(found[:_SHOWN])}{more}{by}"


@dataclass(frozen=True, slots=True)
class Fight:
    """A fight with another manager: the paths that are set back again and again, and when the next correction is due."""

    message: str
    wait: timedelta


class Corrections:
    """The corrections of each instance within a window of time."""

    def __init__(self, limit: int, window: timedelta, pause: timedelta) -> None:
        self._limit = limit
        self._window = window
        self._pause = pause
        self._made: dict[str, deque[tuple[datetime, str]]] = {}

    def note(self, uid: str, now: datetime, message: str) -> None:
        """Remember a correction."""
        made = self._made.setdefault(uid, deque())
        made.append((now, message))

    def fight(self, uid: str, now: datetime) -> Fight | None:
        """Return the fight over an instance, None if there is none."""
        made = self._made.get(uid)
        if made is None:
            return None
        while made and made[0][0] <= now - self._window:
            made.popleft()
        if not made:
            del self._made[uid]
            return None
        if len(made) <= self._limit:
            return None
        last, message = made[-1]
        return Fight(message, max(timedelta(0), last + self._pause - now))

    def forget(self, uid: str) -> None:
        """Forget the corrections of an instance."""
        self._made.pop(uid, None)
