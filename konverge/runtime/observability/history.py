"""The last reconciles of each key, for `/debug` and `konverge explain`."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from datetime import datetime
from typing import Any

import msgspec

from konverge.clock import rfc3339_micro
from konverge.keys import Key
from konverge.words import LogKey

__all__ = ["History", "ReconcileLog", "ReconcileRecord", "takes_debug"]


def takes_debug(log: Any) -> bool:
    """Return whether lines of level debug are written, so that they are not formatted in vain; True if that is unknown."""
    asked = getattr(log, "is_enabled_for", None)
    return asked is None or bool(asked(logging.DEBUG))


_KEPT = 5
"""Reconciles of one key that are kept."""


class ReconcileLog:
    """The log of one reconcile. Binding its fields costs as much as some reconciles do, so it waits for the first line."""

    __slots__ = ("_base", "_bound", "_key", "_reasons", "_reconcile_id")

    def __init__(self, base: Any, key: Key, reconcile_id: str, reasons: tuple[str, ...]) -> None:
        self._base = base
        self._bound: Any = None
        self._key = key
        self._reconcile_id = reconcile_id
        self._reasons = reasons

    @property
    def bound(self) -> Any:
        """The logger, with the key, id and reasons of the reconcile."""
        if self._bound is None:
            fields = {
                LogKey.KEY: self._key.path,
                LogKey.RECONCILE_ID: self._reconcile_id,
                LogKey.REASONS: list(self._reasons),
            }
            self._bound = self._base.bind(**fields)
        return self._bound


class ReconcileRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One reconcile: when, why, how long, how it ended, its writes. No object content."""

    key: Key
    reconcile_id: str
    started: datetime
    duration: float
    reasons: tuple[str, ...]
    outcome: str
    error: str = ""
    writes: tuple[str, ...] = ()
    skipped: int = 0
    next_run: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {
            "key": str(self.key),
            "reconcileID": self.reconcile_id,
            "started": rfc3339_micro(self.started),
            "duration": round(self.duration, 6),
            "reasons": list(self.reasons),
            "outcome": self.outcome,
            "error": self.error,
            "writes": list(self.writes),
            "skipped": self.skipped,
            "nextRun": self.next_run,
        }


class History:
    """The last reconciles of up to `keys` keys and the last `recent` of all; the oldest are dropped first."""

    def __init__(self, *, keys: int = 2000, recent: int = 50) -> None:
        self._limit = keys
        self._by_key: OrderedDict[Key, tuple[ReconcileRecord, ...]] = OrderedDict()
        self._recent: deque[ReconcileRecord] = deque(maxlen=recent)

    def add(self, record: ReconcileRecord) -> None:
        """Add one reconcile."""
        self._recent.append(record)
        # A tuple: the garbage collector skips a tuple of untracked records, and would traverse a deque of each key.
        self._by_key[record.key] = (*self._by_key.get(record.key, ())[1 - _KEPT :], record)
        self._by_key.move_to_end(record.key)
        if len(self._by_key) > self._limit:
            self._by_key.popitem(last=False)

    def forget(self, key: Key) -> None:
        """Drop the key of a deleted object."""
        self._by_key.pop(key, None)

    def of(self, key: Key) -> tuple[ReconcileRecord, ...]:
        """Return the last reconciles of a key, oldest first."""
        return self._by_key.get(key, ())

    def recent(self) -> tuple[ReconcileRecord, ...]:
        """Return the last reconciles of all keys, oldest first."""
        return tuple(self._recent)
