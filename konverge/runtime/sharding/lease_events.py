"""Events and log lines about the Lease of this replica: what other writers do to it, and its loss."""

from __future__ import annotations

from konverge.logs import get_logger
from konverge.objects import Metadata
from konverge.runtime.election.record import LEASE
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.events.types import Regarding
from konverge.words import EventType, LogKey, Reason

__all__ = ["LeaseEvents"]


class LeaseEvents:
    """A `LeaseWitness` that says what it sees. It logs alone until `reports_to` is called."""

    def __init__(self, ring: str, namespace: str) -> None:
        self.member = ""
        """The member whose Lease it is."""
        self._ring = ring
        self._namespace = namespace
        self._events: EventRecorder | None = None
        self._log = get_logger("konverge.sharding").bind(**{LogKey.NAMESPACE: namespace, LogKey.NAME: ring})

    def reports_to(self, events: EventRecorder) -> None:
        """Record Events there. Its client is not fenced, since one tells of the loss of the Lease."""
        self._events = events

    def recreated(self, lease: Metadata) -> None:
        """Say that the Lease was deleted, and was created again."""
        self._tell(
            Reason.SHARD_LEASE_RECREATED,
            "another writer deleted the Lease of this member of the ring; it is created again, and no object moves",
            lease,
        )

    def edited(self, lease: Metadata, what: str) -> None:
        """Say that another writer has changed the Lease."""
        self._tell(
            Reason.SHARD_LEASE_EDITED,
            f"another writer changed the Lease of this member: {what}. The next renewal mends it, if it still names this holder",
            lease,
        )

    def lost(self, cause: str) -> None:
        """Say that this replica has ceased to be a member."""
        self._tell(
            Reason.SHARD_MEMBERSHIP_LOST,
            f"this replica is not a member of the ring any more: {cause}. Its reconciles end, other replicas take its objects when the "
            "Lease has run out for long enough, and it joins again under a new name",
            None,
        )

    def _tell(self, reason: str, note: str, lease: Metadata | None) -> None:
        self._log.warning(note, **{LogKey.IDENTITY: self.member, LogKey.EVENT_REASON: reason})
        if self._events is not None:
            uid, version = ("", "") if lease is None else (lease.uid, lease.resource_version)
            regarding = Regarding(LEASE, self._namespace, self.member, uid, version)
            self._events.record(regarding, reason, note, EventType.WARNING, "Shard")
