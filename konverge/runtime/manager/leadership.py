"""Leader election: its interface, and the process that always leads. An elected leader does not exist yet."""

from __future__ import annotations

from typing import Protocol

__all__ = ["AlwaysLeader", "Leadership"]


class Leadership(Protocol):
    """Decides when this process may write."""

    async def acquire(self) -> None:
        """Return once this process leads."""

    async def release(self) -> None:
        """Stop leading; called when the last controller has ended."""


class AlwaysLeader:
    """Leads from the start: one process, or several that never write the same objects."""

    async def acquire(self) -> None:
        """Lead at once."""

    async def release(self) -> None:
        """Do nothing."""
