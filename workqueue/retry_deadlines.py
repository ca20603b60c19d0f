"""The retry deadline of a failed key, which a storm of events does not put off.

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

Caveats: an event runs a key before its deadline; `konverge.workqueue.throttle` limits how often.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from konverge.workqueue.limiters import Limiter

__all__ = ["EARLY_RETRY", "RetryDeadlines", "keeps_deadline"]

K = TypeVar("K", bound=Hashable)

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
