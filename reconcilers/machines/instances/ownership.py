"""Which instance belongs to an NstanceMachine. Pure.

Anyone who may write an NstanceMachine writes its annotations, its owner references and `spec.providerID`, so none of them proves that an
instance was created for the object. Two facts do: the id that is derived from uid and time of creation, and the status, which no user
writes. After a move an administrator may permit the takeover of the instance that an annotation names. An instance belongs to one object at
most.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from konverge.reconcilers.machines.words import MachineReason

__all__ = ["InstanceClaim", "InstancePlace", "NotPlaced", "instance_id", "not_of_group", "owned_place"]


@dataclass(frozen=True, slots=True)
class InstancePlace:
    """The shard and the id of an instance.

    >>> InstancePlace.parse("us-west-2a/knc01")
    InstancePlace(shard='us-west-2a', instance_id='knc01')
    """

    shard: str
    instance_id: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read an annotation; None if it names no place."""
        shard, slash, instance = text.partition("/")
        return cls(shard, instance) if slash and shard and instance and "/" not in instance else None

    def __str__(self) -> str:
        return f"{self.shard}/{self.instance_id}"


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """The reason why no instance is created or touched."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class InstanceClaim:
    """The identity of an NstanceMachine, and the places that it names."""

    uid: str
    created: datetime | None
    recorded: InstancePlace | None = None
    """The place in the status."""
    annotated: InstancePlace | None = None
    """The place in the annotation, which its writer may have copied from anywhere."""

    @property
    def own_id(self) -> str:
        """The id of the instance that was created for this object."""
        return instance_id(self.uid, self.created)

    @property
    def ids(self) -> frozenset[str]:
        """All ids that the object may claim, for an index."""
        named = {place.instance_id for place in (self.recorded, self.annotated) if place is not None}
        return frozenset(named | {self.own_id})

    def strength(self, wanted: str) -> tuple[int, float, str]:
        """Return the rank of this claim to an id, the strongest first: by uid, by status, by annotation, the oldest of equals."""
        recorded = self.recorded is not None and self.recorded.instance_id == wanted
        proof = 0 if self.own_id == wanted else 1 if recorded else 2
        return proof, self.created.timestamp() if self.created else 0.0, self.uid


def instance_id(uid: str, created: datetime | None) -> str:
    """Return the id of the instance of an NstanceMachine: 31 lower-case letters and digits; later objects sort after earlier objects.

    >>> instance_id("0b7e", None)
    'knc00000000000041769743a108c396'
    """
    since = 0 if created is None else int(created.timestamp() * 1000)
    return f"knc{since:012x}{hashlib.sha256(uid.encode()).hexdigest()[:16]}"


def owned_place(
    own: InstanceClaim, others: Iterable[InstanceClaim], *, adopts: bool
) -> InstancePlace | NotPlaced | None:
    """Return the place of an object's instance; None if the object has none yet, NotPlaced if an annotation names a foreign instance.

    `others` are the claims of the other objects to the same ids. `adopts` is the permission to take over a foreign instance.
    """
    rivals = tuple(others)
    for place in (own.recorded, own.annotated):
        if place is not None and place.instance_id == own.own_id:
            return place
    if own.recorded is not None and _is_strongest(own, rivals, own.recorded.instance_id):
        return own.recorded
    if own.annotated is None or not _is_strongest(own, rivals, own.annotated.instance_id):
        return None
    return own.annotated if adopts else NotPlaced(MachineReason.FOREIGN_INSTANCE, _foreign(own.annotated))


def _is_strongest(own: InstanceClaim, rivals: Iterable[InstanceClaim], wanted: str) -> bool:
    strength = own.strength(wanted)
    return all(strength < rival.strength(wanted) for rival in rivals if wanted in rival.ids)


def _foreign(place: InstancePlace) -> str:
    return (
        f"the annotation names instance {place.instance_id}, which was not created for this object: nothing is done with the instance. "
        "Remove the annotation, and the object gets an instance of its own; after a move or a restore, an administrator lets the "
        "operator take the instance over by the setting machines.adopt_instances"
    )


def not_of_group(place: InstancePlace, group: str) -> NotPlaced:
    """Return the reason why an inherited instance is not touched: the server counts it for a group, so a pool has it."""
    message = (
        f"instance {place.instance_id} counts for group {group} on its shard, so it was not created for this object: nothing is done "
        "with the instance. Delete this object, and create another if it is needed"
    )
    return NotPlaced(MachineReason.FOREIGN_INSTANCE, message)
