"""The deadline of a leader's writes. Pure, but for the clock of the loop that it is given."""

from __future__ import annotations

import math
from collections.abc import Callable

from konverge.errors import NotLeading

__all__ = ["LeaseFence"]


class LeaseFence:
    """Lets writes through until a time of the loop, which each renewal moves; see `konverge.client.fence`.

    >>> fence = LeaseFence(lambda: 100.0)
    >>> fence.extend(110.0)
    >>> fence.check()
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._until = -math.inf

    @property
    def until(self) -> float:
        """The deadline, a time of the loop."""
        return self._until

    def check(self) -> None:
        """Raise NotLeading from the deadline on."""
        if self._time() >= self._until:
            raise NotLeading(
                "not sent: this process does not hold the lease any more. The replica that holds it does the work"
            )

    def extend(self, until: float) -> None:
        """Move the deadline."""
        self._until = until

    def close(self) -> None:
        """Let nothing through from now on."""
        self._until = -math.inf
