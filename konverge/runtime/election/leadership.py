"""The interface of leader election, and the turns of leading that controllers wait for."""

from __future__ import annotations

import asyncio
from typing import Protocol

from konverge.client import Fence

__all__ = ["Leadership", "Turn"]


class Leadership(Protocol):
    """Decides when this process may write. A manager calls `acquire` and `lost` in turns, and `release` once at the end."""

    @property
    def fence(self) -> Fence:
        """Refuses the writes of this process from the moment on when another may lead."""

    async def acquire(self) -> None:
        """Return once this process leads."""

    async def lost(self) -> None:
        """Return once it does not lead any more, after the fence has closed."""

    async def release(self) -> None:
        """Stop leading, or trying to; called when the last controller has ended and nothing is left to be written."""

    def problem(self) -> str:
        """Return why the election does not work, in words that say what to do; "" if it does."""

    def holder(self) -> str:
        """Return the identity that leads, as far as it is known; "" if none does."""


class Turn:
    """Whether this process leads now. `Turn(leads=True)` is the turn of a process that always leads.

    >>> turn = Turn()
    >>> turn.begin()
    >>> turn.leads, turn.number
    (True, 1)
    """

    def __init__(self, *, leads: bool = False) -> None:
        self.number = 0
        """How often this process has begun to lead."""
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()
        if leads:
            self.begin()
        else:
            self.end()

    @property
    def leads(self) -> bool:
        """Whether this process leads."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Begin to lead."""
        self.number += 1
        self._begun.set()
        self._ended.clear()

    def end(self) -> None:
        """Stand by."""
        self._begun.clear()
        self._ended.set()

    async def begun(self) -> None:
        """Wait until this process leads."""
        await self._begun.wait()

    async def ended(self) -> None:
        """Wait until it does not."""
        await self._ended.wait()
