"""Entries, which are waiting keys, and items, which are keys handed to workers.

Adds of a key merge into its entry until the entry is handed out as an item. Invariants: a key has at most one entry; the priority of
an entry never falls; an entry is in exactly one place, named by its state; a GONE entry (handed out, removed, or dropped at
shut-down) is not used again.

    DELAYED --due--> READY --handed out--> GONE
       └--due, key in work--> HELD --done--> READY
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from enum import Enum, StrEnum
from typing import Generic, NamedTuple, TypeVar

import msgspec

__all__ = ["MAX_REASONS", "QueueEntry", "Item", "EntryState", "WaitReason"]

K = TypeVar("K", bound=Hashable)

MAX_REASONS = 16
"""Distinct reasons kept for one run; further reasons are only counted."""


class EntryState(Enum):
    """The place of an entry."""

    DELAYED = 1
    """In the timetable."""
    HELD = 2
    """Its key is in work; after `done` it is READY."""
    READY = 3
    """In the lane of its priority."""
    GONE = 4
    """No longer in the queue."""


class WaitReason(StrEnum):
    """Why a key waits.

    >>> print(WaitReason.BACKOFF)
    its retry after a failure
    """

    WORKER = "a free worker"
    WORK = "the end of its running work"
    DELAY = "its requested time"
    BACKOFF = "its retry after a failure"
    DEBOUNCE = "its events to settle"
    MIN_INTERVAL = "the minimum interval between two runs"


class QueueEntry(msgspec.Struct, Generic[K], eq=False):
    """A waiting key. It becomes ready at the earlier of `due` and `settled`, and not before the minimum interval is over."""

    key: K
    priority: int
    """The highest priority of the merged adds; it never falls."""
    reasons: tuple[str, ...]
    """Distinct, in the order of the adds, at most MAX_REASONS."""
    added_at: float
    """The time of the first add."""
    more: int = 0
    """Adds with a distinct reason beyond MAX_REASONS."""
    due: float = math.inf
    """The earliest time of an add with a time; it never grows."""
    cause: WaitReason = WaitReason.DELAY
    """The reason of the add that set `due`."""
    first_event: float | None = None
    """The time of the first debounced event."""
    settled: float = math.inf
    """The end of the debounce; infinity if no event was debounced."""
    ready_at: float = math.inf
    """When the entry becomes ready, minimum interval included; after that, when it became ready."""
    state: EntryState = EntryState.DELAYED
    ticket: int = 0
    """Owned by the timetable: the number of the entry's valid record, 0 if the entry is not in the timetable."""

    def note(self, reason: str) -> None:
        """Merge one more reason, or only count it if MAX_REASONS are kept."""
        if reason in self.reasons:
            return
        if len(self.reasons) < MAX_REASONS:
            self.reasons = (*self.reasons, reason)
        else:
            self.more += 1

    @property
    def wait(self) -> WaitReason:
        """Why the entry waits."""
        match self.state:
            case EntryState.HELD:
                return WaitReason.WORK
            case EntryState.DELAYED:
                pass
            case _:
                return WaitReason.WORKER
        if self.ready_at > min(self.due, self.settled):
            return WaitReason.MIN_INTERVAL
        return self.cause if self.due <= self.settled else WaitReason.DEBOUNCE


def join_reasons(reasons: tuple[str, ...], more: int) -> str:
    """Write the reasons as one phrase."""
    return ", ".join(reasons) + (f" …and {more} more" if more else "")


class Item(NamedTuple, Generic[K]):
    """A key in work, and the reasons for its run. Its worker calls `done(item.key)` exactly once.

    `reasons` are the distinct reasons of the merged adds in order, at most 16; `more` counts adds with further reasons. `added_at`
    is the time of the first add, `waited` the seconds between ready and handed out, `failures` the count of the key since it was
    last forgotten.

    >>> Item("a", 0, ("changed", "resync"), 0, added_at=1.0, waited=0.25, failures=0).why
    'changed, resync'
    """

    key: K
    priority: int
    reasons: tuple[str, ...]
    more: int
    added_at: float
    waited: float
    failures: int

    @property
    def why(self) -> str:
        """The reasons as one phrase, ending in "…and N more" if some were only counted."""
        return join_reasons(self.reasons, self.more)
