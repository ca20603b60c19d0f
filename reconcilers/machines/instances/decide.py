"""The place of a new instance, and the meaning of its state for an NstanceMachine. Pure.

The shard and the id are chosen and stored before the instance is created, so that a crash at any point leaves them known. The id is derived
from the object: its time of creation, then a hash of its uid.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from konverge.objects import Object
from konverge.reconcilers.machines.correlation import pool_provider_ids
from konverge.reconcilers.machines.instances.ownership import InstancePlace, NotPlaced, instance_id
from konverge.reconcilers.machines.shards.addresses import is_identifier
from konverge.reconcilers.machines.shards.messages import InstanceState
from konverge.reconcilers.machines.words import MachineReason

__all__ = [
    "InstancePlan",
    "PlaceRequest",
    "choose_place",
    "condition_reason",
    "is_gone",
    "only_node_of",
    "plan_instance",
]

_RUNNING: Final = "running"
_GONE: Final = frozenset({"deleted", "terminated"})
_STOPS: Final = frozenset({"deleting", "stopping", "stopped", "suspending", "suspended", "terminating"})


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


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """The next status of an NstanceMachine that has an instance."""

    ready: bool
    reason: str
    message: str
    provider_id: str = ""
    """The Node's provider id if it is known, else the server's; "" while the server has none."""
    provisioned: bool = False
    settled: bool = False
    """Whether to poll the server less often."""
    ended: bool = False
    """Whether the instance was deleted although the NstanceMachine was not."""


def choose_place(asked: PlaceRequest) -> InstancePlace | NotPlaced:
    """Return the place of a new instance: on the requested shard, else on a shard that is derived from the uid."""
    if not asked.has_machine:
        return NotPlaced(MachineReason.WAITING_FOR_MACHINE, "waits for the Machine that owns it")
    if not is_identifier(asked.group):
        message = (
            f"groupRef {asked.group!r} is not the name of a group: use at most 32 lower-case letters and digits, "
            "with single hyphens inside"
        )
        return NotPlaced(MachineReason.INVALID, message)
    if asked.document is None:
        return NotPlaced(MachineReason.WAITING_FOR_SHARD, "waits for the document of shards")
    if asked.failure_domain:
        if asked.failure_domain not in asked.document:
            message = f"the document of shards does not name {asked.failure_domain}, which is the failure domain"
            return NotPlaced(MachineReason.INVALID, message)
        return InstancePlace(asked.failure_domain, instance_id(asked.uid, asked.created))
    shards = sorted(set(asked.reachable) & set(asked.document))
    if not shards:
        return NotPlaced(MachineReason.WAITING_FOR_SHARD, "waits for a shard that can be reached")
    number = int.from_bytes(hashlib.sha256(asked.uid.encode()).digest()[:8])
    return InstancePlace(shards[number % len(shards)], instance_id(asked.uid, asked.created))


def is_gone(status: str) -> bool:
    """Tell whether a server's status means that the instance does not exist any more."""
    return status in _GONE


def plan_instance(
    state: InstanceState | None,
    *,
    provisioned: bool,
    recorded: str = "",
    published: str = "",
    node_ids: Iterable[str] = (),
) -> InstancePlan:
    """Return the meaning of an instance's state; None: the server does not know the instance any more.

    `recorded` is the provider id of the status, as the server named it before. `published` is the provider id of the spec: it stays if it
    is the id of a matched Node, and is replaced if it names another instance. `provisioned` was true before, and stays.
    """
    if state is None or is_gone(state.status):
        said = "the server does not know it any more" if state is None else f"it is {state.status}"
        return InstancePlan(
            False, MachineReason.SERVER_DELETED, f"the instance is gone: {said}", published, provisioned, ended=True
        )
    known = [published] if published else []
    bare = state.provider_id or recorded
    found = pool_provider_ids([bare], published=known, node_ids=node_ids) if bare else ()
    provider_id = found[0] if found else ""
    runs = state.status == _RUNNING and bool(provider_id)
    if runs:
        return InstancePlan(True, MachineReason.RUNNING, "the instance runs", provider_id, True, settled=True)
    reason = MachineReason.STOPPED if state.status in _STOPS else MachineReason.STARTING
    message = f"the instance is {state.status or 'in no known state'}"
    if state.status == _RUNNING:
        message = "the instance runs, and the server does not know its provider id yet"
    return InstancePlan(False, reason, message, provider_id, provisioned)


def only_node_of(provider_id: str, nodes: Iterable[Object]) -> str:
    """Return the name of the only Node that has exactly this provider id, "" if none or several have it.

    >>> only_node_of("aws:///z/i-0a", [])
    ''
    """
    if not provider_id:
        return ""
    found = [one for one in nodes if one.get("spec", "providerID", default="") == provider_id]
    return found[0].name if len(found) == 1 and not found[0].metadata.deleting else ""


_REASON = re.compile(r"[^A-Za-z0-9]+")


def condition_reason(said: str) -> str:
    """Return the reason of a condition from a reason of a server.

    >>> condition_reason("spot-interruption: 2m"), condition_reason(""), condition_reason("42")
    ('SpotInterruption2m', 'ServerDeleted', 'ServerDeleted')
    """
    words = [word[:1].upper() + word[1:] for word in _REASON.split(said) if word]
    made = "".join(words)[:256]
    return made if made[:1].isalpha() else MachineReason.SERVER_DELETED
