"""Leading and standing by in turns, by leader election or as a member of a ring."""

from __future__ import annotations

from konverge.errors import NotLeading
from konverge.runtime.election.leadership import Leadership, Turn
from konverge.runtime.election.record import LEASE
from konverge.runtime.observability.readiness import ControllerReport, Obstacle, State
from konverge.runtime.sharding.ordinal import OrdinalRing
from konverge.runtime.sharding.ring import Ring
from konverge.tasks import Broadcast

__all__ = ["Leading"]


class Leading:
    """A leadership, and its turns. Constructing it does nothing."""

    def __init__(self, leadership: Leadership, turn: Turn, readiness: Broadcast) -> None:
        self.leadership = leadership
        self.turn = turn
        self._readiness = readiness

    async def run(self) -> None:
        """Lead and stand by in turns, until it is cancelled."""
        while True:
            await self.leadership.acquire()
            self.turn.begin()
            self._readiness.notify()
            await self.leadership.lost()
            self.turn.end()
            self._readiness.notify()

    @property
    def leads(self) -> bool:
        """Whether this process may write now."""
        try:
            self.leadership.fence.check()
        except NotLeading:
            return False
        return self.turn.leads

    def report(self) -> ControllerReport:
        """Return whether this process leads, and if the leadership does not work why."""
        problem, holder = self.leadership.problem(), self.leadership.holder()
        member = isinstance(self.leadership, Ring | OrdinalRing)
        name = "shard-ring" if member else "leader-election"
        if self.turn.leads:
            # Not a failed check: it leads until the lease runs out, and taking it out of its Service would mend nothing.
            unrenewed = f", but cannot renew its lease: {' '.join(problem.split())}" if problem else ""
            leads = f"this process is {holder}" if member else "this process leads"
            return ControllerReport(name, State.RUNNING, note=f"{leads}{unrenewed}")
        problems = (Obstacle(LEASE.group_kind, "Unreachable", problem),) if problem else ()
        waits = "is not a member yet" if member else f"stands by: {holder or 'no replica'} leads"
        return ControllerReport(name, State.WAITING, problems, note=waits)
