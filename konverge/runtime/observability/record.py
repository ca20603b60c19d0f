"""The record of one reconcile, for `/debug`, `konverge explain` and observers in tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from konverge.clock import rfc3339_micro
from konverge.keys import Key

__all__ = ["ReconcileRecord"]


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
