"""The deadline of a leader's writes. Pure, except for the clock, which is an argument.

The clock is `konverge.clock.boot_clock`: while a machine is suspended its lease expires, but the event loop's clock stops.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from konverge.errors import NotLeading

__all__ = ["LeaseFence"]


class LeaseFence:
    """Lets writes through until a deadline, which each renewal moves; see `konverge.client.fence`.

    >>> fence = LeaseFence(lambda: 100.0)
    >>> fence.extend(110.0)
    >>> fence.check()
    >>> fence.remaining
    10.0
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        """Returns the time to compare with the deadline."""
        self._until = -math.inf

    @property
    def until(self) -> float:
        """The deadline."""
        return self._until

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, below 0 after it; the loop's timers wake later if the machine was suspended."""
        return self._until - self.now()

    @property
    def open(self) -> bool:
        """Whether writes go through."""
        return self.remaining > 0

    def check(self) -> None:
        """Raise NotLeading from the deadline on."""
        if not self.open:
            raise NotLeading(
                "not sent: this process does not hold the lease any more. The replica that holds it does the work"
            )

    def extend(self, until: float) -> None:
        """Move the deadline."""
        self._until = until

    def close(self) -> None:
        """Let nothing through from now on."""
        self._until = -math.inf
