"""How long a key waits before it is tried again.

Promises: a limiter is a plain object that is told the time; `when` counts one failure and returns the delay in seconds;
`forget` frees all memory of the key, and a limiter keeps memory only for keys that failed since they were last forgotten. So
its memory is bounded as long as the caller forgets a key when it succeeded, when retrying cannot help, or when it vanished.

Does not promise: to look at the delays that it gave earlier. That an event inside a running delay must not lengthen it is the
rule of `konverge.workqueue.backoff`.

Source of the rules and numbers: https://github.com/kubernetes/client-go/blob/master/util/workqueue/default_rate_limiters.go (5 ms
doubling to 1000 s; bucket of 100, 10 per second).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from random import Random
from typing import Generic, Protocol, TypeVar

__all__ = ["Bucket", "ItemExponential", "Jitter", "Limiter", "MaxOf", "MaxWait"]

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Limiter(Protocol[K_contra]):
    """Turns the failures of a key into delays.

    >>> limiter: Limiter[str] = MaxOf(ItemExponential(), Bucket())
    >>> limiter.when("a", now=0.0)
    0.005
    """

    def when(self, key: K_contra, now: float) -> float:
        """Count one failure of the key and return how many seconds it shall wait."""

    def forget(self, key: K_contra) -> None:
        """Drop all memory of the key; its next failure is its first."""

    def failures(self, key: K_contra) -> int:
        """Return how many failures are remembered."""


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
        self._failures: dict[K, int] = {}

    def when(self, key: K, now: float) -> float:  # noqa: ARG002  # the protocol tells the time; this one has no use for it
        """Count one failure and return the delay that doubles with each."""
        failed = self._failures.get(key, 0)
        self._failures[key] = failed + 1
        # Beyond this many doublings the cap holds, and after a thousand a float would overflow.
        return self._cap if failed >= self._doublings else min(math.ldexp(self._base, failed), self._cap)

    def forget(self, key: K) -> None:
        """Start the key at `base` again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often the key failed since it was forgotten."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        return len(self._failures)


class Bucket(Generic[K]):
    """One token bucket for all keys: `burst` retries at once, then `rate` per second in the order in which they were asked for.

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
        self._tokens = float(burst)
        self._at: float | None = None

    def when(self, key: K, now: float) -> float:  # noqa: ARG002  # all keys drink from one bucket
        """Take one token, on credit where none is left, and return how long it takes to earn it."""
        if self._at is not None and now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now if self._at is None else max(now, self._at)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def forget(self, key: K) -> None:
        """Do nothing: the bucket knows no keys."""

    def failures(self, key: K) -> int:  # noqa: ARG002  # all keys drink from one bucket
        """Return 0: the bucket knows no keys."""
        return 0


class MaxOf(Generic[K]):
    """Asks all of its limiters, each of which counts the failure, and takes the longest delay.

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
        """Let each limiter forget the key."""
        for limiter in self._limiters:
            limiter.forget(key)

    def failures(self, key: K) -> int:
        """Return the highest count."""
        return max(limiter.failures(key) for limiter in self._limiters)


class MaxWait(Generic[K]):
    """Cuts the delays of another limiter at `limit` seconds; failures are counted as before.

    >>> MaxWait(ItemExponential[str](base=60, cap=600), limit=30).when("a", now=0.0)
    30.0
    """

    def __init__(self, limiter: Limiter[K], limit: float) -> None:
        if not limit > 0:
            raise ValueError(f"MaxWait needs a limit above zero, got {limit!r}")
        self._limiter = limiter
        self._limit = float(limit)

    def when(self, key: K, now: float) -> float:
        """Return the other limiter's delay, or the limit where that is shorter."""
        return min(self._limiter.when(key, now), self._limit)

    def forget(self, key: K) -> None:
        """Pass on."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Pass on."""
        return self._limiter.failures(key)


class Jitter(Generic[K]):
    """Lengthens the delays of another limiter by up to `fraction`, so that what failed together is not retried together.

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
        """Return the other limiter's delay and a random part of it on top."""
        return self._limiter.when(key, now) * (1.0 + self._fraction * self._random.random())

    def forget(self, key: K) -> None:
        """Pass on."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """Pass on."""
        return self._limiter.failures(key)
