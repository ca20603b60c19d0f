"""One reconcile's record of itself: what it sent, and whether it may still send."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

from konverge.errors import ReconcileTimeout
from konverge.keys import Key

__all__ = ["ReconcileTrace"]


@dataclass(slots=True)
class ReconcileTrace:
    """The writes of one reconcile, for /debug and the log. After `close` every further write raises ReconcileTimeout."""

    key: Key
    writer: Hashable
    """The name under which the write ledger keeps the writes of this key."""
    epoch: int = 0
    """The epoch since which this replica owns the object; 0 without sharding."""
    writes: list[str] = field(default_factory=list)
    skipped: int = 0
    look_again: float = math.inf
    """Seconds until a held child is tried again."""
    ended: str = ""
    """Why nothing more may be sent, "" while the reconcile runs."""
    contained: Exception | None = None
    """An exception of user code that did not end the reconcile."""

    def is_about(self, key: Key) -> bool:
        """Tell whether a key, in whatever version of its kind, is that of the reconciled object."""
        mine = self.key
        return (key.name, key.namespace) == (mine.name, mine.namespace) and key.kind.group_kind == mine.kind.group_kind

    def check_open(self) -> None:
        """Raise ReconcileTimeout if the reconcile has ended."""
        if self.ended:
            raise ReconcileTimeout(f"the reconcile of {self.key} has ended ({self.ended}); nothing more is sent for it")

    def write(self, what: str) -> None:
        """Note a write that is about to be sent; raises ReconcileTimeout if the reconcile has ended."""
        self.check_open()
        self.writes.append(what)

    def close(self, why: str) -> None:
        """Let nothing more out; the first reason counts."""
        self.ended = self.ended or why
