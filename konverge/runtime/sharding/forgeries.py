"""Stamps that another writer changed, by object: the delay of our next stamp, and whether a warning is due. Pure.

    the first changes   written again at once
    further changes     after 1 s, 2 s, 4 s ... `longest`, until a minute passes without a change
    a warning           for the first change, then at most once in ten minutes for the changes since

Guarantees: however often a writer of an object changes its stamp, our writes, reconciles and log lines for the object are bounded in
each minute, and no other object is delayed. The memory is bounded.

Caveats: if more objects than `size` are changed one after another, some are written again and reported sooner.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

__all__ = ["Forgeries"]

_AT_ONCE: Final = 3
"""Changes of one stamp after which it is written again at once: an edit by hand, a late write."""
_PEACE: Final = 60.0
"""Seconds without a change; the next change after them counts as the first."""
_QUIET: Final = 600.0
"""Seconds between two warnings for one object."""
_DOUBLINGS: Final = 16
_SIZE: Final = 4096


@dataclass(slots=True)
class _Changes:
    changed_at: float
    level: int = 0
    wait_until: float = -math.inf
    warned_at: float = -math.inf
    unreported: int = 0
    waits: bool = False
    """Whether our stamp was not written since the delay began."""


class Forgeries:
    """The stamps that other writers changed, by the uids of the objects.

    >>> forgeries = Forgeries(longest=15.0)
    >>> for second in range(4):
    ...     count = forgeries.note("7f3a", now=float(second))
    ...     if not forgeries.wait("7f3a", now=float(second)):
    ...         forgeries.wrote("7f3a")
    >>> forgeries.wait("7f3a", now=3.0), forgeries.wait("another", now=3.0)
    (1.0, 0.0)
    """

    def __init__(self, longest: float, *, size: int = _SIZE) -> None:
        self._longest = longest
        self._size = size
        self._objects: OrderedDict[str, _Changes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def note(self, uid: str, now: float) -> int:
        """Record a change; returns the number of changes that a warning reports now, 0 for no warning."""
        changes = self._objects.setdefault(uid, _Changes(now))
        self._objects.move_to_end(uid)
        if len(self._objects) > self._size:
            self._objects.popitem(last=False)
        if now - changes.changed_at > _PEACE:
            changes.level = 0
        changes.changed_at = now
        changes.unreported += 1
        if not changes.waits:
            # Changes during a wait do not lengthen it, so that the object is reconciled however often its stamp is changed.
            changes.waits = True
            changes.level = min(changes.level + 1, _AT_ONCE + _DOUBLINGS)
            more = changes.level - _AT_ONCE
            changes.wait_until = now + (min(self._longest, 2.0 ** (more - 1)) if more > 0 else 0.0)
        if now - changes.warned_at < _QUIET:
            return 0
        changes.warned_at = now
        count, changes.unreported = changes.unreported, 0
        return count

    def wrote(self, uid: str) -> None:
        """Record that our stamp was sent."""
        if uid in self._objects:
            self._objects[uid].waits = False

    def wait(self, uid: str, now: float) -> float:
        """Return how many seconds the next stamp of an object waits."""
        changes = self._objects.get(uid)
        return 0.0 if changes is None else max(0.0, changes.wait_until - now)
