"""The delay of a failed key: 5 ms, doubled with each failure up to 1000 s, and its retry deadline, which a storm of events does not move.

The numbers are those of client-go (ItemExponentialFailureRateLimiter):
https://github.com/kubernetes/client-go/blob/master/util/workqueue/default_rate_limiters.go. `konverge.workqueue.limiters` combines this
rule with others.

The problem (https://github.com/kubernetes/kubernetes/issues/132805): while a key waits for its retry, each event runs it at once,
because the object has changed. If each of those runs fails and each failure doubles the delay, a minute of events drives the key to
the maximum delay, though it waited for none of the shorter delays.

The rule (https://github.com/operator-framework/java-operator-sdk/pull/3380). A key whose last run failed has a retry deadline. When a run
fails:

    no deadline is set                           count the failure; the limiter sets a deadline
    the deadline is more than `early_retry` off  keep the deadline and the count
    the deadline is nearer, reached or past      count the failure; the limiter sets a new deadline

The rule does not depend on the trigger of the run: a run that the deadline triggered starts at or after it. A run up to `early_retry`
(5 s) before the deadline counts as the retry; otherwise one more run would follow within seconds.

Guarantees: a delay longer than `early_retry` is lengthened only after all of it but `early_retry` has passed. With the default
limiter a storm can therefore drive a key to 5.12 s at once, the first delay longer than `early_retry`, and hardly further than failures
without events do. `forget` drops the deadline together with the count.

Caveats: an event runs a key before its deadline; `konverge.workqueue.schedule` limits how often.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, KeysView
from typing import Generic, TypeVar

from konverge.workqueue.limiters import Limiter

__all__ = ["EARLY_RETRY", "ItemExponential", "RetryDeadlines", "keeps_deadline"]


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


EARLY_RETRY = 5.0
"""A failed run at most this many seconds before the deadline counts as the retry."""


def keeps_deadline(*, now: float, deadline: float | None, early_retry: float = EARLY_RETRY) -> bool:
    """Report whether a run that fails now leaves deadline and count as they are.

    >>> keeps_deadline(now=10.0, deadline=100.0)
    True
    >>> keeps_deadline(now=96.0, deadline=100.0)
    False
    """
    return deadline is not None and deadline - now > early_retry


class RetryDeadlines(Generic[K]):
    """A limiter, and the retry deadline of each failed key.

    >>> from konverge.workqueue.backoff import ItemExponential
    >>> backoff = RetryDeadlines(ItemExponential[str](base=20, cap=80))
    >>> backoff.retry_at("a", now=0.0), backoff.retry_at("a", now=1.0), backoff.failures("a")
    (20.0, 20.0, 1)
    """

    def __init__(self, limiter: Limiter[K], *, early_retry: float = EARLY_RETRY) -> None:
        if not early_retry >= 0:
            raise ValueError(f"RetryDeadlines needs early_retry to be at least zero, got {early_retry!r}")
        self._limiter = limiter
        self._early_retry = early_retry
        # Holds a key if and only if it failed since it was last forgotten; a deadline may be past.
        self._deadlines: dict[K, float] = {}
        self.failing: KeysView[K] = self._deadlines.keys()
        """The keys that failed since they were last forgotten: a live view."""

    def retry_at(self, key: K, now: float) -> float:
        """Record a failure of the key by the rule above, and return the time of its retry."""
        deadline = self._deadlines.get(key)
        if deadline is None or not keeps_deadline(now=now, deadline=deadline, early_retry=self._early_retry):
            deadline = self._deadlines[key] = now + max(0.0, self._limiter.when(key, now))
        return deadline

    def deadline(self, key: K) -> float | None:
        """Return the time of the key's retry, which may be past; None if the key did not fail."""
        return self._deadlines.get(key)

    def forget(self, key: K) -> None:
        """Drop count and deadline of the key."""
        self._deadlines.pop(key, None)
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return the number of failures counted since the key was forgotten."""
        return self._limiter.failures(key)

    def __len__(self) -> int:
        return len(self._deadlines)
