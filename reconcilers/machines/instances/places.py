"""The place of a new instance: its shard and its id. Pure.

The shard and the id are chosen and stored before the instance is created, so that a crash at any point leaves them known. The id consists
of the object's time of creation and a hash of its uid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from konverge.reconcilers.machines.instances.ownership import InstancePlace, NotPlaced, instance_id
from konverge.reconcilers.machines.shards.addresses import is_identifier
from konverge.reconcilers.machines.words import MachineReason

__all__ = ["PlaceRequest", "choose_place"]


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """An NstanceMachine without a place."""

    uid: str
    created: datetime | None
    group: str
    has_machine: bool = True
    """Whether an owner that is a Machine, and is not being deleted, exists."""
    failure_domain: str = ""
    """The shard that its Machine or its own spec requests."""
    document: Collection[str] | None = None
    """The shards that the document names; None: it was not read yet."""
    reachable: Collection[str] = ()


def choose_place(request: PlaceRequest) -> InstancePlace | NotPlaced:
    """Return the place of a new instance: on the requested shard, else on a shard that is derived from the uid."""
    if not request.has_machine:
        return NotPlaced(MachineReason.WAITING_FOR_MACHINE, "waits for the Machine that owns it")
    if not is_identifier(request.group):
        message = (
            f"groupRef {request.group!r} is not the name of a group: use at most 32 lower-case letters and digits, "
            "with single hyphens inside"
        )
        return NotPlaced(MachineReason.INVALID, message)
    if request.document is None:
        return NotPlaced(MachineReason.WAITING_FOR_SHARD, "waits for the document of shards")
    if request.failure_domain:
        if request.failure_domain not in request.document:
            message = f"the document of shards does not name {request.failure_domain}, which is the failure domain"
            return NotPlaced(MachineReason.INVALID, message)
        return InstancePlace(request.failure_domain, instance_id(request.uid, request.created))
    shards = sorted(set(request.reachable) & set(request.document))
    if not shards:
        return NotPlaced(MachineReason.WAITING_FOR_SHARD, "waits for a shard that can be reached")
    number = int.from_bytes(hashlib.sha256(request.uid.encode()).digest()[:8])
    return InstancePlace(shards[number % len(shards)], instance_id(request.uid, request.created))
