"""How often a key may run: a minimum interval between starts, and a debounce that lets bursts of events settle.

Promises: with a minimum interval, no start of a key lies closer to its previous start; nothing else than time lifts that, not
even a retry. With a debounce, an event waits until `debounce` seconds passed without another one, and no longer than
`debounce_max` after the first. Both are off (0) by default. Neither touches what was asked for at a time (`add_after`,
retries): there the earliest time still wins over a debounce that would settle later.

Pure. Memory is bounded: each start forgets the starts of other keys that can no longer hold anything back.

controller-runtime has neither: https://github.com/kubernetes-sigs/controller-runtime/issues/857. cluster-api limits its reconcilers by a
wrapper: https://github.com/kubernetes-sigs/cluster-api/issues/13005. A debounce in kube-rs: https://github.com/kube-rs/kube/issues/1247
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Pace", "Starts"]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The pace of every key of one queue, in seconds.

    `min_interval` lies between two starts of the same key; `debounce` is the silence that an event waits for; `debounce_max`
    the longest such wait (default: ten times the debounce).

    >>> Pace(debounce=0.5).settles_at(first_event=10.0, now=10.25)
    10.75
    """

    min_interval: float = 0.0
    debounce: float = 0.0
    debounce_max: float | None = None

    def __post_init__(self) -> None:
        longest = self.debounce if self.debounce_max is None else self.debounce_max
        if not (0 <= self.min_interval < math.inf and 0 <= self.debounce <= longest < math.inf):
            raise ValueError(f"a pace needs finite seconds, none negative, and debounce <= debounce_max, got {self!r}")

    def settles_at(self, *, first_event: float, now: float) -> float:
        """Return when a burst settles that began at `first_event` and had an event just now."""
        longest = 10 * self.debounce if self.debounce_max is None else self.debounce_max
        return min(now + self.debounce, first_event + longest)


class Starts(Generic[K]):
    """When each key last started, remembered for as long as the minimum interval can hold it back.

    >>> starts = Starts[str](min_interval=10)
    >>> starts.note("a", now=5.0)
    >>> starts.earliest("a"), starts.earliest("b")
    (15.0, -inf)
    """

    def __init__(self, min_interval: float) -> None:
        self._interval = min_interval
        # In the order of starts, so that what has lapsed is found at the front.
        self._last: OrderedDict[K, float] = OrderedDict()

    def note(self, key: K, now: float) -> None:
        """Remember that the key starts now."""
        if not self._interval:
            return
        self._last[key] = now
        self._last.move_to_end(key)
        while self._last and next(iter(self._last.values())) + self._interval <= now:
            self._last.popitem(last=False)

    def earliest(self, key: K) -> float:
        """Return the time before which the key must not start again; minus infinity where nothing holds it back."""
        last = self._last.get(key)
        return -math.inf if last is None else last + self._interval

    def __len__(self) -> int:
        return len(self._last)
