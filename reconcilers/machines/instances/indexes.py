"""The indexes of NstanceMachines, the references between an NstanceMachine and its Machine, and the objects that a change concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from konverge.crds.machines_v1beta1 import NstanceMachine
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.reconcilers.machines.instances.ownership import InstanceClaim, InstancePlace
from konverge.reconcilers.machines.kinds import CAPI_GROUP, NSTANCE_MACHINE
from konverge.reconcilers.machines.pools.indexes import BY_INSTANCE
from konverge.reconcilers.machines.words import MachinesAnnotation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from konverge.objects import Object, OwnerReference
    from konverge.runtime import Caches

__all__ = [
    "BY_CLAIMED_ID",
    "by_claimed_id",
    "by_provider_name",
    "claim_of",
    "infrastructure_of",
    "machine_of_node",
    "machine_of_owner",
    "owner_of",
]

BY_CLAIMED_ID: Final = "claimed-id"


def claim_of(machine: Object) -> InstanceClaim:
    """Return the claims of an NstanceMachine to instances."""
    shard, recorded = (machine.get("status", name, default="") or "" for name in ("shard", "instanceID"))
    metadata = machine.metadata
    return InstanceClaim(
        metadata.uid,
        metadata.created,
        recorded=InstancePlace.parse(f"{shard}/{recorded}"),
        annotated=InstancePlace.parse(metadata.annotation(MachinesAnnotation.INSTANCE)),
    )


def by_claimed_id(machine: Object) -> tuple[str, ...]:
    """Return the values of the index BY_CLAIMED_ID."""
    return tuple(claim_of(machine).ids)


def by_provider_name(machine: Object) -> tuple[str, ...]:
    """Return the last part of the provider id, which matches a Node."""
    provider_id = machine.get("spec", "providerID", default="") or machine.get("status", "providerID", default="")
    return (str(provider_id).rpartition("/")[2],) if provider_id else ()


def owner_of(machine: NstanceMachine) -> OwnerReference | None:
    """Return the reference to the Machine that owns an NstanceMachine; a MachineSet may own it first."""
    references = machine.metadata.owner_references or ()
    machines = (reference for reference in references if (reference.kind, reference.group) == ("Machine", CAPI_GROUP))
    return next(machines, None)


def infrastructure_of(machine: Object) -> str:
    """Return the name of the NstanceMachine that a Machine refers to, "" if it refers to none."""
    reference = machine.get("spec", "infrastructureRef", default={}) or {}
    ours = (reference.get("kind"), reference.get("apiGroup")) == ("NstanceMachine", NSTANCE_MACHINE.group)
    return str(reference.get("name", "")) if ours else ""


def machine_of_owner(machine: Object, _: Caches) -> Iterable[Key]:
    """Map a Machine to the NstanceMachine that it refers to."""
    name = infrastructure_of(machine)
    return [_key(machine.namespace, name)] if name else ()


def machine_of_node(node: Object, caches: Caches) -> Iterable[Key]:
    """Map a Node to the NstanceMachine of its instance."""
    name = str(node.get("spec", "providerID", default="")).rpartition("/")[2]
    machines = caches(NSTANCE_MACHINE).metadata_by_index(BY_INSTANCE, name) if name else ()
    return [_key(machine.namespace, machine.name) for machine in machines]


def _key(namespace: str, name: str) -> Key:
    return Key("", kind_of(NstanceMachine), namespace, name)
