"""Events and log lines about the Lease of this replica: foreign changes, its loss, a second replica of the name, a jump of the clock."""

from __future__ import annotations

from collections.abc import Callable

from konverge.logs import get_logger
from konverge.objects import Metadata
from konverge.runtime.election.record import LEASE
from konverge.runtime.events.core import Regarding
from konverge.runtime.events.recorder import EventRecorder
from konverge.words import EventType, LogKey, Reason

__all__ = ["LeaseEvents"]


class LeaseEvents:
    """A `LeaseWitness` that reports its observations, in the log at once.

    Events are held back while this replica is not a member, since it writes nothing then; they are written after it has joined again.
    """

    def __init__(self, ring: str, namespace: str, holds: Callable[[], bool]) -> None:
        self.member = ""
        """The member whose Lease it is."""
        self._namespace = namespace
        self._holds = holds
        self._events: EventRecorder | None = None
        self._waiting: list[tuple[Regarding, str, str]] = []
        self._log = get_logger("konverge.sharding").bind(**{LogKey.NAMESPACE: namespace, LogKey.NAME: ring})

    def reports_to(self, events: EventRecorder) -> None:
        """Set the recorder of the Events."""
        self._events = events

    def joined(self, member: str) -> None:
        """Record that this replica is a member, under this name."""
        self.member = member
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._record(*event)

    def recreated(self, lease: Metadata) -> None:
        """Report that the Lease was deleted, and was created again."""
        self._tell(
            Reason.SHARD_LEASE_RECREATED,
            "another writer deleted the Lease of this member of the ring; it is created again, and no object moves",
            lease,
        )

    def edited(self, lease: Metadata, what: str) -> None:
        """Report that another writer has changed the Lease."""
        self._tell(
            Reason.SHARD_LEASE_EDITED,
            f"another writer changed the Lease of this member: {what}. The next renewal mends it, if it still names this holder",
            lease,
        )

    def lost(self, cause: str) -> None:
        """Report that this replica has ceased to be a member."""
        self._tell(
            Reason.SHARD_MEMBERSHIP_LOST,
            f"this replica is not a member of the ring any more: {cause}. Its reconciles end, other replicas take its objects when the "
            "Lease has run out for long enough, and it joins again under a new name",
            None,
        )

    def stands_by(self, lease: str, holder: str) -> None:
        """Report that another replica holds the Lease whose name, with 40 random bits, this replica has drawn."""
        self._tell_of_double(
            lease,
            f"another replica, {holder}, holds the Lease with the name that this one has drawn: two processes have one identity, as "
            "copies of a machine have. This one waits, and works on nothing, until the other has ended",
        )

    def has_double(self, other: str) -> None:
        """Report that another live member of the ring has the name of this replica."""
        self._tell_of_double(
            self.member,
            f"another live member of the ring, {other}, has the host name of this replica, as copies of one machine have. They are "
            "two members, and no object has two owners; unless both run on one machine, give each a host name of its own",
        )

    def clock_jumped(self, seconds: float) -> None:
        """Report that the wall clock of this replica has jumped."""
        note = (
            f"the wall clock of this replica jumped by {seconds:+.0f} s against its monotonic clock, or its machine was suspended. "
            "Membership is judged by the monotonic clock: no object moves for it. Times that this replica writes may be wrong"
        )
        self._log.warning(
            "the wall clock jumped",
            **{LogKey.IDENTITY: self.member, LogKey.EVENT_REASON: Reason.SHARD_CLOCK_JUMPED, LogKey.CAUSE: note},
        )
        self._record_or_wait(Regarding(LEASE, self._namespace, self.member, "", ""), Reason.SHARD_CLOCK_JUMPED, note)

    def _tell_of_double(self, lease: str, note: str) -> None:
        self._log.warning(
            "another replica has the identity of this one",
            **{LogKey.IDENTITY: lease, LogKey.EVENT_REASON: Reason.SHARD_IDENTITY_SHARED, LogKey.CAUSE: note},
        )
        self._record_or_wait(Regarding(LEASE, self._namespace, lease, "", ""), Reason.SHARD_IDENTITY_SHARED, note)

    def _tell(self, reason: str, note: str, lease: Metadata | None) -> None:
        self._log.warning(
            "the lease of this member was changed or lost",
            **{LogKey.IDENTITY: self.member, LogKey.EVENT_REASON: reason, LogKey.CAUSE: note},
        )
        uid, version = ("", "") if lease is None else (lease.uid, lease.resource_version)
        self._record_or_wait(Regarding(LEASE, self._namespace, self.member, uid, version), reason, note)

    def _record_or_wait(self, regarding: Regarding, reason: str, note: str) -> None:
        if self._holds():
            self._record(regarding, reason, note)
        else:
            self._waiting.append((regarding, reason, note))

    def _record(self, regarding: Regarding, reason: str, note: str) -> None:
        if self._events is not None:
            self._events.record(regarding, reason, note, EventType.WARNING, "Shard")
