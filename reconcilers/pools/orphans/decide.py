"""When an instance is marked as an orphan, and when its grace time ends. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from konverge.clock import from_rfc3339, rfc3339
from konverge.model import Model
from konverge.objects import Metadata
from konverge.outcome import RequeueAfter
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.orphans.observe import ObservedOrphan
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsEvent
from konverge.runtime import Patch, Plan, PlannedEvent
from konverge.words import EventType

__all__ = ["is_due", "is_orphan", "plan_claim"]


def is_orphan(observed: ObservedOrphan) -> bool:
    """Whether the Nextcloud of the claim does not exist, or does not have the member of a pool in its status."""
    return not observed.settled and (not observed.exists or observed.unconfirmed)


def is_due(observed: ObservedOrphan, now: datetime, grace: timedelta) -> bool:
    """Whether the grace time of an orphan has ended."""
    since = _since(observed.marked, now)
    return is_orphan(observed) and since is not None and since + grace <= now


def plan_claim(observed: ObservedOrphan, now: datetime, grace: timedelta) -> Plan[Model]:
    """Mark an orphan with an Event, or remove the mark of another instance; an orphan within its grace time waits.

    A claim whose Nextcloud exists and does not confirm it yet is decided again after the grace time: no event follows if a pool records the
    instance, or the Nextcloud drops it, later.
    """
    if observed.settled:
        return Plan()
    if not is_orphan(observed):
        unmarked = (_mark(observed.instance, None),) if observed.marked else ()
        return Plan(patches=unmarked, outcome=RequeueAfter(grace))
    since = _since(observed.marked, now)
    if since is not None:
        return Plan(outcome=RequeueAfter(since + grace - now))
    return Plan(
        patches=(_mark(observed.instance, rfc3339(now)),),
        events=() if observed.marked else (_event(observed, grace),),
        outcome=RequeueAfter(grace),
    )


def _event(observed: ObservedOrphan, grace: timedelta) -> PlannedEvent:
    reason, fault = PoolsEvent.ORPHANED, f"Nextcloud {observed.path} is gone without having released it"
    if observed.exists:
        reason, fault = PoolsEvent.CLAIM_UNCONFIRMED, f"Nextcloud {observed.path} does not have it in its status"
    return PlannedEvent(reason, f"{fault}; it is reclaimed in {grace}", EventType.WARNING)


def _mark(instance: Metadata, since: str | None) -> Patch:
    patch = {"metadata": {"uid": instance.uid, "annotations": {PoolsAnnotation.ORPHANED_SINCE: since}}}
    return Patch(INSTANCE, patch, instance.name, instance.namespace)


def _since(text: str, now: datetime) -> datetime | None:
    """Return the time of a mark; None without a readable past time: another writer set it, and the grace time might never end."""
    try:
        since = from_rfc3339(text)
    except ValueError:
        return None
    return since if since <= now else None
