"""The verbs that declare functions in place of the numbers of a controller's queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Self, TypeAlias, TypeVar

from msgspec.structs import replace

from konverge.errors import UsageError
from konverge.keys import Key
from konverge.kinds import Resource
from konverge.objects import Metadata
from konverge.runtime.builder.numbers import Numbers
from konverge.runtime.builder.spec import ControllerSpec
from konverge.workqueue import Limiter

__all__ = ["QueueVerbs"]

R = TypeVar("R", bound=Resource)

RetryDelay: TypeAlias = Callable[[Key, int], float]


class QueueVerbs(ControllerSpec[R], frozen=True):
    """The verbs of a controller's retries and priorities."""

    def retries(self, *, delay: RetryDelay | None = None, limiter: Callable[[], Limiter[Key]] | None = None) -> Self:
        """Compute the delays of retries, in place of `base_delay` and `max_delay` (`RateLimiter`).

        `delay(key, failures)` returns the seconds until the retry; `failures` is 1 at the first failure in a row. `limiter()` returns a
        `Limiter`, which may consider all keys, and is called at each start of the controller, so that no state is shared:
        `limiter=lambda: kv.MaxOf(kv.ItemExponential(base=1, cap=60), kv.Bucket(rate=1, burst=10))`. Exactly one of the two is given.

        Guarantees: an event of a key in backoff runs it at once, and while the retry is more than 5 s off, a failure of such a run counts
        for nothing. A success starts the count again. If the function raises, or returns no number of 0 or more, the error is logged and
        the default delay is used. The delay of `RetryAfter` takes precedence.

        >>> from konverge.kinds import kind
        >>> from konverge.runtime.builder.builder import Controller
        >>> backups = Controller.of(kind("example.com/v1", "Backup")).retries(delay=lambda key, failures: min(30 * failures, 600))
        """
        if (delay is None) == (limiter is None):
            raise UsageError(f"controller {self.name!r}: .retries(): give delay= or limiter=, one of the two")
        numbers, default = self.numbers, Numbers()
        if (numbers.base_delay, numbers.max_delay) != (default.base_delay, default.max_delay):
            raise UsageError(f"controller {self.name!r}: .retries() replaces base_delay and max_delay: leave them out")
        return replace(self, limiter=limiter if delay is None else partial(DelayByFailures, delay))

    def prioritized(self, by: Callable[[Metadata, str], int]) -> Self:
        """Reconcile some objects before others: `by(metadata, reason)` returns a number, the greater the sooner (`UsePriorityQueue`).

        The number is added to the priority of the event: 0, or -100 for the first list and resyncs, as in controller-runtime. `metadata`
        is the cached object's, and `reason` is one of `ctx.reasons`. The function is called for each enqueued key of a cached object, so
        it must be quick. Retries and requeues keep the priority of their run. Use few different numbers: each is a series of
        `workqueue_depth`.

        Guarantees: of the keys that are ready, the key with the highest priority is reconciled first, and the first enqueued of equal
        keys. No key starves: one of ten reconciles is of the key that has been ready for longest. If the function raises, or returns no
        integer, the error is logged and the priority of the event is used.

        >>> from konverge.kinds import kind
        >>> from konverge.runtime.builder.builder import Controller
        >>> gold_first = Controller.of(kind("example.com/v1", "Backup")).prioritized(lambda m, _: 10 * (m.label("tier") == "gold"))
        """
        return replace(self, priority=by)


class DelayByFailures:
    """A limiter whose delay is a function of the key and its failures."""

    def __init__(self, delay: RetryDelay) -> None:
        self._delay = delay
        self._failures: dict[Key, int] = {}

    def when(self, key: Key, now: float) -> float:  # noqa: ARG002  # the protocol passes the time; this delay does not depend on it
        """Count one failure and return the delay."""
        self._failures[key] = failures = self.failures(key) + 1
        return self._delay(key, failures)

    def forget(self, key: Key) -> None:
        """Start the key at no failures again."""
        self._failures.pop(key, None)

    def failures(self, key: Key) -> int:
        """Return how often the key failed since it was forgotten."""
        return self._failures.get(key, 0)
