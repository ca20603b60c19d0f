"""The delay of a failed key: 5 ms, doubled with each failure up to 1000 s.

The numbers are client-go's (ItemExponentialFailureRateLimiter):
https://github.com/kubernetes/client-go/blob/master/util/workqueue/default_rate_limiters.go. `konverge.workqueue.limiters` combines this
rule with others, `konverge.workqueue.retry_deadlines` keeps events from inflating it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ItemExponential"]

K = TypeVar("K", bound=Hashable)


class ItemExponential(Generic[K]):
    """Doubles the delay with each failure of a key: `base`, 2 x `base`, ... up to `cap` seconds.

    >>> limiter = ItemExponential[str](base=1, cap=5)
    >>> [limiter.when("a", now=0.0) for _ in range(4)]
    [1.0, 2.0, 4.0, 5.0]
    """

    def __init__(self, base: float = 0.005, cap: float = 1000.0) -> None:
        if not 0 < base <= cap < math.inf:
            raise ValueError(f"ItemExponential needs 0 < base <= cap, got base={base!r}, cap={cap!r}")
        self._base = float(base)
        self._cap = float(cap)
        self._doublings = math.ceil(math.log2(cap / base))
        # Holds a key from its first failure until `forget`; never a count of zero.
        self._failures: dict[K, int] = {}

    def when(self, key: K, now: float) -> float:  # noqa: ARG002  # the protocol passes the time; this delay does not depend on it
        """Count one failure and return the delay, doubled since the last failure."""
        failed = self._failures.get(key, 0)
        self._failures[key] = failed + 1
        # Beyond this many doublings the cap applies; a float would overflow after a thousand.
        return self._cap if failed >= self._doublings else min(math.ldexp(self._base, failed), self._cap)

    def forget(self, key: K) -> None:
        """Start the key at `base` again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often the key failed since it was forgotten."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        return len(self._failures)
