"""When a failed key is tried again, and why a storm of events does not put that off.

The flaw that this rule answers (https://github.com/kubernetes/kubernetes/issues/132805): while a key waits for its retry, events go on
arriving. Each one rightly runs the key at once, because new information deserves a run. If each of those runs fails and each failure
doubles the delay, a minute of events drives the key to the longest delay there is, though it never waited for any of them.

The rule (https://github.com/operator-framework/java-operator-sdk/pull/3380). A key whose last run failed has a retry deadline. When a run
fails:

    no deadline is set                          count the failure; the limiter sets a deadline
    the deadline is further away than `near`    keep the deadline; count nothing
    the deadline is nearer, reached or past     count the failure; the limiter sets a new deadline

It does not matter what triggered the run: a run that the deadline itself triggered starts at or after it. `near` (5 s) is
there so that a run just before the deadline is taken for the retry that it is, instead of being followed by one more.

Promises: a delay longer than `near` is only lengthened after all of it but `near` was waited for. With the default limiter a
storm can therefore drive a key to 5.12 s at once, the first delay that is longer than `near`, and from there on hardly faster
than no storm at all. `forget` drops the deadline together with the count.

Does not promise: that a key rests until its deadline. Events run it; to slow that down is what `konverge.workqueue.pace` does.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from konverge.workqueue.limiters import Limiter

__all__ = ["NEAR", "Backoff", "keeps_deadline"]

K = TypeVar("K", bound=Hashable)

NEAR = 5.0
"""Seconds before its deadline from which on a failing run counts as the retry."""


def keeps_deadline(*, now: float, deadline: float | None, near: float = NEAR) -> bool:
    """Tell whether a run that failed now leaves the deadline (and the count) as it is.

    >>> keeps_deadline(now=10.0, deadline=100.0)
    True
    >>> keeps_deadline(now=96.0, deadline=100.0)
    False
    """
    return deadline is not None and deadline - now > near


class Backoff(Generic[K]):
    """A limiter together with the deadlines that it set.

    >>> from konverge.workqueue.limiters import ItemExponential
    >>> backoff = Backoff(ItemExponential[str](base=20, cap=80))
    >>> backoff.retry_at("a", now=0.0), backoff.retry_at("a", now=1.0), backoff.failures("a")
    (20.0, 20.0, 1)
    """

    def __init__(self, limiter: Limiter[K], *, near: float = NEAR) -> None:
        if not near >= 0:
            raise ValueError(f"Backoff needs near to be at least zero, got {near!r}")
        self._limiter = limiter
        self._near = near
        self._deadlines: dict[K, float] = {}

    def retry_at(self, key: K, now: float) -> float:
        """Take note that the key failed, by the rule above, and return the time of its retry."""
        deadline = self._deadlines.get(key)
        if deadline is None or not keeps_deadline(now=now, deadline=deadline, near=self._near):
            deadline = self._deadlines[key] = now + max(0.0, self._limiter.when(key, now))
        return deadline

    def deadline(self, key: K) -> float | None:
        """Return the time of the key's retry; it may have passed. None where the key did not fail."""
        return self._deadlines.get(key)

    def forget(self, key: K) -> None:
        """Drop count and deadline of the key."""
        self._deadlines.pop(key, None)
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return how many failures were counted since the key was forgotten."""
        return self._limiter.failures(key)

    def __len__(self) -> int:
        return len(self._deadlines)
