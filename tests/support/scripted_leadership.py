"""A leadership whose terms a test begins and ends by hand."""

import asyncio

from konverge.runtime.election.fence import LeaseFence


class ScriptedLeadership:
    """Leads from the start by default: `lose` ends a term, `win` begins a term."""

    def __init__(self, *, leads: bool = True) -> None:
        self.fence = LeaseFence(lambda: 0.0)
        self.released = False
        self._won, self._lost = asyncio.Event(), asyncio.Event()
        if leads:
            self.win()

    def win(self) -> None:
        self.fence.extend(1.0)
        self._lost.clear()
        self._won.set()

    def lose(self) -> None:
        self.fence.close()
        self._won.clear()
        self._lost.set()

    async def acquire(self) -> None:
        await self._won.wait()

    async def lost(self) -> None:
        await self._lost.wait()

    async def release(self) -> None:
        self.released = True

    def problem(self) -> str:
        return ""

    def holder(self) -> str:
        return "this test" if self._won.is_set() else "another"
