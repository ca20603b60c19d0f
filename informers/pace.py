"""How long work on objects may go on before the event loop gets its turn.

Promises: all who share a `Pace` share one slice of time per turn of the loop, so that twenty informers that sync at once stall the
loop hardly longer than one: the slice begins with the end of the first piece of work in a turn, and each gets on by one piece.
`spent` is cheap enough to be asked for each object.
"""

from __future__ import annotations

import asyncio

__all__ = ["Pace"]


class Pace:
    """One slice of time per turn of the running loop.

    A worker asks `spent()` after each piece of work, and awaits `rest()` when it is.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._until: float | None = None

    def spent(self) -> bool:
        """Tell whether this turn's slice is used up; the first to ask in a turn begins it."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        if self._until is None:
            self._until = loop.time() + self._seconds
            # Called at the beginning of the next turn, before whoever rests now gets on.
            loop.call_soon(self._renew)
            return False
        return loop.time() >= self._until

    def _renew(self) -> None:
        self._until = None

    async def rest(self) -> None:
        """Give the loop its turn."""
        await asyncio.sleep(0)
