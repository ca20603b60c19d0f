"""The functions of an operator that decide about its queue. An error of a function affects one key, and does not lose it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TypeAlias

from konverge.keys import Key
from konverge.objects import Metadata
from konverge.runtime.controller.watches import ControllerWatches
from konverge.workqueue import Limiter

__all__ = ["GuardedLimiter", "Priorities"]

Failed: TypeAlias = Callable[[str, Key, Exception], None]
"""Reports the error of a function: the verb of its declaration, the key, the error."""


class GuardedLimiter:
    """The limiter of a declaration; if it fails, the default delay replaces its delay."""

    def __init__(self, limiter: Limiter[Key], default: Limiter[Key], failed: Failed) -> None:
        self._limiter = limiter
        self._default = default
        self._failed = failed

    def when(self, key: Key, now: float) -> float:
        """Count one failure and return the delay."""
        default = self._default.when(key, now)
        try:
            delay = self._limiter.when(key, now)
            if not 0 <= delay < math.inf:
                raise ValueError(f"the delay of a retry is {delay!r}: return seconds, 0 or more")
        except Exception as error:  # noqa: BLE001  # a function of the operator: its error must not end the worker
            self._failed(".retries", key, error)
            return default
        return delay

    def forget(self, key: Key) -> None:
        """Drop all memory of the key."""
        self._default.forget(key)
        try:
            self._limiter.forget(key)
        except Exception as error:  # noqa: BLE001  # as above
            self._failed(".retries", key, error)

    def failures(self, key: Key) -> int:
        """Return the number of failures since the key was forgotten."""
        return self._default.failures(key)


class Priorities:
    """The priorities of one controller's keys, by a function of the cached objects."""

    def __init__(self, by: Callable[[Metadata, str], int], watches: ControllerWatches, failed: Failed) -> None:
        self._by = by
        self._watches = watches
        self._failed = failed

    def of(self, key: Key, reason: str, event: int = 0) -> int:
        """Return the priority of a key: the event's priority, plus the object's if the cache has the object."""
        cached = self._watches.primary.store.get(key.namespace, key.name)
        if cached is None:
            return event
        try:
            return event + operator.index(self._by(cached.metadata, reason))
        except Exception as error:  # noqa: BLE001  # a function of the operator: its error must not lose the key
            self._failed(".prioritized", key, error)
            return event
