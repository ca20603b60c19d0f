"""For how long Flux has said nothing about what it should be doing, and what follows from that. Pure.

Two silences differ. A controller that took the release up and hangs (Ready stays Unknown although Helm is done,
docs/reference/flux.md#traps, 5) is asked once more before the instance is called Stalled, since asking mends it. A spec that was not
taken up at all (the controller is frozen or gone, or the source-controller below it) is Stalled after the patience itself, for a new
install and an upgrade alike; asking is tried then too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.freshness import since
from konverge.reconcilers.apps.verdict import Facts, Say
from konverge.reconcilers.apps.words import Flux, Stalled

__all__ = ["Silence", "silence"]


@dataclass(frozen=True, slots=True)
class Silence:
    """Since when nothing was heard, from which controller, and when the instance is called Stalled. `hung`: the release was taken up."""

    since: datetime
    controller: str
    patience: timedelta
    hung: bool = False

    def lasts(self, now: datetime) -> timedelta:
        """Return for how long it has lasted."""
        return now - self.since

    def stalls(self, now: datetime) -> Say | None:
        """Return what Stalled says once patience is over, None before."""
        if self.lasts(now) < self.patience:
            return None
        return Say(True, Stalled.PROGRESS_DEADLINE_EXCEEDED, messages.forsaken(self.patience, self.controller))


def silence(facts: Facts) -> Silence | None:
    """Return the silence about a release that Flux should be rolling out; None where Flux has spoken, or has nothing to do."""
    release = facts.release
    if release is None or release.deleting or release.suspended or facts.held_back:
        return None
    helm, patience = "helm-controller", facts.stuck_after
    if facts.ready_is("Unknown"):
        start = since(facts.ready)
        return None if start is None else Silence(start, helm, 2 * patience, hung=True)
    if release.silent:
        return None if release.created is None else Silence(release.created, helm, patience)
    source = facts.source_behind or facts.waits_for_source
    if facts.waiting_since is None or (source and facts.trouble is not None) or not (source or not facts.current):
        return None
    at_work = since(release.find(Flux.RECONCILING)) if not source and facts.reconciling else None
    start = facts.waiting_since if at_work is None else max(facts.waiting_since, at_work)
    return Silence(start, "source-controller" if source else helm, patience)
