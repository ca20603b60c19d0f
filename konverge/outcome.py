"""The result of a reconcile, which cannot contradict itself.

A reconcile either returns `Done` or `RequeueAfter`, or raises. Unlike controller-runtime's Result, it has no boolean beside the
duration, and no result beside an error. The errors with a meaning of their own (`RetryAfter`, `Terminal`) live in `konverge.errors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

__all__ = ["Done", "Outcome", "RequeueAfter", "seconds"]


def seconds(duration: float | timedelta) -> float:
    """Return a duration in seconds; a plain number already is one."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do until something changes.

    The object is reconciled again when a watched object changes and at the controller's resync, and otherwise not.

    >>> Done()
    Done()
    """


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Success so far; reconcile again after `delay` seconds, or earlier if something changes.

    >>> RequeueAfter(30).delay
    30.0
    """

    delay: float

    def __init__(self, delay: float | timedelta) -> None:
        value = seconds(delay)
        if not value > 0 or value == float("inf"):
            raise ValueError(
                f"RequeueAfter needs a finite duration above zero, got {delay!r}; return Done() to wait for a change"
            )
        object.__setattr__(self, "delay", value)


Outcome: TypeAlias = Done | RequeueAfter
"""The result of `reconcile` and `finalize`.

>>> isinstance(RequeueAfter(30), Outcome)
True
"""
