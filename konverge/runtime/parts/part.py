"""The interface of a part of a manager."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext

from konverge.rbac import Rule
from konverge.runtime.observability.readiness import Report

__all__ = ["ManagerPart"]


class ManagerPart:
    """A part that does nothing; each part overrides the methods that it needs. Constructing a part starts nothing."""

    def open(self) -> AbstractAsyncContextManager[object]:
        """Open what the part owns; leaving the context closes it."""
        return nullcontext()

    async def start(self) -> None:
        """Start the tasks of the part, after every part is open."""

    def tasks(self) -> Collection[asyncio.Task[None]]:
        """Return the running tasks, whose failure ends the manager."""
        return ()

    async def drain(self) -> None:
        """End the work in progress, before any part closes."""

    def rules(self) -> tuple[Rule, ...]:
        """Return the RBAC rules that the part needs."""
        return ()

    def report(self) -> Report:
        """Return whether the part works; a part without a report returns an empty report."""
        return Report(())
