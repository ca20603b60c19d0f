"""The progress deadline of a rollout: since when Flux has reported no progress, and when the instance is Stalled.

Two cases differ. A controller that took the release up and hangs (Ready stays Unknown although Helm is done,
docs/reference/flux.md#traps, 5) gets a reconcile request first, since that repairs it, and the instance is Stalled after twice the
deadline. A spec that was not taken up at all (the controller, or source-controller below it, is frozen or missing) is Stalled after the
deadline itself, for an install and an upgrade alike; the request is sent then too.

Guarantees: pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.reconcilers.shared.helm_release import messages
from konverge.reconcilers.shared.helm_release.facts import ConditionValue, ReleaseFacts
from konverge.reconcilers.shared.helm_release.freshness import since
from konverge.reconcilers.shared.helm_release.words import Flux, Stalled

__all__ = ["NoProgress", "no_progress"]


@dataclass(frozen=True, slots=True)
class NoProgress:
    """A controller of Flux has reported no progress since a time; after `patience` the instance is Stalled.

    `hung`: the controller took the release up before.
    """

    since: datetime
    controller: str
    patience: timedelta
    hung: bool = False

    def lasts(self, now: datetime) -> timedelta:
        """Return the time without progress."""
        return now - self.since

    def stalled(self, now: datetime) -> ConditionValue | None:
        """Return the condition Stalled after `patience`, None before."""
        if self.lasts(now) < self.patience:
            return None
        return ConditionValue(
            True, Stalled.PROGRESS_DEADLINE_EXCEEDED, messages.no_progress(self.patience, self.controller)
        )


def no_progress(facts: ReleaseFacts) -> NoProgress | None:
    """Return since when a rollout has made no progress; None if Flux has reported a result, or has nothing to roll out."""
    release = facts.release
    if release is None or release.deleting or release.suspended or facts.held_back:
        return None
    helm, patience = "helm-controller", facts.stuck_after
    if facts.ready_is("Unknown"):
        start = since(facts.ready)
        return None if start is None else NoProgress(start, helm, 2 * patience, hung=True)
    if release.unreported:
        return None if release.created is None else NoProgress(release.created, helm, patience)
    source = facts.source_behind or facts.waits_for_source
    if (
        facts.waiting_since is None
        or (source and facts.source_failure is not None)
        or not (source or not facts.current)
    ):
        return None
    at_work = since(release.find(Flux.RECONCILING)) if not source and facts.reconciling else None
    start = facts.waiting_since if at_work is None else max(facts.waiting_since, at_work)
    return NoProgress(start, "source-controller" if source else helm, patience)
