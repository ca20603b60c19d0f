"""The keys of one controller whose reconcile waits until the cache shows its own writes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from konverge.keys import Key
from konverge.runtime.consistency.barrier import pause

__all__ = ["BarrierWaits"]


@dataclass(slots=True)
class _Waiting:
    since: float
    reasons: tuple[str, ...] = ()


class BarrierWaits:
    """Since when each key waits, and for which reasons it was enqueued.

    >>> from konverge.kinds import kind
    >>> waits, key = BarrierWaits(limit=10), Key("", kind("v1", "Pod"), "web", "a")
    >>> waits.pause(key, ("created",), 0.0), waits.pause(key, ("changed",), 0.125), waits.pause(key, (), 10.0)
    (0.005, 0.125, None)
    >>> waits.take(key, ("changed", "resync"))
    ('created', 'changed', 'resync')
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._waiting: dict[Key, _Waiting] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def pause(self, key: Key, reasons: tuple[str, ...], now: float) -> float | None:
        """Return the seconds until the cache is looked at again; None if the key has waited for as long as it may."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(now)
        waited = now - waiting.since
        if waited >= self._limit:
            return None
        waiting.reasons = tuple(dict.fromkeys((*waiting.reasons, *reasons)))
        return pause(waited)

    def take(self, key: Key, reasons: tuple[str, ...]) -> tuple[str, ...]:
        """End the wait of a key; return the reasons from before and from now."""
        waiting = self._waiting.pop(key, None)
        return reasons if waiting is None else tuple(dict.fromkeys((*waiting.reasons, *reasons)))

    def forget(self, key: Key) -> None:
        """Drop a key that is gone."""
        self._waiting.pop(key, None)
