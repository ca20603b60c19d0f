"""Rate limiters: the protocol, a token bucket for all keys, and limiters that combine others.

Guarantees: a limiter is a plain object, and the time is an argument. `when` counts one failure and returns the delay in seconds;
`forget` frees all memory of the key. A limiter holds only keys that failed since they were last forgotten, so its memory is bounded
if the caller forgets a key after a success, after a terminal error, and after the deletion of its object.

Caveats: a limiter does not know the delays that it returned earlier. `konverge.workqueue.backoff` keeps an event inside a
running delay from lengthening it.

The rules and numbers are client-go's (a bucket of 100, 10 per second):
https://github.com/kubernetes/client-go/blob/master/util/workqueue/default_rate_limiters.go. The delay per key is
`konverge.workqueue.backoff`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from random import Random
from typing import Generic, Protocol, TypeVar

__all__ = ["Bucket", "Jitter", "Limiter", "MaxOf", "MaxWait"]

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Limiter(Protocol[K_contra]):
    """Derives delays from the failures of a key.

    >>> from konverge.workqueue.backoff import ItemExponential
    >>> limiter: Limiter[str] = MaxOf(ItemExponential(), Bucket())
    >>> limiter.when("a", now=0.0)
    0.005
    """

    def when(self, key: K_contra, now: float) -> float:
        """Count one failure of the key and return its delay in seconds."""

    def forget(self, key: K_contra) -> None:
        """Drop all memory of the key; its next failure is its first."""

    def failures(self, key: K_contra) -> int:
        """Return the number of failures since the key was forgotten."""


class Bucket(Generic[K]):
    """One token bucket for all keys: `burst` retries at once, then `rate` per second in the order of the calls.

    >>> bucket = Bucket[str](rate=10, burst=2)
    >>> [bucket.when(key, now=0.0) for key in "abcd"]
    [0.0, 0.0, 0.1, 0.2]
    """

    def __init__(self, rate: float = 10.0, burst: int = 100) -> None:
        if not 0 < rate < math.inf or burst < 1:
            raise ValueError(
                f"Bucket needs a rate above zero and a burst of at least one, got rate={rate!r}, burst={burst!r}"
            )
        self._rate = float(rate)
        self._burst = float(burst)
        # The tokens at the time `_at`; negative while tokens were taken on credit.
        self._tokens = float(burst)
        self._at: float | None = None

    def when(self, key: K, now: float) -> float:  # noqa: ARG002  # the bucket is shared by all keys
        """Take one token, on credit if the bucket is empty, and return the time until it is refilled."""
        if self._at is not None and now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now if self._at is None else max(now, self._at)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def forget(self, key: K) -> None:
        """Do nothing: the bucket holds no keys."""

    def failures(self, key: K) -> int:  # noqa: ARG002  # the bucket is shared by all keys
        """Return 0: the bucket holds no keys."""
        return 0


class MaxOf(Generic[K]):
    """The longest delay of several limiters; each of them counts the failure.

    >>> from konverge.workqueue.backoff import ItemExponential
    >>> MaxOf(ItemExponential[str](base=2, cap=8), Bucket()).when("a", now=0.0)
    2.0
    """

    def __init__(self, *limiters: Limiter[K]) -> None:
        if not limiters:
            raise ValueError("MaxOf needs at least one limiter")
        self._limiters = limiters

    def when(self, key: K, now: float) -> float:
        """Return the longest of the delays."""
        return max([limiter.when(key, now) for limiter in self._limiters])

    def forget(self, key: K) -> None:
        """Forget the key in every limiter."""
        for limiter in self._limiters:
            limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return the highest count."""
        return max(limiter.failures(key) for limiter in self._limiters)


class MaxWait(Generic[K]):
    """The delay of another limiter, at most `limit` seconds.

    >>> from konverge.workqueue.backoff import ItemExponential
    >>> MaxWait(ItemExponential[str](base=60, cap=600), limit=30).when("a", now=0.0)
    30.0
    """

    def __init__(self, limiter: Limiter[K], limit: float) -> None:
        if not limit > 0:
            raise ValueError(f"MaxWait needs a limit above zero, got {limit!r}")
        self._limiter = limiter
        self._limit = float(limit)

    def when(self, key: K, now: float) -> float:
        """Return the other limiter's delay, or the limit if that is shorter."""
        return min(self._limiter.when(key, now), self._limit)

    def forget(self, key: K) -> None:
        """Forget the key in the other limiter."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return the other limiter's count."""
        return self._limiter.failures(key)


class Jitter(Generic[K]):
    """The delay of another limiter, lengthened by up to `fraction`, so that keys that failed together are not retried together.

    >>> from konverge.workqueue.backoff import ItemExponential
    >>> 1.0 <= Jitter(ItemExponential[str](base=1, cap=8), Random(7), fraction=0.1).when("a", now=0.0) < 1.1
    True
    """

    def __init__(self, limiter: Limiter[K], random: Random, fraction: float = 0.1) -> None:
        if not 0 <= fraction < math.inf:
            raise ValueError(f"Jitter needs a fraction of at least zero, got {fraction!r}")
        self._limiter = limiter
        self._random = random
        self._fraction = float(fraction)

    def when(self, key: K, now: float) -> float:
        """Return the other limiter's delay plus a random part of it."""
        return self._limiter.when(key, now) * (1.0 + self._fraction * self._random.random())

    def forget(self, key: K) -> None:
        """Forget the key in the other limiter."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return the other limiter's count."""
        return self._limiter.failures(key)
