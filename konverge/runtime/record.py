"""What happened lately: the last pass of each key, for `/debug` and `konverge explain`."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import asdict, dataclass
from typing import Any

from konverge.keys import Key

__all__ = ["History", "PassRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """One pass: when, why, how long, how it ended, what it wrote. No object content."""

    key: Key
    reconcile_id: str
    started: str
    duration: float
    reasons: tuple[str, ...]
    outcome: str
    error: str = ""
    writes: tuple[str, ...] = ()
    skipped: int = 0
    next_run: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data."""
        data = asdict(self)
        data["key"] = str(self.key)
        data["duration"] = round(self.duration, 6)
        return data


class History:
    """The last pass of up to `keys` keys and the last `recent` passes of all; the oldest go first."""

    def __init__(self, *, keys: int = 2000, recent: int = 50) -> None:
        self._limit = keys
        self._by_key: OrderedDict[Key, deque[PassRecord]] = OrderedDict()
        self._recent: deque[PassRecord] = deque(maxlen=recent)

    def add(self, record: PassRecord) -> None:
        """Note one pass."""
        self._recent.append(record)
        passes = self._by_key.setdefault(record.key, deque(maxlen=5))
        passes.append(record)
        self._by_key.move_to_end(record.key)
        if len(self._by_key) > self._limit:
            self._by_key.popitem(last=False)

    def forget(self, key: Key) -> None:
        """Drop a key that is gone."""
        self._by_key.pop(key, None)

    def of(self, key: Key) -> tuple[PassRecord, ...]:
        """Return the last passes of a key, oldest first."""
        return tuple(self._by_key.get(key, ()))

    def recent(self) -> tuple[PassRecord, ...]:
        """Return the last passes of all keys, oldest first."""
        return tuple(self._recent)
