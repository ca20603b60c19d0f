"""The objects of one replica in the mode `coordinator`: each has a label with the replica's name. Stamp, epoch and fence are the same as
in `hash`.

Guarantees: an object that leaves the cache because its label was changed is not taken for deleted: no finalizer runs, and this replica
forgets its own stamp. While a reconcile of it runs on this replica, its stamp is not cleared here.
"""

from __future__ import annotations

from collections.abc import Hashable

from konverge.client import Client
from konverge.keys import Key
from konverge.metrics import Metrics
from konverge.objects import Metadata
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.sharding.assignment import Assignment, drain_mark_of, label_of, read_assignment
from konverge.runtime.sharding.ownership import Ownership
from konverge.runtime.sharding.ring import Ring

__all__ = ["AssignedOwnership"]


class AssignedOwnership(Ownership):
    """Which objects this replica owns, among the objects that the coordinator gave to it."""

    def __init__(self, ring: Ring, client: Client, events: EventRecorder, metrics: Metrics, *, manager: str) -> None:
        super().__init__(ring, client, events, metrics, manager=manager)
        self._label, self._mark = label_of(ring.name), drain_mark_of(ring.name)

    @property
    def selector(self) -> str:
        """The label of this replica: its caches hold no other objects."""
        return f"{self._label}={self.ring.replica}"

    def _assignment(self, metadata: Metadata) -> Assignment:
        return read_assignment(metadata.labels, metadata.annotations, self._label, self._mark)

    def desired(self, metadata: Metadata, family: str) -> str:  # noqa: ARG002  # the coordinator decides by the family
        """Return this member for an object that it should own, else the replica that should have it; "" for none."""
        assignment = self._assignment(metadata)
        if assignment.drain and assignment.drain != self.ring.replica:
            return assignment.drain
        return self.ring.member if assignment.replica == self.ring.replica else assignment.replica

    def observe(self, key: Key, old: Metadata | None, new: Metadata | None, writer: Hashable) -> bool:
        """Record a change of an object; returns whether its stamp or its assignment changed."""
        changed = super().observe(key, old, new, writer)
        moved = old is not None and new is not None and self._assignment(old) != self._assignment(new)
        return changed or moved
