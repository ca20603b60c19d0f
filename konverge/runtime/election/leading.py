"""Leading and standing by, in terms."""

from __future__ import annotations

from konverge.errors import NotLeading
from konverge.runtime.election.record import LEASE
from konverge.runtime.hooks.leadership import Leadership, Term
from konverge.runtime.observability.readiness import ControllerReport, Obstacle, State
from konverge.tasks import Broadcast

__all__ = ["Leading"]


class Leading:
    """A leadership and its terms. Constructing it does nothing."""

    name = "leader-election"

    def __init__(self, leadership: Leadership, term: Term, readiness: Broadcast) -> None:
        self.leadership = leadership
        self.term = term
        self._readiness = readiness

    async def run(self) -> None:
        """Alternate between leading and standing by, until this call is cancelled."""
        while True:
            await self.leadership.acquire()
            self.term.begin()
            self._readiness.notify()
            await self.leadership.lost()
            self.term.end()
            self._readiness.notify()

    def leads(self) -> bool:
        """Return whether this process may write now."""
        try:
            self.leadership.fence.check()
        except NotLeading:
            return False
        return self.term.leads

    def report(self) -> ControllerReport:
        """Return whether this process leads, and the problem of a leadership that does not work."""
        problem = self.leadership.problem()
        if self.term.leads:
            # Not a failed check: this process leads until the lease expires, and its removal from a Service would repair nothing.
            unrenewed = f", but cannot renew its lease: {' '.join(problem.split())}" if problem else ""
            return ControllerReport(self.name, State.RUNNING, note=f"{self._leads_note()}{unrenewed}")
        problems = (Obstacle(LEASE.group_kind, "Unreachable", problem),) if problem else ()
        return ControllerReport(self.name, State.WAITING, problems, note=self._waits_note())

    def _leads_note(self) -> str:
        return "this process leads"

    def _waits_note(self) -> str:
        return f"stands by: {self.leadership.holder() or 'no replica'} leads"
