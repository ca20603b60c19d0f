"""Waits between failures, as frozen data.

Promises: the n-th wait in a row is `start * factor**n`, at most `cap`, then stretched by a random factor between 1 and 1 + `jitter`
(client-go, https://github.com/kubernetes/apimachinery/blob/master/pkg/util/wait/backoff.go, with a reset: the stretch comes after the
cap). Without a failure for `reset` seconds the row begins anew. Pure: time and the random number are arguments.
"""

from __future__ import annotations

import math

import msgspec

__all__ = ["Backoff"]


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """A row of waits.

    >>> row = Backoff(start=0.8, cap=30)
    >>> row, first = row.next(now=0, roll=0)
    >>> row, second = row.next(now=1, roll=0.5)
    >>> first, second
    (0.8, 2.4000000000000004)
    """

    start: float
    cap: float
    factor: float = 2.0
    jitter: float = 1.0
    reset: float = 120.0
    failures: int = 0
    last: float = -math.inf

    def next(self, now: float, roll: float) -> tuple[Backoff, float]:
        """Return the row after one more failure, and how long to wait; `roll` is a random number from 0 to 1."""
        failures = 0 if now - self.last > self.reset else self.failures
        # The exponent is bounded, because a float overflows long after the cap was reached.
        base = min(self.cap, self.start * self.factor ** min(failures, 64))
        after = msgspec.structs.replace(self, failures=failures + 1, last=now)
        return after, base * (1.0 + roll * self.jitter)
