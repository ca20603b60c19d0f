"""The deadline of a leader's writes. Pure, but for the clock that it is given.

The clock is `konverge.clock.boot_clock`: the lease of a suspended machine expires, and the time of its event loop stops.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from konverge.errors import NotLeading

__all__ = ["LeaseFence"]


class LeaseFence:
    """Lets writes through until a time of its clock, which each renewal moves; see `konverge.client.fence`.

    >>> fence = LeaseFence(lambda: 100.0)
    >>> fence.extend(110.0)
    >>> fence.check()
    >>> fence.remaining
    10.0
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        """Returns the time that is compared with the deadline."""
        self._until = -math.inf

    @property
    def until(self) -> float:
        """The deadline."""
        return self._until

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, below 0 from then on; the loop's timers wake later if the machine is suspended before."""
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
