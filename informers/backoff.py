"""The exponential backoff between failed lists and watches, as frozen data.

Guarantees: the n-th wait in a row is `start * factor**n`, at most `cap`, then multiplied by a random factor between 1 and 1 + `jitter`.
After `reset` seconds without a failure it begins at `start` again. Pure: the time and the random number are arguments.

This is client-go's backoff with a reset, and with the jitter after the cap:
https://github.com/kubernetes/apimachinery/blob/master/pkg/util/wait/backoff.go
"""

from __future__ import annotations

import math

import msgspec

__all__ = ["ExponentialBackoff"]


class ExponentialBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """The present position in a row of waits.

    >>> row = ExponentialBackoff(start=0.8, cap=30)
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
    """Failures in a row, each at most `reset` seconds after the previous failure."""
    last: float = -math.inf
    """The time of the last failure."""

    def next(self, now: float, roll: float) -> tuple[ExponentialBackoff, float]:
        """Return the backoff after one more failure, and the seconds to wait; `roll` is a random number from 0 to 1."""
        failures = 0 if now - self.last > self.reset else self.failures
        # The exponent is bounded because a float would overflow.
        base = min(self.cap, self.start * self.factor ** min(failures, 64))
        after = msgspec.structs.replace(self, failures=failures + 1, last=now)
        return after, base * (1.0 + roll * self.jitter)
