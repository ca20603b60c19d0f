"""Leader election as a part of a manager: controllers that share nothing work while this process leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager

from konverge.rbac import Rule
from konverge.runtime.election.leading import Leading
from konverge.runtime.election.rights import rules_of_election
from konverge.runtime.election.settings import ElectionSettings
from konverge.runtime.hooks.leadership import Leadership, Term
from konverge.runtime.observability.readiness import Report
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart
from konverge.tasks import cancel_and_wait

__all__ = ["Election"]


class Election(ManagerPart):
    """Takes part in an election, if the settings enable it. `leadership` replaces the election by a Lease."""

    def __init__(
        self, core: Core, settings: Callable[[], ElectionSettings], leadership: Leadership | None = None
    ) -> None:
        self._core = core
        self._settings = settings
        self._given = leadership
        self._leading: Leading | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Open the election and the fenced client; at the end the Lease is released within the deadlines of the election."""
        core = self._core
        async with AsyncExitStack() as stack:
            leadership = await self._leadership(stack)
            if leadership is not None:
                core.plugged.leadership, core.term = leadership, Term()
                core.leader_client = core.client.fenced_by(leadership.fence)
                if core.leader_client is not core.client:
                    stack.push_async_callback(core.leader_client.close)
                self._leading = Leading(leadership, core.term, core.readiness)
                core.plugged.leads.append(self._leading.leads)
            try:
                yield
            finally:
                await cancel_and_wait(*self._tasks)

    async def _leadership(self, stack: AsyncExitStack) -> Leadership | None:
        core, settings = self._core, self._settings()
        if self._given is not None:
            stack.push_async_callback(self._given.release)
            return self._given
        if not settings.enabled:
            return None
        assert core.config is not None
        from konverge.runtime.election.elector import LeaseElection  # needed with an election only

        return await stack.enter_async_context(
            LeaseElection(
                core.config, settings, name=core.name, host=core.instance, metrics=core.metrics, random=core.random
            )
        )

    async def start(self) -> None:
        """Start to apply for the leadership."""
        if self._leading is not None:
            work = self._leading.run()
            self._tasks.append(asyncio.create_task(work, name=f"konverge leadership {self._core.name}"))

    def tasks(self) -> Collection[asyncio.Task[None]]:
        """Return the task of the election's terms."""
        return self._tasks

    def rules(self) -> tuple[Rule, ...]:
        """Return the rights on the Lease."""
        return rules_of_election(self._settings(), self._core.name)

    def report(self) -> Report:
        """Return whether the election works, and the leader."""
        return Report((), election=None if self._leading is None else self._leading.report())
