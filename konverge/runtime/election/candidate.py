"""One candidate: its view of the Lease, and its next step. Pure: a value of the loop's clock is an argument of each method.

    absent                          create it
    released                        take it
    held, changed within duration   wait
    held, unchanged for duration    take it
    by this candidate               renew it

Guarantees: the lease of another holder counts from the moment when this candidate saw its record change, on its own monotonic clock;
times of the record are never compared with it. Only a term that this candidate began itself is its own, whatever identity the record
names: two replicas with one identity do not both lead. A leader whose Lease was deleted creates it again.

Caveats: three differences from client-go, all on the safe side. A restarted process with a stable identity waits for the end of its
former lease, instead of taking it back at once. If a Lease was deleted, or its holder emptied by hand, another candidate waits for the
last holder's duration, instead of taking it at once.

Source: https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from konverge.objects import compare_versions
from konverge.runtime.election.record import LeaseRecord
from konverge.runtime.election.settings import ElectionSettings

__all__ = ["Candidate", "Create", "SeenLease", "Step", "Update", "WaitUntil"]


@dataclass(frozen=True, slots=True)
class SeenLease:
    """An observed state of the Lease."""

    version: str
    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Create:
    """Create the Lease with this record."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the record of this state of the Lease."""

    seen: SeenLease
    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Do nothing before this time of the loop, unless the Lease changes."""

    time: float


Step = Create | Update | WaitUntil


class Candidate:
    """One replica's view of the election.

    >>> from datetime import UTC
    >>> candidate, noon = Candidate("b", ElectionSettings()), datetime(2026, 1, 1, tzinfo=UTC)
    >>> candidate.observe(SeenLease("7", LeaseRecord(holder="a", duration=15)), now=100.0)
    >>> candidate.next_step(now=101.0, clock=noon)
    WaitUntil(time=115.0)
    >>> type(candidate.next_step(now=115.0, clock=noon)).__name__
    'Update'
    """

    def __init__(self, identity: str, settings: ElectionSettings) -> None:
        self.identity = identity
        self._settings = settings
        self._seen: SeenLease | None = None
        self._absent = False
        self._last = LeaseRecord()
        self._changed_at = 0.0
        self._own: LeaseRecord | None = None
        """A record of this candidate's present term; None while it has none."""
        self._tried: LeaseRecord | None = None
        """The record of a term that this candidate may have begun: the response was lost."""

    @property
    def leads(self) -> bool:
        """Whether the present term is this candidate's own, by its last observation."""
        return self._own is not None

    @property
    def absent(self) -> bool:
        """Whether the Lease was absent when this candidate last looked."""
        return self._absent

    @property
    def in_doubt(self) -> bool:
        """Whether this candidate may have begun a term that it has not seen."""
        return self._tried is not None

    @property
    def holder(self) -> str:
        """The holder in the last state that was seen."""
        return "" if self._absent else self._last.holder

    @property
    def _present(self) -> SeenLease | None:
        return None if self._absent else self._seen

    def observe(self, lease: SeenLease, now: float) -> None:
        """Record a state of the Lease; a state older than the last is ignored."""
        if self.is_old(lease.version):
            return
        if self._seen is None or lease.record != self._last:
            self._changed_at, self._last = now, lease.record
        self._seen, self._absent = lease, False
        own = self._own or self._tried
        self._own = lease.record if own is not None and own.same_term(lease.record) else None
        self._tried = None

    def observe_absence(self, version: str = "") -> None:
        """Record that the Lease is absent; `version` is the version of its deletion, if known."""
        if not (version and self.is_old(version)):
            self._absent = True

    def is_old(self, version: str) -> bool:
        """Return whether a version is older than the last observed state."""
        return self._seen is not None and (compare_versions(version, self._seen.version) or 0) < 0

    def next_step(self, now: float, clock: datetime) -> Step:
        """Return the step that is due now; `clock` is the wall time for the record."""
        present = self._present
        if self._own is not None:
            record = self._own.renewed_at(clock)
        else:
            free_at = self._free_at()
            if now < free_at:
                return WaitUntil(free_at)
            record = self._last.taken(self.identity, self._settings.lease_seconds, clock)
        return Create(record) if present is None else Update(present, record)

    def _free_at(self) -> float:
        """Return the earliest time to take the lease."""
        if self._seen is None or self._last.released:
            return 0.0
        return self._changed_at + (self._last.duration or self._settings.lease_seconds)

    def wrote(self, lease: SeenLease, now: float) -> None:
        """Record this candidate's successful create or update; later states may have been observed before its response."""
        self._tried = None
        if not self.is_old(lease.version):
            self._own = lease.record
            self.observe(lease, now)

    def may_have_written(self, record: LeaseRecord) -> None:
        """Record a create or an update whose response was lost: if the Lease shows this term later, it is this candidate's own term."""
        if self._own is None:
            self._tried = record

    def give_up(self) -> None:
        """End the term: the time to renew is over. Even if the record still names this candidate, it then waits for the expiry."""
        self._own = None

    def release(self, clock: datetime) -> Update | None:
        """Return the step that gives the lease back; None if another candidate holds the lease."""
        present = self._present
        if self._own is None or present is None:
            return None
        return Update(present, present.record.given_back(clock))
