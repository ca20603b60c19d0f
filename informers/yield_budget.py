"""The time that work on objects may take before it yields to the event loop.

Guarantees: the tasks that share a `YieldBudget` share one slice of time per iteration of the loop, so twenty informers that sync at once
stall the loop hardly longer than one. The slice begins at the end of the first piece of work in an iteration, and each task does at least
one piece per iteration. `spent` is cheap enough to be called for each object.
"""

from __future__ import annotations

import asyncio

__all__ = ["YieldBudget"]


class YieldBudget:
    """One slice of time per iteration of the running loop.

    A task calls `spent()` after each piece of work, and awaits `yield_turn()` if it returns true.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        # The end of this iteration's slice; None until the first call of `spent` in an iteration.
        self._until: float | None = None

    def spent(self) -> bool:
        """Report whether this iteration's slice is used up; the first call in an iteration begins the slice."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        if self._until is None:
            self._until = loop.time() + self._seconds
            # Runs at the beginning of the next iteration, before the tasks that yield in this iteration continue.
            loop.call_soon(self._renew)
            return False
        return loop.time() >= self._until

    def _renew(self) -> None:
        self._until = None

    async def yield_turn(self) -> None:
        """Yield to the event loop once."""
        await asyncio.sleep(0)
