"""How often a key may run: a minimum interval between starts, and a debounce that lets bursts of events settle.

Guarantees: with a minimum interval, two starts of a key are at least that far apart, retries included. With a debounce, an event
waits until `debounce` seconds pass without another event, and at most `debounce_max` after the first event. Both are off (0) by
default. An add with a time (`add_after`, a retry) is not debounced: the earlier of the add's time and the end of the debounce wins.

Pure. Memory is bounded: each start drops the recorded starts that are older than the interval.

controller-runtime has neither: https://github.com/kubernetes-sigs/controller-runtime/issues/857. cluster-api limits its reconcilers by a
wrapper: https://github.com/kubernetes-sigs/cluster-api/issues/13005. A debounce in kube-rs: https://github.com/kube-rs/kube/issues/1247
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Throttle", "Starts"]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Minimum interval and debounce of every key of one queue, in seconds.

    `min_interval` is the least time between two starts of the same key. `debounce` is the time without events that an event waits for,
    `debounce_max` the longest such wait (default: ten times `debounce`).

    >>> Throttle(debounce=0.5).settles_at(first_event=10.0, now=10.25)
    10.75
    """

    min_interval: float = 0.0
    debounce: float = 0.0
    debounce_max: float | None = None

    def __post_init__(self) -> None:
        longest = self.debounce if self.debounce_max is None else self.debounce_max
        if not (0 <= self.min_interval < math.inf and 0 <= self.debounce <= longest < math.inf):
            raise ValueError(
                f"a throttle needs finite seconds, none negative, and debounce <= debounce_max, got {self!r}"
            )

    def settles_at(self, *, first_event: float, now: float) -> float:
        """Return the end of the debounce of a burst that began at `first_event` and had an event just now."""
        longest = 10 * self.debounce if self.debounce_max is None else self.debounce_max
        return min(now + self.debounce, first_event + longest)


class Starts(Generic[K]):
    """The last start of each key, kept for the minimum interval.

    >>> starts = Starts[str](min_interval=10)
    >>> starts.note("a", now=5.0)
    >>> starts.earliest("a"), starts.earliest("b")
    (15.0, -inf)
    """

    def __init__(self, min_interval: float) -> None:
        self._interval = min_interval
        # Ordered by start time, so that the expired starts are at the front.
        self._last: OrderedDict[K, float] = OrderedDict()

    def note(self, key: K, now: float) -> None:
        """Record that the key starts now."""
        if not self._interval:
            return
        self._last[key] = now
        self._last.move_to_end(key)
        while self._last and next(iter(self._last.values())) + self._interval <= now:
            self._last.popitem(last=False)

    def earliest(self, key: K) -> float:
        """Return the earliest time of the key's next start, minus infinity if the interval does not limit it."""
        last = self._last.get(key)
        return -math.inf if last is None else last + self._interval

    def __len__(self) -> int:
        return len(self._last)
