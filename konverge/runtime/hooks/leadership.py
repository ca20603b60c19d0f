"""The hook of leadership: when this process may write, and the terms that controllers wait for."""

from __future__ import annotations

import asyncio
from typing import Protocol

from konverge.client import Fence

__all__ = ["Leadership", "Term"]


class Leadership(Protocol):
    """Decides when this process may write. A manager alternates `acquire` and `lost`, and calls `release` once at the end."""

    @property
    def fence(self) -> Fence:
        """Refuses the writes of this process as soon as another process may lead."""

    async def acquire(self) -> None:
        """Return once this process leads."""

    async def lost(self) -> None:
        """Return once this process no longer leads, after the fence has closed."""

    async def release(self) -> None:
        """Give up leading or waiting; called after the last reconcile and the last write."""

    def problem(self) -> str:
        """Return why the election does not work, with the remedy; "" if it works."""

    def holder(self) -> str:
        """Return the identity of the known leader; "" if no process leads."""


class Term:
    """The terms of this process as the leader. `Term(leads=True)` is the term of a process that always leads.

    >>> term = Term()
    >>> term.begin()
    >>> term.leads, term.number
    (True, 1)
    """

    def __init__(self, *, leads: bool = False) -> None:
        self.number = 0
        """The number of terms so far."""
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
        """End the term."""
        self._begun.clear()
        self._ended.set()

    async def begun(self) -> None:
        """Wait until this process leads."""
        await self._begun.wait()

    async def ended(self) -> None:
        """Wait until this process does not lead."""
        await self._ended.wait()
