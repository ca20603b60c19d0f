"""Repeats operations that a busy or unreachable server refused, with growing delays.

Every operation of `S3Api` may be repeated: a create whose response was lost finds its own bucket, a delete finds none.

Full jitter (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/): the instances of one pool must not retry in
step after a 503 SlowDown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from konverge.reconcilers.pools.buckets.failures import BucketFailure

__all__ = ["Retries"]

Value = TypeVar("Value")

_ATTEMPTS: Final = 5
_FIRST: Final = 0.5
_MOST: Final = 8.0


class Retries:
    """Repeats a call at most `attempts` times.

    >>> from random import Random
    >>> Retries(Random(1)).attempts
    5
    """

    def __init__(self, rng: Random, *, attempts: int = _ATTEMPTS) -> None:
        self._rng = rng
        self.attempts = attempts

    async def call(self, operation: Callable[[], Awaitable[Value]]) -> Value:
        """Return the result of the operation; raises its last BucketFailure."""
        for attempt in range(1, self.attempts):
            try:
                return await operation()
            except BucketFailure as failure:
                if not failure.transient:
                    raise
            await asyncio.sleep(self._rng.uniform(0, min(_MOST, _FIRST * 2**attempt)))
        return await operation()
