"""What waits in the queue, and what a worker is given.

An entry is the one record of a key that waits: adds merge into it until it is handed out as an item. Invariants: a key has at
most one entry; an entry's priority never falls; it is in exactly one place, named by its state; it leaves through one door
(handed out, removed, or dropped at shut-down) and is not used again.

    DELAYED --time has come--> READY --handed out--> GONE
       └--time has come, key in work--> HELD --done--> READY
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Generic, NamedTuple, TypeVar

__all__ = ["MAX_REASONS", "Entry", "Item", "State", "Wait"]

K = TypeVar("K", bound=Hashable)

MAX_REASONS = 16
"""So many distinct reasons of one run are kept; further ones are counted."""


class State(Enum):
    """Where an entry is."""

    DELAYED = 1
    HELD = 2
    READY = 3
    GONE = 4


class Wait(StrEnum):
    """What a waiting key waits for.

    >>> print(Wait.BACKOFF)
    its retry after a failure
    """

    WORKER = "a free worker"
    WORK = "the end of its running work"
    DELAY = "the time that was asked for"
    BACKOFF = "its retry after a failure"
    DEBOUNCE = "its events to settle"
    MIN_INTERVAL = "the minimum interval between two runs"


@dataclass(slots=True, eq=False)
class Entry(Generic[K]):
    """One key that waits.

    Two times can make it run and the earlier one wins: `due`, the earliest time that somebody asked for (`cause` says how), and
    `settled`, when its events have settled (`first_event` is the first of them). `ready_at` is the result, pace included.
    `ticket` belongs to the timetable.
    """

    key: K
    priority: int
    reasons: tuple[str, ...]
    added_at: float
    more: int = 0
    due: float = math.inf
    cause: Wait = Wait.DELAY
    first_event: float | None = None
    settled: float = math.inf
    ready_at: float = math.inf
    state: State = State.DELAYED
    ticket: int = 0

    def note(self, reason: str) -> None:
        """Merge one more reason; beyond MAX_REASONS distinct ones only count it."""
        if reason in self.reasons:
            return
        if len(self.reasons) < MAX_REASONS:
            self.reasons = (*self.reasons, reason)
        else:
            self.more += 1

    @property
    def wait(self) -> Wait:
        """What it waits for."""
        match self.state:
            case State.HELD:
                return Wait.WORK
            case State.DELAYED:
                pass
            case _:
                return Wait.WORKER
        if self.ready_at > min(self.due, self.settled):
            return Wait.MIN_INTERVAL
        return self.cause if self.due <= self.settled else Wait.DEBOUNCE


def join_reasons(reasons: tuple[str, ...], more: int) -> str:
    """Write the reasons as one phrase."""
    return ", ".join(reasons) + (f" …and {more} more" if more else "")


class Item(NamedTuple, Generic[K]):
    """A key that a worker was given, and why. Whoever got it owes the queue one `done(item.key)`.

    `reasons` are those of all adds that merged into this run, in the order in which they first came; `more` counts the adds whose
    reason found no place among the first 16. `added_at` is when the first of the adds came, `waited` how many seconds
    passed between ready and handed out, `failures` how often the key failed since it was last forgotten.

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
        """The reasons as one phrase, ending in "…and N more" where some were only counted."""
        return join_reasons(self.reasons, self.more)
